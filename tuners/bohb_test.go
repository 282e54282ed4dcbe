package tuners_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/testsuite/tunertest"
	"github.com/perennial-ml/perennial/trial"
	"github.com/perennial-ml/perennial/tuners"
)

func TestBOHBKeepsTheTunersPromises(t *testing.T) {
	tunertest.Run(t, tuners.New, tunertest.Options{
		Spec: tuners.Spec{Name: "BOHB", Seed: 1,
			Arguments: json.RawMessage(`{"max_budget": 2, "eta": 2, "min_points_in_model": 1, "random_fraction": 0}`)},
		Admits: inSpaceBeside("TRIAL_BUDGET"),
	})
}

func TestBOHBAsksForNNIsBrackets(t *testing.T) {
	p := play(t, "BOHB", `{"optimize_mode": "minimize", "min_budget": 1, "max_budget": 9, "eta": 3}`, oneNumber)
	var ids []string
	budgets := map[any]int{}
	for len(ids) < 9+3+1+5+1+3 {
		a := p.ask()
		ids = append(ids, a.id)
		budgets[a.parameters["TRIAL_BUDGET"]]++
		p.succeed(a, a.parameters["x"].(float64))
	}
	require.Equal(t, []string{"2_0_0", "2_0_1", "2_0_2"}, ids[:3])
	require.Equal(t, "2_1_", ids[9][:4])
	require.Equal(t, "2_2_", ids[12][:4])
	require.Equal(t, "1_0_9", ids[13])
	require.Equal(t, "0_0_14", ids[19])
	require.Equal(t, map[any]int{1.0: 9, 3.0: 3 + 5, 9.0: 1 + 1 + 3}, budgets)
}

func TestBOHBsConfigurationsComeCloserToTheBest(t *testing.T) {
	near := func(name string) int {
		p := play(t, name, `{"optimize_mode": "minimize"}`, mixedSpace)
		hits := 0
		for n := range 300 {
			a := p.ask()
			off := mixed(a.parameters)
			if n >= 100 && off < 0.5 {
				hits++
			}
			p.succeed(a, off+1/a.parameters["TRIAL_BUDGET"].(float64)) // more budget, less loss
		}
		return hits
	}
	require.Greater(t, near("BOHB"), 100, "of 200")
	require.Less(t, near("Hyperband"), 60, "which chooses at random")
}

func TestBOHBNeverWaitsAndTellsBracketsOfTheSameSizeApart(t *testing.T) {
	p := play(t, "BOHB", `{"optimize_mode": "minimize", "max_budget": 2, "eta": 2}`, oneNumber) // 2+1 and 2 trials
	running := p.asks(9)
	var ids []string
	for _, a := range running {
		ids = append(ids, a.id)
	}
	require.Equal(t, []string{"1_0_0", "1_0_1", "0_0_2", "0_0_3", "1_0_4", "1_0_5", "0_0_6", "0_0_7", "1_0_8"}, ids)
	for i, a := range running[:8] {
		p.succeed(a, float64(i))
	}
	require.Equal(t, []string{"1_1_0", "1_1_4", "1_0_9"}, []string{p.ask().id, p.ask().id, p.ask().id})
}

func TestBOHBBearsTrialsWithoutResults(t *testing.T) {
	p := play(t, "BOHB", `{"min_points_in_model": 2, "random_fraction": 0}`, mixedSpace)
	for range 100 {
		p.end(p.ask(), trial.Failed)
	}
}

func TestBadArgumentsOfBOHBAreRefusedWithWhatWouldBeRight(t *testing.T) {
	for arguments, want := range map[string]string{
		`{"min_budget": 5}`:          `argument min_budget of tuner BOHB is 5: want at most max_budget, which is 3`,
		`{"eta": 1}`:                 `argument eta of tuner BOHB is 1: want an integer from 2 to`,
		`{"top_n_percent": 100}`:     `argument top_n_percent of tuner BOHB is 100: want an integer from 1 to 99`,
		`{"config_space": "/a.pcs"}`: `write the parameters into searchSpace`,
	} {
		_, err := tuners.New(tuners.Spec{Name: "BOHB", Space: []byte(mixedSpace), Arguments: []byte(arguments)})
		require.ErrorContains(t, err, want)
	}
	_, err := tuners.New(tuners.Spec{Name: "BOHB", Space: []byte(mixedSpace), Arguments: []byte(
		`{"optimize_mode": "maximize", "min_budget": 1, "max_budget": 27, "eta": 3, "min_points_in_model": 7, "top_n_percent": 15,
		"num_samples": 64, "random_fraction": 0.33, "bandwidth_factor": 3.0, "min_bandwidth": 0.001, "config_space": null}`)})
	require.NoError(t, err, "as NNI's documentation has them")
}
