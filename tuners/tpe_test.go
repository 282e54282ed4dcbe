package tuners_test

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/testsuite/tunertest"
	"github.com/perennial-ml/perennial/trial"
	"github.com/perennial-ml/perennial/tuners"
)

func TestTPEKeepsTheTunersPromises(t *testing.T) {
	for name, spec := range map[string]tuners.Spec{
		"ours":   {Name: "TPE", Seed: 42, Arguments: json.RawMessage(`{"tpe_args": {"n_startup_jobs": 2}}`)},
		"best":   {Name: "TPE", Seed: 1, Arguments: json.RawMessage(`{"tpe_args": {"n_startup_jobs": 1, "constant_liar_type": "best", "gamma": 0.25, "linear_forgetting": 2}}`)},
		"mean":   {Name: "TPE", Seed: 2, Arguments: json.RawMessage(`{"optimize_mode": "maximize", "tpe_args": {"n_startup_jobs": 1, "constant_liar_type": "mean"}}`)},
		"legacy": {Name: "TPE_legacy", Seed: 3, Arguments: json.RawMessage(`{"parallel_optimize": true, "constant_liar_type": "max"}`)},
	} {
		t.Run(name, func(t *testing.T) {
			tunertest.Run(t, tuners.New, tunertest.Options{Spec: spec, Finite: tunertest.FiniteSpaces()})
		})
	}
}

func TestTPEAcceptsNNIsArgumentsAndSaysWhichIsWrong(t *testing.T) {
	build := func(name, arguments string) error {
		_, err := tuners.New(tuners.Spec{Name: name, Arguments: json.RawMessage(arguments), Space: json.RawMessage(oneUniform)})
		return err
	}
	for _, arguments := range []string{
		``, `{}`, `{"optimize_mode": "maximize", "seed": 12345}`, `{"tpe_args": {}}`, `{"tpe_args": null}`,
		`{"tpe_args": {"constant_liar_type": "worst", "n_startup_jobs": 20, "n_ei_candidates": 24, "linear_forgetting": 25, "prior_weight": 1.0, "gamma": 0.25}}`,
		`{"tpe_args": {"constant_liar_type": null}}`,
	} {
		require.NoError(t, build("TPE", arguments), arguments)
	}
	require.NoError(t, build("tpe_legacy", `{"parallel_optimize": false, "constant_liar_type": "min"}`))
	require.ErrorContains(t, build("TPE", `{"tpe_args": {"gama": 1}}`),
		`it has no "gama": want any of constant_liar_type, gamma, linear_forgetting, n_ei_candidates, n_startup_jobs, prior_weight`)
	require.ErrorContains(t, build("TPE", `{"tpe_args": {"constant_liar_type": "none", "gamma": -1}}`),
		`constant_liar_type is "none": want "best" or "worst" or "mean" or null`+"\n"+`gamma is -1: want a number from 1e-06 to 1e+06`)
	require.ErrorContains(t, build("TPE", `{"tpe_args": 3}`), `argument tpe_args of tuner TPE is 3: want an object with any of constant_liar_type`)
	require.ErrorContains(t, build("TPE_legacy", `{"tpe_args": {}}`),
		`tuner TPE_legacy has no argument "tpe_args": it takes constant_liar_type, optimize_mode, parallel_optimize, seed`)
}

const (
	oneUniform   = `{"x": {"_type": "uniform", "_value": [-5, 5]}}`
	networkSpace = `{
		"lr": {"_type": "loguniform", "_value": [1e-5, 1]},
		"layers": {"_type": "randint", "_value": [1, 9]},
		"act": {"_type": "choice", "_value": ["relu", "tanh", "gelu", "none"]},
		"momentum": {"_type": "quniform", "_value": [0, 1, 0.05]},
		"noise": {"_type": "normal", "_value": [0, 1]},
		"optimizer": {"_type": "choice", "_value": [
			{"_name": "sgd", "decay": {"_type": "loguniform", "_value": [1e-6, 1e-1]}},
			{"_name": "adam", "beta": {"_type": "uniform", "_value": [0.8, 1]}, "amsgrad": {"_type": "choice", "_value": [true, false]}},
			{"_name": "none"}]}}`
)

