package tuners_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/perennial-ml/perennial/trial"
	"github.com/perennial-ml/perennial/tuners"
)

// ladder is algorithm 2 of Li et al. (2020), read off the paper, for minimising:
// no sorted lists, no counters, everything looked up anew at each job.
type ladder struct {
	eta    int
	rungs  []map[int]float64 // losses by configuration, of those that ended there
	failed []int             // how many ended there without one
	gone   []map[int]bool    // promoted
	drawn  int
}

func newLadder(eta, rungs int) *ladder {
	l := &ladder{eta: eta, failed: make([]int, rungs)}
	for range rungs {
		l.rungs, l.gone = append(l.rungs, map[int]float64{}), append(l.gone, map[int]bool{})
	}
	return l
}

// job is get_job of the paper.
func (l *ladder) job() (configuration, rung int) {
	for k := len(l.rungs) - 2; k >= 0; k-- {
		ranked := slices.SortedFunc(maps.Keys(l.rungs[k]), func(a, b int) int {
			return int(l.rungs[k][a] - l.rungs[k][b]) // losses are distinct integers
		})
		top := min((len(ranked)+l.failed[k])/l.eta, len(ranked))
		for _, candidate := range ranked[:top] {
			if !l.gone[k][candidate] {
				l.gone[k][candidate] = true
				return candidate, k + 1
			}
		}
	}
	l.drawn++
	return l.drawn - 1, 0
}

// TestASHAPromotesAsThePapersAlgorithm runs the tuner beside algorithm 2, with up to
// eight trials at a time that end in any order, some without a result.
func TestASHAPromotesAsThePapersAlgorithm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		eta := rapid.IntRange(2, 4).Draw(t, "eta")
		p := play(t, "ASHA", fmt.Sprintf(`{"optimize_mode": "minimize", "eta": %d, "max_budget": 30}`, eta), oneNumber)
		budgets := []int{1, eta, eta * eta, eta * eta * eta}
		if eta == 2 {
			budgets = append(budgets, 16)
		} else if eta == 4 {
			budgets = budgets[:3]
		}
		paper := newLadder(eta, len(budgets))
		losses := rapid.Permutation(slices.Collect(numbers(400))).Draw(t, "losses")
		type job struct {
			asked
			configuration, rung int
		}
		var open []job
		drawn := map[int]any{}
		for i := range 300 {
			if len(open) < 8 {
				configuration, rung := paper.job()
				a := p.ask()
				require.Equal(t, fmt.Sprintf("0_%d_%d", rung, configuration), a.id)
				require.EqualValues(t, budgets[rung], a.parameters["TRIAL_BUDGET"])
				if rung > 0 {
					require.Equal(t, drawn[configuration], a.parameters["x"])
				}
				drawn[configuration] = a.parameters["x"]
				open = append(open, job{a, configuration, rung})
				continue
			}
			if rapid.IntRange(0, 30).Draw(t, "restart") == 0 {
				p.restart()
			}
			at := rapid.IntRange(0, len(open)-1).Draw(t, "ended")
			ended := open[at]
			open = slices.Delete(open, at, at+1)
			if rapid.IntRange(0, 9).Draw(t, "fails") == 0 {
				p.end(ended.asked, trial.Failed)
				paper.failed[ended.rung]++
				continue
			}
			p.succeed(ended.asked, float64(losses[i]))
			paper.rungs[ended.rung][ended.configuration] = float64(losses[i])
		}
		p.restart()
	})
}

func numbers(n int) func(func(int) bool) {
	return func(yield func(int) bool) {
		for i := range n {
			if !yield(i) {
				return
			}
		}
	}
}

func TestNoWorkerWaitsForARungOfASHA(t *testing.T) {
	p := play(t, "asha", `{"max_budget": 9}`, oneNumber)
	p.asks(1000) // none has ended, and all are new configurations
}

