package tunertest

import (
	"encoding/json"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/perennial-ml/perennial/trial"
	"github.com/perennial-ml/perennial/tuners"
)

// history is a random life of an experiment: its log so far, and a tuner that saw
// every event as it came.
type history struct {
	t       *rapid.T
	suite   suite
	spec    tuners.Spec // as the experiment was begun
	space   json.RawMessage
	live    tuners.Tuner
	log     []trial.Event
	sources map[int]string // of all trials asked, by sequence
	open    []int
	next    int // the number the next trial will have
}

func newHistory(t *rapid.T, s suite) *history {
	h := &history{t: t, suite: s, spec: s.options.Spec, sources: map[int]string{}}
	h.spec.Space = s.options.Spaces.Draw(t, "space")
	h.space = h.spec.Space
	h.live = h.build()
	return h
}

func (h *history) build() tuners.Tuner {
	tuner, err := h.suite.build(h.spec)
	require.NoError(h.t, err)
	return tuner
}

// rebuilt is a tuner as after a restart, fed with the events that keep lets by.
func (h *history) rebuilt(keep func(trial.Event) bool) tuners.Tuner {
	tuner := h.build()
	for _, event := range h.log {
		if keep(event) {
			require.NoError(h.t, tuner.Apply(event))
		}
	}
	return tuner
}

func everything(trial.Event) bool { return true }

// customized tells whether an event belongs to a trial of the user's own.
func (h *history) customized(event trial.Event) bool {
	return h.sources[event.Sequence] == trial.SourceCustomized
}

func (h *history) propose(tuner tuners.Tuner) tuners.Proposal {
	proposal, err := tuner.Propose(h.next)
	require.NoError(h.t, err)
	return proposal
}

// event is the next entry of the log.
func (h *history) event(kind trial.Kind, sequence int, data any) trial.Event {
	raw, err := json.Marshal(data)
	require.NoError(h.t, err)
	return trial.Event{Number: int64(len(h.log)) + 1, Kind: kind, Sequence: sequence, Attempt: 1, Data: raw}
}

func (h *history) append(event trial.Event) {
	require.NoError(h.t, h.live.Apply(event))
	h.log = append(h.log, event)
}

// step appends one random event, where one of its kind is possible.
func (h *history) step() {
	steps := []func(){h.ask, h.ask, h.ask, h.askOther, h.customise, h.report, h.end, h.end, h.command, h.setSpace}
	steps[rapid.IntRange(0, len(steps)-1).Draw(h.t, "step")]()
}

func (h *history) ask() {
	if proposal := h.propose(h.live); proposal.Answer == tuners.Try {
		h.asked(trial.Asked{Parameters: proposal.Parameters, Source: trial.SourceAlgorithm, ParameterID: proposal.ParameterID})
	}
}

// refill asks until so many trials are open, or there is nothing to ask for.
func (h *history) refill(most int) {
	for before := -1; len(h.open) < most && len(h.open) != before; {
		before = len(h.open)
		h.ask()
	}
}

// askOther records an ask that the tuner would not have made now: another computer
// or an older version did.
func (h *history) askOther() {
	proposal := h.propose(h.live)
	if proposal.Answer != tuners.Try {
		return
	}
	other := h.rebuilt(everything)
	ask := trial.Asked{Parameters: proposal.Parameters, Source: trial.SourceAlgorithm, ParameterID: proposal.ParameterID}
	require.NoError(h.t, other.Apply(h.event(trial.KindAsked, h.next, ask)))
	second, err := other.Propose(h.next + 1)
	require.NoError(h.t, err)
	if second.Answer == tuners.Try {
		h.asked(trial.Asked{Parameters: second.Parameters, Source: trial.SourceAlgorithm, ParameterID: second.ParameterID})
	}
}

func (h *history) customise() {
	parameters := trial.Parameters(`{"chosen": "by hand"}`)
	if proposal := h.propose(h.live); proposal.Answer == tuners.Try {
		parameters = proposal.Parameters
	}
	h.asked(trial.Asked{Parameters: parameters, Source: trial.SourceCustomized})
}

func (h *history) asked(ask trial.Asked) {
	h.sources[h.next] = ask.Source
	h.append(h.event(trial.KindAsked, h.next, ask))
	h.open = append(h.open, h.next)
	h.next++
}

// value is a metric; nil, too, which is a trial without one, or one that is NaN.
func (h *history) value() *float64 {
	return rapid.Ptr(rapid.Float64Range(-1e6, 1e6), true).Draw(h.t, "value")
}

func (h *history) report() {
	if len(h.open) > 0 {
		sequence := rapid.SampledFrom(h.open).Draw(h.t, "trial")
		h.append(h.event(trial.KindIntermediate, sequence, trial.Intermediate{Step: int64(len(h.log)), Value: h.value()}))
	}
}

// end settles any open trial, not only the oldest.
func (h *history) end() {
	if len(h.open) == 0 {
		return
	}
	i := rapid.IntRange(0, len(h.open)-1).Draw(h.t, "trial")
	sequence := h.open[i]
	h.open = append(h.open[:i:i], h.open[i+1:]...)
	states := []trial.State{trial.Succeeded, trial.Succeeded, trial.Failed, trial.UserCanceled, trial.EarlyStopped}
	ended := trial.Ended{State: rapid.SampledFrom(states).Draw(h.t, "state"), Source: h.sources[sequence]}
	if ended.State == trial.Succeeded {
		ended.Value = h.value()
	}
	h.append(h.event(trial.KindEnded, sequence, ended))
}

// command is one of no concern to tuners.
func (h *history) command() {
	h.append(h.event(trial.KindCommand, trial.NoTrial, trial.Command{ID: "c", Name: trial.SetConcurrency, Value: json.RawMessage("4")}))
	h.append(trial.Event{Number: int64(len(h.log)) + 1, Kind: trial.KindUndriven, Sequence: 0})
}

func (h *history) setSpace() {
	if rapid.IntRange(0, 2).Draw(h.t, "rarely") > 0 {
		return
	}
	h.space = h.suite.options.Spaces.Draw(h.t, "new space")
	h.append(h.event(trial.KindCommand, trial.NoTrial, trial.Command{ID: "s", Name: trial.SetSearchSpace, Value: h.space}))
}