// networkLoss is least, zero, at lr 1e-2, 5 layers, gelu, momentum 0.9, noise 0.5 and
// Adam with beta 0.95 and amsgrad.
func networkLoss(parameters json.RawMessage) float64 {
	var p struct {
		LR              float64
		Layers          int
		Act             string
		Momentum, Noise float64
		Optimizer       struct {
			Name    string `json:"_name"`
			Decay   float64
			Beta    float64
			Amsgrad bool
		}
	}
	if err := json.Unmarshal(parameters, &p); err != nil {
		return math.NaN()
	}
	loss := squared(math.Log10(p.LR)+2) + squared(float64(p.Layers-5))/4 + 4*squared(p.Momentum-.9) + squared(p.Noise-.5)/2
	if p.Act != "gelu" {
		loss++
	}
	switch p.Optimizer.Name {
	case "sgd":
		return loss + 1 + squared(math.Log10(p.Optimizer.Decay)+4)/10
	case "none":
		return loss + 3
	}
	if !p.Optimizer.Amsgrad {
		loss += .3
	}
	return loss + 50*squared(p.Optimizer.Beta-.95)
}

func squared(x float64) float64 { return x * x }

// leastFound lets a tuner look for the least loss and returns it.
func leastFound(t testing.TB, spec tuners.Spec, trials int, loss func(json.RawMessage) float64) float64 {
	tuner, err := tuners.New(spec)
	require.NoError(t, err)
	least := math.Inf(1)
	for n := range trials {
		proposal, err := tuner.Propose(n)
		require.NoError(t, err)
		require.Equal(t, tuners.Try, proposal.Answer)
		value := loss(proposal.Parameters)
		least = min(least, value)
		tell(t, tuner, trial.KindAsked, n, trial.Asked{Parameters: proposal.Parameters, Source: trial.SourceAlgorithm})
		tell(t, tuner, trial.KindEnded, n, trial.Ended{State: trial.Succeeded, Value: &value, Source: trial.SourceAlgorithm})
	}
	return least
}

func tell(t testing.TB, tuner tuners.Tuner, kind trial.Kind, n int, data any) {
	raw, err := json.Marshal(data)
	require.NoError(t, err)
	require.NoError(t, tuner.Apply(trial.Event{Kind: kind, Sequence: n, Attempt: 1, Data: raw}))
}

func medianLoss(t testing.TB, name string, trials int, space string, loss func(json.RawMessage) float64) float64 {
	var losses []float64
	for seed := range 9 {
		losses = append(losses, leastFound(t, tuners.Spec{Name: name, Seed: uint64(seed), Space: json.RawMessage(space)}, trials, loss))
	}
	slices.Sort(losses)
	return losses[len(losses)/2]
}

func TestTPEFindsWhatRandomDoesNotInAMixedConditionalSpace(t *testing.T) {
	ours, random := medianLoss(t, "TPE", 100, networkSpace, networkLoss), medianLoss(t, "Random", 100, networkSpace, networkLoss)
	require.Less(t, ours, random/5)
}

func TestTPEClosesInOnASmoothMinimum(t *testing.T) {
	bowl := func(parameters json.RawMessage) float64 {
		var p struct{ X, Y float64 }
		require.NoError(t, json.Unmarshal(parameters, &p))
		return squared(p.X-1.234) + squared(p.Y+2.345)
	}
	space := `{"x": {"_type": "uniform", "_value": [-5, 5]}, "y": {"_type": "uniform", "_value": [-5, 5]}}`
	require.Less(t, medianLoss(t, "TPE", 100, space, bowl), 1e-3)
}

