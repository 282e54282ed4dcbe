package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
)

const (
	endedTrials = 20 // of each experiment that has ended
	live        = 20 // experiments that run
	homeWatched = 60 * time.Second
)

const liveExperiment = `experimentName: live
searchSpace:
  x: {_type: uniform, _value: [0, 1]}
trialCommand: none
trialCodeDirectory: .
trialConcurrency: 2
maxTrialNumber: 2
tuner:
  name: Random
trainingService:
  platform: fake
  duration: 3600
`

// longHome measures what a home full of ended experiments costs a host that drives
// some live ones, whose trials merely run.
func (b *Bench) longHome(plan Plan) error {
	before := load()
	fmt.Printf("\n### A home with %d live experiments, whose trials merely run\n\n", live)
	fmt.Println("| experiments that have ended, of 20 trials each | host's share of a core | memory | `starter ls` | a further `starter run --detach` |")
	fmt.Println("|--|--|--|--|--|")
	for _, ended := range []int{0, plan.Ended} {
		if err := b.homeOf(ended); err != nil {
			return err
		}
	}
	fmt.Printf("\nLoad average before: %s.\n", digits(before, 1))
	return nil
}

// homeOf prints the row of one home.
func (b *Bench) homeOf(ended int) error {
	p, err := b.newPerennial()
	if err == nil {
		err = p.stop()
	}
	if err == nil {
		err = endExperiments(filepath.Join(p.home, "record.sqlite"), ended)
	}
	if err != nil {
		return err
	}
	if err := p.serve(); err != nil {
		return err
	}
	file := filepath.Join(b.scratch, "live.yml")
	if err := os.WriteFile(file, []byte(liveExperiment), 0o644); err != nil {
		return err
	}
	for range live - 1 {
		if _, err := p.do("run", file, "--detach"); err != nil {
			return err
		}
	}
	last, err := timed(func() error { _, err := p.do("run", file, "--detach"); return err })
	if err != nil {
		return err
	}
	time.Sleep(5 * time.Second) // until all of them run
	host, err := p.host()
	if err != nil {
		return err
	}
	used := usageOf(host)
	time.Sleep(homeWatched)
	share := usageOf(host).Minus(used).Own.Seconds() / homeWatched.Seconds()
	listed, err := timed(func() error { _, err := p.do("ls"); return err })
	if err != nil {
		return err
	}
	fmt.Printf("| %d | %s %% | %.0f MB | %s s | %s s |\n", ended, digits(100*share, 1), residentMB(host), digits(listed, 2), digits(last, 2))
	return p.stop()
}

func timed(work func() error) (seconds float64, err error) {
	began := time.Now()
	err = work()
	return time.Since(began).Seconds(), err
}

// endExperiments puts experiments on record that have ended. No host may run.
func endExperiments(path string, count int) error {
	store, err := record.Open(path)
	if err != nil {
		return err
	}
	defer store.Close()
	for n := range count {
		if err := endExperiment(store, fmt.Sprintf("ended%03d", n)); err != nil {
			return err
		}
	}
	return nil
}

func endExperiment(store *record.Store, id string) error {
	ctx := context.Background()
	config := json.RawMessage(`{"format":1,"experimentName":"ended","searchSpace":{"x":{"_type":"uniform","_value":[0,1]}},
		"trialConcurrency":1,"maxTrialNumber":100,"tuner":{"name":"Random"},"trainingService":[{"platform":"fake"}]}`)
	command := trial.Command{ID: "accept", Name: trial.Accept, Value: config}
	if _, err := store.Append(ctx, id, record.CommandEvent(command)); err != nil {
		return err
	}
	asks := make([]record.Ask, endedTrials)
	for n := range asks {
		asks[n] = record.Ask{Sequence: n, Asked: trial.Asked{Parameters: []byte(`{"x":0.5}`), Source: trial.SourceAlgorithm}}
	}
	if _, err := store.Ask(ctx, id, asks); err != nil {
		return err
	}
	if err := succeedAll(store, id); err != nil {
		return err
	}
	row, err := store.Experiment(ctx, id)
	if err != nil {
		return err
	}
	done, err := store.Finish(ctx, id, record.Done, record.Place{Number: row.LastEvent})
	if err == nil && !done {
		err = fmt.Errorf("experiment %s did not end", id)
	}
	return err
}

func succeedAll(store *record.Store, id string) error {
	value := 0.5
	for n := range endedTrials {
		ended := trial.Ended{State: trial.Succeeded, Value: &value, Source: trial.SourceAlgorithm}
		err := store.Settle(context.Background(), trial.Key{Experiment: id, Sequence: n}, record.Settlement{Outcome: record.OutcomeEnded, Ended: &ended})
		if err != nil {
			return err
		}
	}
	return nil
}
