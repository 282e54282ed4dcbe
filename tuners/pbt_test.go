package tuners_test

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/perennial-ml/perennial/trial"
	"github.com/perennial-ml/perennial/tuners"
)

// aStep asks for all members of a population.
func aStep(p *player, size int) []asked {
	all := p.asks(size)
	require.Equal(p.t, tuners.Wait, p.propose().Answer)
	return all
}

func TestPBTGivesMembersDirectoriesToLoadFromAndToSaveTo(t *testing.T) {
	p := play(t, "PBT", `{"population_size": 5}`, oneNumber)
	first := aStep(p, 5)
	for i, a := range first {
		require.Equal(t, fmt.Sprintf("/kept/%d/0", i), a.parameters["load_checkpoint_dir"])
		require.Equal(t, a.parameters["load_checkpoint_dir"], a.parameters["save_checkpoint_dir"])
	}
	for _, i := range []int{3, 0, 4, 1, 2} {
		p.restart()
		p.succeed(first[i], float64(i)) // member 4 is the best, member 0 the worst
	}
	second := aStep(p, 5)
	require.Equal(t, "/kept/4/0", second[0].parameters["load_checkpoint_dir"])
	require.Equal(t, "/kept/0/1", second[0].parameters["save_checkpoint_dir"])
	for i := 1; i < 5; i++ {
		require.Equal(t, map[string]any{"x": first[i].parameters["x"],
			"load_checkpoint_dir": fmt.Sprintf("/kept/%d/0", i), "save_checkpoint_dir": fmt.Sprintf("/kept/%d/1", i)}, second[i].parameters)
	}
	p.restart()
}

func TestMovedParametersAreOneStepFromThoseOfOneOfTheBest(t *testing.T) {
	space := `{"u": {"_type": "uniform", "_value": [0, 10]}, "q": {"_type": "quniform", "_value": [0, 1, 0.1]},
		"l": {"_type": "loguniform", "_value": [0.01, 1]}, "n": {"_type": "normal", "_value": [0, 2]},
		"r": {"_type": "randint", "_value": [5, 9]}, "c": {"_type": "choice", "_value": ["a", "b", "c"]}}`
	rapid.Check(t, func(t *rapid.T) {
		p := play(t, "PBT", `{"population_size": 2, "fraction": 0.5, "resample_probability": 0, "factor": 0.1}`, space)
		p.spec.Seed = rapid.Uint64().Draw(t, "seed")
		p.tuner = p.build()
		all := aStep(p, 2)
		p.succeed(all[0], 2)
		p.succeed(all[1], 1)
		best, moved := all[0].parameters, aStep(p, 2)[1].parameters
		near := func(key string, want float64, low, high float64) {
			from, to := best[key].(float64), moved[key].(float64)
			require.True(t, math.Abs(math.Abs(to-from)-want) < 1e-9 || to == low || to == high, "%s: %v to %v", key, from, to)
		}
		near("u", 1, 0, 10)
		near("q", 0.1, 0, 1)
		near("n", 0.2, math.NaN(), math.NaN())
		near("r", 1, 5, 8)
		ratio := math.Abs(math.Log(moved["l"].(float64) / best["l"].(float64)))
		require.True(t, math.Abs(ratio-math.Log(100)/10) < 1e-9 || moved["l"] == 1.0 || math.Abs(moved["l"].(float64)-0.01) < 1e-9)
		names := []string{"a", "b", "c"}
		step := slices.Index(names, moved["c"].(string)) - slices.Index(names, best["c"].(string))
		require.LessOrEqual(t, step*step, 1)
	})
}

func TestNobodyGoesOnFromACheckpointThatWasNotWritten(t *testing.T) {
	p := play(t, "PBT", `{"population_size": 4, "fraction": 0.25, "optimize_mode": "minimize"}`, oneNumber)
	first := aStep(p, 4)
	p.end(first[0], trial.Failed)
	p.end(first[1], trial.Succeeded) // without a number
	p.end(first[2], trial.EarlyStopped)
	p.succeed(first[3], 5)
	second := aStep(p, 4)
	for _, a := range second {
		require.Equal(t, "/kept/3/0", a.parameters["load_checkpoint_dir"])
	}
	for _, a := range second {
		p.end(a, trial.Failed)
	}
	third := aStep(p, 4) // all failed: each from where it came, the others from nowhere
	require.Equal(t, "/kept/0/2", third[0].parameters["load_checkpoint_dir"])
	require.Equal(t, "/kept/3/0", third[3].parameters["load_checkpoint_dir"])
	require.NotEqual(t, first[3].parameters["x"], third[3].parameters["x"], "with a new draw")
	p.restart()
}

// TestAPopulationGoesOnWhateverFails ends trials in any order, many without a
// checkpoint: every trial has its own place to save to, and loads what was saved.
func TestAPopulationGoesOnWhateverFails(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := play(t, "PBT", `{"population_size": 4, "fraction": 0.5}`, oneNumber)
		saved, places := map[any]bool{}, map[any]bool{}
		var open []asked
		for range 100 {
			if len(open) < 3 && p.propose().Answer == tuners.Try {
				a := p.ask()
				load, save := a.parameters["load_checkpoint_dir"], a.parameters["save_checkpoint_dir"]
				require.True(t, load == save || saved[load], "%v was never saved", load)
				require.False(t, places[save], "two trials save to %v", save)
				places[save] = true
				open = append(open, a)
				continue
			}
			require.NotEmpty(t, open, "it waits for nothing")
			if rapid.IntRange(0, 20).Draw(t, "restart") == 0 {
				p.restart()
			}
			i := rapid.IntRange(0, len(open)-1).Draw(t, "trial")
			if rapid.IntRange(0, 2).Draw(t, "fails") == 0 {
				p.end(open[i], trial.Failed)
			} else {
				saved[open[i].parameters["save_checkpoint_dir"]] = true
				p.succeed(open[i], rapid.Float64Range(0, 1).Draw(t, "value"))
			}
			open = slices.Delete(open, i, i+1)
		}
	})
}

func TestANewSpaceBeginsANewPopulationInNewDirectories(t *testing.T) {
	p := play(t, "PBT", `{"population_size": 2}`, oneNumber)
	old := aStep(p, 2)
	p.setSpace(`{"y": {"_type": "choice", "_value": [1]}}`)
	p.succeed(old[0], 1)
	p.succeed(old[1], 1)
	require.Equal(t, map[string]any{"y": 1.0, "load_checkpoint_dir": "/kept/0/1", "save_checkpoint_dir": "/kept/0/1"}, p.ask().parameters)
	p.restart()
}

func TestPBTsArgumentsAreChecked(t *testing.T) {
	refuses(t, tuners.Spec{Name: "PBT", Checkpoints: "/c", Arguments: json.RawMessage(`{"population_size": 0, "fraction": 2, "factor": "a"}`)},
		`argument factor of tuner PBT is "a": want a number from 0 to 1`+"\n"+
			"argument fraction of tuner PBT is 2: want a number from 0 to 1\n"+
			"argument population_size of tuner PBT is 0: want an integer from 1 to 99999")
	refuses(t, tuners.Spec{Name: "PBT"},
		"tuner PBT has no argument all_checkpoint_dir: want the absolute path of a directory that every trial can reach")
	refuses(t, tuners.Spec{Name: "PBT", Checkpoints: "/c", Space: json.RawMessage(`{"save_checkpoint_dir": {"_type": "uniform", "_value": [0, 1]}}`)},
		"search space /save_checkpoint_dir is the name of a key that PBT adds itself: want another name")
}
