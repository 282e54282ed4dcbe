package tuners_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/trial"
	"github.com/perennial-ml/perennial/tuners"
)

// player plays an experiment by hand, and at every ask against a tuner that is
// rebuilt from the log.
type player struct {
	t     require.TestingT
	spec  tuners.Spec
	tuner tuners.Tuner
	log   []trial.Event
	next  int
}

// asked is a trial that a tuner asked for.
type asked struct {
	n          int
	id         string
	parameters map[string]any
	raw        trial.Parameters
}

const oneNumber = `{"x": {"_type": "uniform", "_value": [0, 1]}}`

func play(t require.TestingT, name, arguments, space string) *player {
	p := &player{t: t, spec: tuners.Spec{
		Name: name, Arguments: json.RawMessage(arguments), Space: json.RawMessage(space), Seed: 5, Checkpoints: "/kept",
	}}
	p.tuner = p.build()
	return p
}

func (p *player) build() tuners.Tuner {
	tuner, err := tuners.New(p.spec)
	require.NoError(p.t, err)
	return tuner
}

func (p *player) propose() tuners.Proposal {
	proposal, err := p.tuner.Propose(p.next)
	require.NoError(p.t, err)
	return proposal
}

// ask has the tuner propose, and records that.
func (p *player) ask() asked {
	proposal := p.propose()
	require.Equal(p.t, tuners.Try, proposal.Answer)
	a := asked{n: p.next, raw: proposal.Parameters}
	require.NoError(p.t, json.Unmarshal(proposal.Parameters, &a.parameters))
	if proposal.ParameterID != nil {
		require.NoError(p.t, json.Unmarshal(proposal.ParameterID, &a.id))
	}
	p.apply(trial.KindAsked, p.next, trial.Asked{Parameters: proposal.Parameters, Source: trial.SourceAlgorithm, ParameterID: proposal.ParameterID})
	p.next++
	return a
}

func (p *player) asks(n int) []asked {
	var all []asked
	for range n {
		all = append(all, p.ask())
	}
	return all
}

func (p *player) apply(kind trial.Kind, sequence int, data any) {
	raw, err := json.Marshal(data)
	require.NoError(p.t, err)
	event := trial.Event{Number: int64(len(p.log)) + 1, Kind: kind, Sequence: sequence, Attempt: 1, Data: raw}
	require.NoError(p.t, p.tuner.Apply(event))
	p.log = append(p.log, event)
}

func (p *player) report(a asked, value float64) {
	p.apply(trial.KindIntermediate, a.n, trial.Intermediate{Value: &value})
}

func (p *player) succeed(a asked, value float64) {
	p.apply(trial.KindEnded, a.n, trial.Ended{State: trial.Succeeded, Value: &value, Source: trial.SourceAlgorithm})
}

func (p *player) end(a asked, state trial.State) {
	p.apply(trial.KindEnded, a.n, trial.Ended{State: state, Source: trial.SourceAlgorithm})
}

func (p *player) setSpace(space string) {
	p.apply(trial.KindCommand, trial.NoTrial, trial.Command{Name: trial.SetSearchSpace, Value: json.RawMessage(space)})
}

// restart replaces the tuner by one that is rebuilt from the log, which must go on
// as the old one would.
func (p *player) restart() {
	want := p.propose()
	p.tuner = p.build()
	for _, event := range p.log {
		require.NoError(p.t, p.tuner.Apply(event))
	}
	require.Equal(p.t, want, p.propose())
}

func refuses(t *testing.T, spec tuners.Spec, want string) {
	if spec.Space == nil {
		spec.Space = json.RawMessage(oneNumber)
	}
	_, err := tuners.New(spec)
	require.EqualError(t, err, want)
}
