package bridge

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/perennial-ml/perennial/arguments"
	"github.com/perennial-ml/perennial/trial"
	"github.com/perennial-ml/perennial/tuners"
)

// Serve is the other side of the protocol of Line: it reads lines until in ends and
// answers them on out by one of our own algorithms: the tuner of that name, or the
// assessor, nil where there is none. What a suggest is answered with counts as asked,
// unless an asked for that trial follows. Its errors name the line.
func Serve(in io.Reader, out io.Writer, name string, assessor *Assessor) error {
	s := &served{name: name, available: assessor, out: json.NewEncoder(out), sources: map[int]string{}, held: map[int]trial.Event{}}
	s.out.SetEscapeHTML(false)
	scanner := bufio.NewScanner(in)
	scanner.Buffer(nil, maxContent)
	for number := 1; scanner.Scan(); number++ {
		if len(bytes.TrimSpace(scanner.Bytes())) == 0 {
			continue
		}
		if err := s.take(scanner.Bytes()); err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
	}
	return scanner.Err()
}

// Assessor is an assessor of ours that can be made.
type Assessor struct {
	Arguments []arguments.Argument // that it takes
	New       func(arguments json.RawMessage) (Judge, error)
}

// Judge takes the next event and says whether its trial shall be stopped.
type Judge func(trial.Event) (stop bool, err error)

// served is one of our algorithms as a process.
type served struct {
	name      string
	out       *json.Encoder
	tuner     tuners.Tuner
	available *Assessor
	judge     Judge
	named     bool                // it knows trials by ids of its own
	sources   map[int]string      // of the trials that have not ended
	held      map[int]trial.Event // asks that an asked may still replace
	events    int64
}

func (s *served) take(text []byte) error {
	var line Line
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&line); err != nil {
		return fmt.Errorf("is no message: %w", err)
	}
	if line.Op == OpOpen {
		return s.open(line)
	}
	if s.tuner == nil && s.judge == nil {
		return errors.New(`comes before {"op":"open"}`)
	}
	if line.Op == OpSpace {
		return s.apply(trial.KindCommand, trial.NoTrial, trial.Command{Name: trial.SetSearchSpace, Value: line.Space})
	}
	if line.Trial == nil {
		return fmt.Errorf("%q names no trial", line.Op)
	}
	return s.treat(line, *line.Trial)
}

func (s *served) open(line Line) (err error) {
	arguments, err := withMode(line, s.takesMode())
	if err != nil {
		return err
	}
	var seed uint64
	if line.Seed != nil {
		seed = *line.Seed
	}
	if s.available != nil && (line.Role == "assessor" || tuners.Native()[strings.ToLower(s.name)] == nil) {
		s.judge, err = s.available.New(arguments)
		return err
	}
	s.tuner, err = tuners.New(tuners.Spec{Name: s.name, Arguments: arguments, Space: line.Space, Seed: seed})
	if err != nil {
		return err
	}
	first, err := s.tuner.Propose(0)
	s.named = first.ParameterID != nil
	return err
}

func (s *served) takesMode() bool {
	all := tuners.Describe(s.name)
	if s.available != nil {
		all = slices.Concat(all, s.available.Arguments)
	}
	return slices.ContainsFunc(all, func(a arguments.Argument) bool { return a.Name == "optimize_mode" })
}

// withMode puts the mode of an open where our algorithms look for it, unless the
// arguments have one.
func withMode(line Line, takes bool) (json.RawMessage, error) {
	arguments := map[string]json.RawMessage{}
	if len(line.Arguments) > 0 && json.Unmarshal(line.Arguments, &arguments) != nil {
		return nil, fmt.Errorf("arguments is %.100s: want an object", line.Arguments)
	}
	if line.Mode != "" && arguments["optimize_mode"] == nil && takes {
		arguments["optimize_mode"] = fmt.Appendf(nil, "%q", line.Mode)
	}
	return json.Marshal(arguments)
}