func TestASHATellsAPromotedTrialWhereItsCheckpointIs(t *testing.T) {
	p := play(t, "ASHA", `{"max_budget": 4, "eta": 2, "checkpoints": true}`, oneNumber)
	first := p.asks(4)
	require.Equal(t, "/kept/1/0", first[1].parameters["load_checkpoint_dir"])
	require.Equal(t, "/kept/1/0", first[1].parameters["save_checkpoint_dir"])
	for i, a := range first {
		p.succeed(a, float64(i))
	}
	up := p.asks(2)
	require.Equal(t, map[string]any{"x": first[3].parameters["x"], "TRIAL_BUDGET": 2.0,
		"load_checkpoint_dir": "/kept/3/0", "save_checkpoint_dir": "/kept/3/1"}, up[0].parameters)
	p.succeed(up[0], 1)
	p.succeed(up[1], 2)
	top := p.ask()
	require.Equal(t, "0_2_2", top.id)
	require.Equal(t, "/kept/2/1", top.parameters["load_checkpoint_dir"])

	p = play(t, "ASHA", `{"all_checkpoint_dir": "/nfs/runs"}`, oneNumber)
	require.Equal(t, "/nfs/runs/0/0", p.ask().parameters["save_checkpoint_dir"])
	require.NotContains(t, play(t, "ASHA", "", oneNumber).ask().parameters, "save_checkpoint_dir")
}

func TestASHAEndsAFiniteSpaceWhenNoPromotionCanCome(t *testing.T) {
	p := play(t, "ASHA", `{"max_budget": 2, "eta": 2}`, `{"x": {"_type": "randint", "_value": [0, 3]}}`)
	all := p.asks(3)
	require.Equal(t, tuners.Wait, p.propose().Answer)
	for i, a := range all {
		p.succeed(a, float64(i))
	}
	promoted := p.ask()
	require.Equal(t, 2.0, promoted.parameters["TRIAL_BUDGET"])
	require.Equal(t, tuners.Wait, p.propose().Answer)
	p.restart()
	p.succeed(promoted, 1)
	require.Equal(t, tuners.Exhausted, p.propose().Answer)
}

func TestANewSpaceEmptiesTheRungsOfASHA(t *testing.T) {
	p := play(t, "ASHA", `{"max_budget": 2, "eta": 2}`, oneNumber)
	all := p.asks(2)
	p.succeed(all[0], 1)
	p.succeed(all[1], 2)
	late := p.propose() // a promotion, recorded after the space was changed
	p.setSpace(`{"y": {"_type": "uniform", "_value": [5, 6]}}`)
	require.Equal(t, `"1_0_2"`, string(p.propose().ParameterID))
	p.apply(trial.KindAsked, p.next, trial.Asked{Parameters: late.Parameters, Source: trial.SourceAlgorithm, ParameterID: late.ParameterID})
	p.next++
	require.Contains(t, p.ask().parameters, "y")
	p.restart()
}

func TestASHAsArgumentsAreChecked(t *testing.T) {
	for arguments, want := range map[string]string{
		`{"eta": 1, "checkpoints": "yes", "all_checkpoint_dir": "here"}`: `argument all_checkpoint_dir of tuner ASHA is "here": want the absolute path of a directory that every trial can reach` + "\n" +
			`argument checkpoints of tuner ASHA is "yes": want true or false` + "\n" +
			"argument eta of tuner ASHA is 1: want an integer from 2 to 1000000",
		`{"min_budget": 9, "max_budget": 3}`: "argument max_budget of tuner ASHA is 3: want at least min_budget, 9",
		`{"max_budget": 10, "early_stopping_rate": 3}`: "argument early_stopping_rate of tuner ASHA is 3: " +
			"want at most 2, with which all trials have budget 9",
		`{"checkpoints": true}`: "tuner ASHA has no argument all_checkpoint_dir: want the absolute path of a directory that every trial can reach",
	} {
		refuses(t, tuners.Spec{Name: "ASHA", Arguments: json.RawMessage(arguments)}, want)
	}
}
