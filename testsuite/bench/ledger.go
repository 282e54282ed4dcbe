package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Ledger is what the trials of one experiment wrote down: when each began its
// first instruction and when it was at its last, in seconds since the machine
// started, to 10 ms.
type Ledger struct {
	starts, ends []float64
	// startOf and endOf are by the name of who noted it.
	startOf, endOf map[string]float64
}

func readLedger(path string) (Ledger, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return Ledger{}, err
	}
	ledger := Ledger{startOf: map[string]float64{}, endOf: map[string]float64{}}
	for line := range strings.Lines(string(content)) {
		words := strings.Fields(line)
		if len(words) != 3 {
			return ledger, fmt.Errorf("%s: %q is no entry", path, line)
		}
		at, err := strconv.ParseFloat(words[1], 64)
		if err != nil {
			return ledger, err
		}
		if words[0] == "start" {
			ledger.starts, ledger.startOf[words[2]] = append(ledger.starts, at), at
		} else {
			ledger.ends, ledger.endOf[words[2]] = append(ledger.ends, at), at
		}
	}
	slices.Sort(ledger.starts)
	slices.Sort(ledger.ends)
	if len(ledger.starts) == 0 || len(ledger.ends) == 0 {
		return ledger, errors.New(path + ": no trial ran to its end")
	}
	return ledger, nil
}

// first is when the first trial began.
func (l Ledger) first() float64 { return l.starts[0] }

// perSecond is how many trials ran a second, from the first one's beginning to
// the last one's end.
func (l Ledger) perSecond() float64 {
	return float64(len(l.ends)) / max(0.01, l.ends[len(l.ends)-1]-l.starts[0])
}

// idle returns how long a slot was empty before each trial but the first ones. A
// trial takes the slot that has been empty the longest: nobody names slots.
func (l Ledger) idle(concurrency int) []float64 {
	var idle []float64
	for i := concurrency; i < len(l.starts) && i-concurrency < len(l.ends); i++ {
		idle = append(idle, max(0, l.starts[i]-l.ends[i-concurrency]))
	}
	return idle
}

// quantile returns the value below which a share of the values lies.
func quantile(values []float64, share float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(len(sorted)-1, int(share*float64(len(sorted))))]
}

func median(values []float64) float64 { return quantile(values, 0.5) }
