package main

import (
	"encoding/json"
	"fmt"

	"github.com/perennial-ml/perennial/trial"
	"github.com/perennial-ml/perennial/tuners"
)

// Contender is an algorithm that is measured. It minimises.
type Contender interface {
	Name() string
	// Version tells whose results may be kept for later runs: "" means nobody's.
	Version() string
	// Begin starts a search. One runs at a time.
	Begin(space json.RawMessage, seed uint64) (Search, error)
	Close() error
}

// Search is one experiment of a contender.
type Search interface {
	Suggest(n int) (json.RawMessage, error)
	Observe(n int, value float64) error
}

// native is a tuner of ours, reached by its name through the tuners' interface.
type native struct {
	name      string
	arguments json.RawMessage
}

func (c native) Name() string    { return c.name }
func (c native) Version() string { return "" }
func (c native) Close() error    { return nil }

func (c native) Begin(space json.RawMessage, seed uint64) (Search, error) {
	tuner, err := tuners.New(tuners.Spec{Name: c.name, Arguments: minimised(c.arguments), Space: space, Seed: seed})
	return &nativeSearch{tuner: tuner}, err
}

// minimised adds optimize_mode, which tuners of NNI's set to maximize where it is
// not given.
func minimised(arguments json.RawMessage) json.RawMessage {
	all := map[string]any{"optimize_mode": "minimize"}
	json.Unmarshal(arguments, &all) // what is no object the tuner refuses
	raw, err := json.Marshal(all)
	if err != nil {
		return arguments
	}
	return raw
}

type nativeSearch struct {
	tuner tuners.Tuner
	log   int64
}

func (s *nativeSearch) Suggest(n int) (json.RawMessage, error) {
	proposal, err := s.tuner.Propose(n)
	if err != nil {
		return nil, err
	}
	if proposal.Answer != tuners.Try {
		return nil, fmt.Errorf("trial %d: the tuner has no parameters now", n)
	}
	ask := trial.Asked{Parameters: proposal.Parameters, Source: trial.SourceAlgorithm, ParameterID: proposal.ParameterID}
	return proposal.Parameters, s.apply(trial.KindAsked, n, ask)
}

func (s *nativeSearch) Observe(n int, value float64) error {
	return s.apply(trial.KindEnded, n, trial.Ended{State: trial.Succeeded, Value: &value, Source: trial.SourceAlgorithm})
}

func (s *nativeSearch) apply(kind trial.Kind, n int, data any) error {
	raw, err := json.Marshal(data)
	if err != nil {
		return err
	}
	s.log++
	return s.tuner.Apply(trial.Event{Number: s.log, Kind: kind, Sequence: n, Attempt: 1, Data: raw})
}
