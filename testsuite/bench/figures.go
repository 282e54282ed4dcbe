package main

import (
	"time"
)

// Figures are what one measurement found.
type Figures struct {
	Trials        int
	PerSecond     float64
	FirstAfter    float64 // seconds from the command to the first trial's first instruction
	Idle          []float64
	Finals        int
	Intermediates int
	ResidentMB    float64
	Parts         []Part
	Others        float64 // processors that others used meanwhile
}

// Part is the processor time that one part of a system used.
type Part struct {
	Name string
	Used time.Duration
}

func figuresOf(w Work, asked float64) (Figures, error) {
	ledger, err := readLedger(w.ledger())
	if err != nil {
		return Figures{}, err
	}
	return Figures{
		Trials: len(ledger.ends), PerSecond: ledger.perSecond(),
		FirstAfter: ledger.first() - asked, Idle: ledger.idle(w.Concurrency),
	}, nil
}

func (f Figures) used() (sum time.Duration) {
	for _, part := range f.Parts {
		sum += part.Used
	}
	return sum
}

// perTrial is the processor time of a part for each trial, in milliseconds.
func (f Figures) perTrial(part Part) float64 {
	return float64(part.Used.Milliseconds()) / float64(max(1, f.Trials))
}

// watch measures how busy the machine is with other things.
type watch struct {
	busy  time.Duration
	since time.Time
}

func newWatch() watch { return watch{machineBusy(), time.Now()} }

// others is how many processors were busy with what is not ours.
func (w watch) others(ours time.Duration) float64 {
	elapsed := time.Since(w.since)
	return max(0, float64(machineBusy()-w.busy-ours)/float64(elapsed))
}