func (s *served) treat(line Line, n int) error {
	switch line.Op {
	case OpSuggest:
		return s.suggest(n)
	case OpAsked:
		return s.asked(line, n)
	case OpIntermediate:
		return s.intermediate(line, n)
	case OpObserve:
		return s.observe(line, n)
	}
	return fmt.Errorf("%q is none of open, space, suggest, asked, observe, intermediate", line.Op)
}

func (s *served) suggest(n int) error {
	if s.tuner == nil {
		return fmt.Errorf("%s is an assessor: it suggests nothing", s.name)
	}
	if err := s.release(); err != nil {
		return err
	}
	proposal, err := s.tuner.Propose(n)
	if err != nil {
		return err
	}
	switch proposal.Answer {
	case tuners.Wait:
		return s.out.Encode(Line{Trial: &n, Wait: true})
	case tuners.Exhausted:
		return s.out.Encode(Line{Trial: &n, Exhausted: true})
	}
	s.held[n], err = s.event(trial.KindAsked, n, trial.Asked{Parameters: proposal.Parameters, Source: trial.SourceAlgorithm, ParameterID: proposal.ParameterID})
	if err != nil {
		return err
	}
	return s.out.Encode(Line{Trial: &n, Parameters: json.RawMessage(proposal.Parameters), ParameterID: proposal.ParameterID})
}

// release applies the asks that nothing has replaced.
func (s *served) release() error {
	for _, n := range slices.Sorted(maps.Keys(s.held)) {
		event := s.held[n]
		delete(s.held, n)
		s.sources[n] = trial.SourceAlgorithm
		if err := s.pass(event); err != nil {
			return err
		}
	}
	return nil
}

// asked takes note of a trial, in place of what was suggested for it.
func (s *served) asked(line Line, n int) error {
	source := trial.SourceAlgorithm
	if line.Customized {
		source = trial.SourceCustomized
	} else if s.named && line.ParameterID == nil {
		return fmt.Errorf(`"asked" has no "parameterId", by which %s knows its trials: want that of a suggestion, or "customized":true`, s.name)
	}
	delete(s.held, n)
	s.sources[n] = source
	return s.apply(trial.KindAsked, n, trial.Asked{Parameters: trial.Parameters(line.Parameters), Source: source, ParameterID: line.ParameterID})
}

func (s *served) intermediate(line Line, n int) error {
	value, err := numberOf(line.Value)
	if err != nil {
		return err
	}
	step := int64(0)
	if line.Sequence != nil {
		step = int64(*line.Sequence)
	}
	return s.apply(trial.KindIntermediate, n, trial.Intermediate{Step: step, Value: value})
}

func (s *served) observe(line Line, n int) error {
	value, err := numberOf(line.Value)
	if err != nil {
		return err
	}
	if err := s.release(); err != nil {
		return err
	}
	for state, status := range statuses {
		if status == line.Status && state != trial.SysCanceled {
			source := s.sources[n]
			delete(s.sources, n)
			return s.apply(trial.KindEnded, n, trial.Ended{State: state, Value: value, Source: source})
		}
	}
	return fmt.Errorf("status is %q: want succeeded, failed, stopped or canceled", line.Status)
}

func numberOf(raw json.RawMessage) (*float64, error) {
	var value *float64
	if len(raw) > 0 && json.Unmarshal(raw, &value) != nil {
		return nil, fmt.Errorf("value is %s: want a number or null", raw)
	}
	return value, nil
}

func (s *served) apply(kind trial.Kind, n int, data any) error {
	if err := s.release(); err != nil {
		return err
	}
	event, err := s.event(kind, n, data)
	if err != nil {
		return err
	}
	return s.pass(event)
}

func (s *served) event(kind trial.Kind, n int, data any) (trial.Event, error) {
	raw, err := json.Marshal(data)
	s.events++
	return trial.Event{Number: s.events, Kind: kind, Sequence: n, Attempt: 1, Data: raw}, err
}

func (s *served) pass(event trial.Event) error {
	if s.tuner != nil {
		return s.tuner.Apply(event)
	}
	stop, err := s.judge(event)
	if err != nil || !stop {
		return err
	}
	return s.out.Encode(Line{Trial: &event.Sequence, Stop: true})
}
