package search

import (
	"cmp"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/tuners"
)

const (
	grid = `{"x": {"_type": "choice", "_value": [0.0, 0.25, 1]}, "k": {"_type": "choice", "_value": [1, 2]}, "n": {"_type": "choice", "_value": [5.0, 5]}}`

	batch = `{"combine_params": {"_type": "choice", "_value": [
{"x": 0.25, "k": 1}, {"x": 0.5, "k": 1}, {"x": 0.75, "k": 2}, {"x": 1.0, "k": 2}, {"x": 0.0, "k": 3}]}}`
)

// tunerPlans says what a tuner's experiment needs beside its name; one that is not
// here runs with its defaults.
var tunerPlans = map[string]plan{
	"GridSearch": {space: grid, asked: 12, trials: 100, check: requireAllDifferent},
	"Batch":      {space: batch, asked: 5, trials: 100, check: requireListOrder},
	"TPE":        {arguments: "optimize_mode: maximize, tpe_args: {n_startup_jobs: 4}"},
	"GP":         {arguments: "optimize_mode: maximize, cold_start_num: 4"},
	"Evolution":  {arguments: "optimize_mode: maximize, population_size: 4"},
	"Hyperband":  {arguments: "optimize_mode: maximize, R: 9, eta: 3, exec_mode: serial", trials: 22, steps: 1, check: requireHyperband},
	"ASHA":       {arguments: "optimize_mode: maximize, min_budget: 1, max_budget: 9, eta: 3, all_checkpoint_dir: CHECKPOINTS", trials: 20, steps: 1, check: requireASHA},
	"PBT":        {arguments: "optimize_mode: maximize, population_size: 4, fraction: 0.3", trials: 12, check: requirePBT},
	"BOHB":       {arguments: "optimize_mode: maximize, min_budget: 1, max_budget: 9, eta: 3", trials: 18, steps: 1, check: requireBudgets},

	"RegularizedEvolution": {arguments: "optimize_mode: maximize, population_size: 4, sample_size: 2"},
}

func TestAnExperimentWithEachNativeTunerSurvivesItsHost(t *testing.T) {
	t.Parallel()
	plans := map[string]plan{}
	for _, name := range tuners.Names() {
		p := tunerPlans[name]
		p.tuner = name
		plans[name] = p
	}
	s := begin(t, plans)
	s.strike()
	s.finish()
	for name, p := range plans {
		t.Run(name, func(t *testing.T) {
			o := s.outcome(t, name)
			require.NotNil(t, s.home.Show(o.id).Best)
			if p.check != nil {
				p.check(t, o)
			}
		})
	}
	s.home.RequireNothingLeft()
}

func requireAllDifferent(t *testing.T, o outcome) {
	seen := map[string]int{}
	for _, d := range o.trials {
		require.NotContains(t, seen, d.raw)
		seen[d.raw] = d.Sequence
	}
}

func requireListOrder(t *testing.T, o outcome) {
	xs := []float64{0.25, 0.5, 0.75, 1, 0}
	for i, d := range o.trials {
		require.Equal(t, xs[i], d.number(t, "x"))
	}
}

// requireHyperband checks one round of brackets, one after the other, with the
// sizes and budgets of the paper as NNI rounds them.
func requireHyperband(t *testing.T, o outcome) {
	at := 0
	for _, bracket := range [][][2]int{{{9, 1}, {3, 3}, {1, 9}}, {{5, 3}, {1, 9}}, {{3, 9}}} {
		var before []done
		for _, rung := range bracket {
			now := o.trials[at : at+rung[0]]
			at += rung[0]
			for _, d := range now {
				require.Equal(t, float64(rung[1]), d.number(t, "TRIAL_BUDGET"), "trial %d", d.Sequence)
			}
			if before != nil {
				require.ElementsMatch(t, best(before, len(now)), configurations(now), "the best go on")
			}
			before = now
		}
	}
	require.Equal(t, len(o.trials), at)
}

// best are the configurations with the best results.
func best(trials []done, count int) []string {
	sorted := slices.Clone(trials)
	slices.SortStableFunc(sorted, func(a, b done) int { return cmp.Compare(*b.Metric, *a.Metric) })
	return configurations(sorted[:count])
}

func configurations(trials []done) (all []string) {
	for _, d := range trials {
		all = append(all, d.configuration())
	}
	return all
}

// requireASHA checks that whoever has a higher budget was among the best third of
// those who had ended in the rung below. Of the trials asked before, all but the one
// that may have run beside had ended.
func requireASHA(t *testing.T, o outcome) {
	rungs := map[float64][]done{1: nil, 3: nil, 9: nil}
	for _, d := range o.trials {
		budget := d.number(t, "TRIAL_BUDGET")
		require.Contains(t, rungs, budget)
		require.NotContains(t, configurations(rungs[budget]), d.configuration(), "a configuration is in a rung once")
		if budget > 1 {
			below := rungs[budget/3]
			rank := slices.Index(best(below, len(below)), d.configuration())
			require.NotEqual(t, -1, rank, "trial %d was never in the rung below", d.Sequence)
			require.LessOrEqual(t, rank, len(below)/3, "trial %d", d.Sequence)
		}
		rungs[budget] = append(rungs[budget], d)
	}
	require.NotEmpty(t, rungs[3], "nobody was promoted")
	requireCheckpoints(t, o)
}

// requirePBT checks that members went on from checkpoints that were there, step by
// step, in a directory of the experiment; a trial fails where its checkpoint is
// missing.
func requirePBT(t *testing.T, o outcome) {
	for _, d := range o.trials {
		require.True(t, strings.HasPrefix(d.text("save_checkpoint_dir"), filepath.Join(o.home.Dir, "experiments", o.id)+"/"), d.raw)
		step := filepath.Base(d.text("save_checkpoint_dir"))
		require.Equal(t, []string{"0", "1", "2"}[d.Sequence/4], step, "trial %d", d.Sequence)
		require.Equal(t, step == "0", d.text("load_checkpoint_dir") == d.text("save_checkpoint_dir"))
	}
	requireCheckpoints(t, o)
}

// requireCheckpoints checks that every trial left its own checkpoint.
func requireCheckpoints(t *testing.T, o outcome) {
	left := map[string]bool{}
	for _, d := range o.trials {
		directory := d.text("save_checkpoint_dir")
		content, err := os.ReadFile(filepath.Join(directory, "checkpoint"))
		require.NoError(t, err)
		require.Equal(t, d.ID+"\n", string(content))
		require.NotContains(t, left, directory, "two trials left a checkpoint in one place")
		left[directory] = true
	}
}

// requireBudgets checks that every trial has one of the budgets between the least
// and the most, and some have more than the least.
func requireBudgets(t *testing.T, o outcome) {
	seen := map[float64]int{}
	for _, d := range o.trials {
		budget := d.number(t, "TRIAL_BUDGET")
		require.InDelta(t, math.Round(math.Log(budget)/math.Log(3)), math.Log(budget)/math.Log(3), 1e-9, d.raw)
		require.True(t, budget >= 1 && budget <= 9, d.raw)
		seen[budget]++
	}
	require.Greater(t, len(seen), 1, "all have one budget: %v", seen)
}
