package search

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/assessors"
)

// goodThenBad is two trials that are good and some that are not worth going on.
const goodThenBad = `{"combine_params": {"_type": "choice", "_value": [
{"x": 0.25, "k": 0}, {"x": 0.26, "k": 0}, {"x": 1.0, "k": 6}, {"x": 1.0, "k": 6.1}, {"x": 1.0, "k": 6.2}, {"x": 1.0, "k": 6.3}]}}`

const goodTrials = 2

// assessorArguments are classArgs; an assessor that is not here has none.
var assessorArguments = map[string]string{
	"Medianstop":   "optimize_mode: maximize, start_step: 2",
	"Curvefitting": "optimize_mode: maximize, epoch_num: 16, start_step: 6",
	"ASHA":         "optimize_mode: maximize, min_budget: 2, eta: 2, max_budget: 16",
}

func TestAnExperimentWithEachAssessorSurvivesItsHost(t *testing.T) {
	t.Parallel()
	plans := map[string]plan{}
	for _, name := range assessors.Names() {
		plans[name] = plan{
			tuner: "Batch", space: goodThenBad, asked: 6, trials: 100, steps: 16, pause: "0.25",
			assessor: "assessor: {name: " + name + ", classArgs: {" + assessorArguments[name] + "}}\n",
		}
	}
	s := begin(t, plans)
	s.strike()
	s.finish()
	for name := range plans {
		t.Run(name, func(t *testing.T) {
			requireStopped(t, s.outcome(t, name), strings.ToLower(name))
		})
	}
	s.home.RequireNothingLeft()
}

// requireStopped checks that a trial was stopped, by the assessor and for its
// reason, and none of the good ones but by a rule that lets only the best go on.
func requireStopped(t *testing.T, o outcome, code string) {
	stopped := 0
	for _, d := range o.trials {
		if d.State != "EARLY_STOPPED" {
			continue
		}
		stopped++
		require.Equal(t, code, d.Reason.Code, "%+v", d.Trial)
		require.NotEmpty(t, d.Reason.Text)
		if code != "asha" {
			require.GreaterOrEqual(t, d.Sequence, goodTrials, "a good trial was stopped: %+v", d.Trial)
		}
	}
	require.Positive(t, stopped, "nobody was stopped")
}
