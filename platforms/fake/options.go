package fake

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/trial"
)

// Settings is the platform's section of an experiment's configuration: how runs
// behave, and exceptions for some of them.
type Settings struct {
	Behaviour
	// Token stands for the credentials of real platforms: it must not be empty
	// where it is set, and is neither kept nor shown.
	Token *string `json:"token,omitempty"`
	// Rules are applied in order on top of the behaviour above: each field that a
	// rule names replaces what was there.
	Rules []Rule `json:"rules,omitempty"`
}

// Rule is a behaviour for some runs.
type Rule struct {
	Trials   []int `json:"trials,omitempty"`   // NNI's sequence ids, from 0; empty: every trial
	Attempts []int `json:"attempts,omitempty"` // from 1; empty: every attempt
	Behaviour
	fields json.RawMessage
}

// Behaviour is what a run does. Times are seconds; those of a run count from its
// submission.
type Behaviour struct {
	Waiting       Span       `json:"waiting,omitzero"`        // before it runs; 0
	Duration      Span       `json:"duration,omitzero"`       // of its running; 0
	Intermediates []Metric   `json:"intermediates,omitempty"` // spread evenly over Duration where they have no time
	Final         *Metric    `json:"final,omitempty"`         // at its end; none by default
	ExitCode      int        `json:"exitCode,omitempty"`
	LostAfter     *float64   `json:"lostAfter,omitempty"`   // the run is lost then, a fault of the platform
	Unreachable   [][2]Place `json:"unreachable,omitempty"` // from and to: nothing is heard of the run
	LostReplies   int        `json:"lostReplies,omitempty"` // how many answers of Submit are lost after it did its work
}

// Place is a moment of a run, in seconds from its submission.
type Place = float64

// Span is a number of seconds, or [lowest, highest] with a choice for each run
// that is always the same for it.
type Span struct{ Lowest, Highest float64 }

// UnmarshalJSON reads a number or a pair of numbers.
func (s *Span) UnmarshalJSON(text []byte) error {
	if json.Unmarshal(text, &s.Lowest) == nil {
		s.Highest = s.Lowest
		return nil
	}
	var pair []float64
	if json.Unmarshal(text, &pair) != nil || len(pair) != 2 || pair[0] < 0 || pair[1] < pair[0] {
		return fmt.Errorf("%s is neither a number of seconds nor [lowest, highest]", text)
	}
	s.Lowest, s.Highest = pair[0], pair[1]
	return nil
}

// MarshalJSON writes the pair.
func (s Span) MarshalJSON() ([]byte, error) { return json.Marshal([]float64{s.Lowest, s.Highest}) }

// of chooses for one run: evenly, by a hash of its key and the purpose.
func (s Span) of(key trial.Key, purpose string) time.Duration {
	sum := sha256.Sum256([]byte(purpose + " " + key.String()))
	share := float64(binary.BigEndian.Uint64(sum[:8])>>11) / (1 << 53)
	return seconds(s.Lowest + share*(s.Highest-s.Lowest))
}

func seconds(number float64) time.Duration { return time.Duration(number * float64(time.Second)) }

// Metric is one reported value: a JSON constant as a trial would report it; or
// {"parameter": NAME}, the trial's own value of it; or {"raw": TEXT} for what JSON
// cannot say, such as NaN; or any of them in {"at": SECONDS, "value": …}, with the
// time since the run began to run.
type Metric struct {
	at        *float64
	constant  json.RawMessage
	parameter string
}

type metricForms struct {
	At        *float64        `json:"at"`
	Value     json.RawMessage `json:"value"`
	Parameter *string         `json:"parameter"`
	Raw       *string         `json:"raw"`
}

// UnmarshalJSON reads any of the forms.
func (m *Metric) UnmarshalJSON(text []byte) error {
	*m = Metric{}
	var forms metricForms
	err := strictly(text, &forms)
	switch {
	case err == nil && forms.At != nil && forms.Value != nil:
		if err := json.Unmarshal(forms.Value, m); err != nil {
			return err
		}
		m.at = forms.At
	case err == nil && forms.Parameter != nil:
		m.parameter = *forms.Parameter
	case err == nil && forms.Raw != nil:
		m.constant = json.RawMessage(*forms.Raw)
	default:
		m.constant = bytes.Clone(text)
	}
	return nil
}

// value returns what a trial with these parameters reports.
func (m Metric) value(parameters trial.Parameters) (string, error) {
	if m.parameter == "" {
		return string(m.constant), nil
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(parameters, &object); err != nil {
		return "", fmt.Errorf("the parameters are no object: %w", err)
	}
	value, found := object[m.parameter]
	if !found {
		return "", fmt.Errorf("there is no parameter %q to report", m.parameter)
	}
	return string(value), nil
}

// ParseOptions reads the platform's section. Unknown keys are errors.
func ParseOptions(text json.RawMessage) (Settings, error) {
	var settings Settings
	if len(bytes.TrimSpace(text)) == 0 {
		return settings, nil
	}
	if err := strictly(text, &settings); err != nil {
		return settings, fmt.Errorf("options of platform fake: %w", err)
	}
	return settings, settings.check()
}

func (s Settings) check() error {
	for _, rule := range s.Rules {
		if slices.ContainsFunc(rule.Attempts, func(n int) bool { return n < 1 }) {
			return errors.New("options of platform fake: attempts count from 1")
		}
	}
	return nil
}

// checkToken refuses credentials that name the place of a secret instead of being
// one.
func (s Settings) checkToken() error {
	if s.Token != nil && (*s.Token == "" || strings.HasPrefix(*s.Token, "${")) {
		return platforms.Errorf(platforms.Denied, "submit", "the token is empty, or still a reference")
	}
	return nil
}

func strictly(text []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	return decoder.Decode(into)
}

// UnmarshalJSON keeps the rule's text, so that only the fields it names replace
// others.
func (r *Rule) UnmarshalJSON(text []byte) error {
	type plain Rule
	if err := strictly(text, (*plain)(r)); err != nil {
		return err
	}
	r.fields = bytes.Clone(text)
	return nil
}

func (r Rule) covers(key trial.Key) bool {
	return (len(r.Trials) == 0 || slices.Contains(r.Trials, key.Sequence)) &&
		(len(r.Attempts) == 0 || slices.Contains(r.Attempts, key.Attempt))
}

func (s Settings) behaviourOf(key trial.Key) Behaviour {
	chosen := s.Behaviour.clone()
	for _, rule := range s.Rules {
		if rule.covers(key) {
			json.Unmarshal(rule.fields, &chosen) // it was read once already
		}
	}
	return chosen
}

// clone shares nothing with the original, into which JSON would otherwise write.
func (b Behaviour) clone() Behaviour {
	b.Intermediates = slices.Clone(b.Intermediates)
	b.Unreachable = slices.Clone(b.Unreachable)
	if b.Final != nil {
		final := *b.Final
		b.Final = &final
	}
	if b.LostAfter != nil {
		lost := *b.LostAfter
		b.LostAfter = &lost
	}
	return b
}