func TestTPEMaximizesWhereToldSo(t *testing.T) {
	peak := func(parameters json.RawMessage) float64 {
		var p struct{ X float64 }
		require.NoError(t, json.Unmarshal(parameters, &p))
		return -squared(p.X - 2)
	}
	tuner, err := tuners.New(tuners.Spec{Name: "TPE", Arguments: json.RawMessage(`{"optimize_mode": "maximize"}`), Space: json.RawMessage(oneUniform)})
	require.NoError(t, err)
	most := math.Inf(-1)
	for n := range 60 {
		proposal, err := tuner.Propose(n)
		require.NoError(t, err)
		value := peak(proposal.Parameters)
		most = max(most, value)
		tell(t, tuner, trial.KindAsked, n, trial.Asked{Parameters: proposal.Parameters, Source: trial.SourceAlgorithm})
		tell(t, tuner, trial.KindEnded, n, trial.Ended{State: trial.Succeeded, Value: &value})
	}
	require.Greater(t, most, -1e-3)
}

// Trials end without a result where x is above zero; the best values lie just before.
func TestTPEKeepsAwayFromWhereTrialsFail(t *testing.T) {
	without := func(state trial.State) (count int) {
		for seed := range 10 {
			count += endedWithoutResult(t, uint64(seed), state)
		}
		return count
	}
	require.Less(t, without(trial.Failed), without(trial.UserCanceled)*9/10, "what was cancelled says nothing")
}

func endedWithoutResult(t *testing.T, seed uint64, state trial.State) (count int) {
	tuner, err := tuners.New(tuners.Spec{Name: "TPE", Seed: seed, Space: json.RawMessage(oneUniform)})
	require.NoError(t, err)
	for n := range 60 {
		proposal, err := tuner.Propose(n)
		require.NoError(t, err)
		var p struct{ X float64 }
		require.NoError(t, json.Unmarshal(proposal.Parameters, &p))
		value := -p.X
		end := trial.Ended{State: trial.Succeeded, Value: &value}
		if p.X > 0 {
			end = trial.Ended{State: state}
			count++
		}
		tell(t, tuner, trial.KindAsked, n, trial.Asked{Parameters: proposal.Parameters, Source: trial.SourceAlgorithm})
		tell(t, tuner, trial.KindEnded, n, end)
	}
	return count
}

func BenchmarkTPESuggestion(b *testing.B) {
	kinds := map[string]string{
		"uniform": `"uniform", "_value": [0, 1]`, "quniform": `"quniform", "_value": [0, 1, 0.001]`,
		"randint": `"randint", "_value": [0, 1000]`, "choice": `"choice", "_value": ["a", "b", "c", "d"]`,
	}
	for kind, definition := range kinds {
		for _, trials := range []int{100, 1000, 10_000} {
			b.Run(fmt.Sprintf("%s/after-%d", kind, trials), func(b *testing.B) {
				tuner := after(b, tenDimensions(definition), trials)
				for b.Loop() {
					_, err := tuner.Propose(trials)
					require.NoError(b, err)
				}
			})
		}
	}
}

// after is TPE after so many random trials.
func after(t testing.TB, space string, trials int) tuners.Tuner {
	spec := tuners.Spec{Name: "TPE", Space: json.RawMessage(space)}
	tuner, err := tuners.New(spec)
	require.NoError(t, err)
	spec.Name = "Random"
	random, err := tuners.New(spec)
	require.NoError(t, err)
	for n := range trials {
		proposal, err := random.Propose(n)
		require.NoError(t, err)
		value := float64(n*7919%1009) / 1009
		tell(t, tuner, trial.KindAsked, n, trial.Asked{Parameters: proposal.Parameters, Source: trial.SourceAlgorithm})
		tell(t, tuner, trial.KindEnded, n, trial.Ended{State: trial.Succeeded, Value: &value})
	}
	return tuner
}
