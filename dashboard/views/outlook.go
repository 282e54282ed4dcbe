package views

import (
	"time"

	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
)

// Settled is the number of trials that have ended for good.
func Settled(e record.Experiment) int {
	settled := e.Trials()
	for _, state := range []trial.State{trial.Waiting, trial.Running, trial.Unknown} {
		settled -= e.Counts[state]
	}
	return max(settled, 0)
}

// settling is how long an experiment must have run before its pace says anything.
const settling = 5 * time.Second

// Remaining estimates how long an experiment still takes: by its pace so far if
// its number of trials is limited, and never beyond its limit of time. False
// where neither says anything.
func Remaining(e record.Experiment) (time.Duration, bool) {
	byTime, limited := max(e.MaxDuration-e.Driven, 0), e.MaxDuration > 0
	if e.MaxTrials == 0 {
		return byTime, limited
	}
	settled := Settled(e)
	if settled == 0 || e.Driven < settling {
		return 0, false
	}
	byPace := time.Duration(float64(e.Driven) / float64(settled) * float64(max(e.MaxTrials-settled, 0)))
	if limited {
		return min(byPace, byTime), true
	}
	return byPace, true
}
