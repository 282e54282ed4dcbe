package assessors

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/trial"
)

// TestCurvesAreThoseOfNNI compares with what all_models of NNI 3.0's curvefunctions.py
// give for the parameters in model_para at 2 and at 10. Where ilog2 has the logarithm
// of the step, ours has that of the step after.
func TestCurvesAreThoseOfNNI(t *testing.T) {
	nni := [][2]float64{
		{0.4370456509070629, 0.5646309236887117},  // vap
		{0.32359190237274127, 0.3318366451029784}, // pow3
		{2.0, 10.0}, // linear
		{0.30858910785279864, 0.9171272391716065},  // logx_linear
		{0.3627095549241105, 0.5365411662995823},   // dr_hill_zero_background
		{0.1828945152455869, 0.31914848181950317},  // log_power
		{0.25071972834694123, 0.3323757760886894},  // pow4
		{0.10000000192000003, 0.10000599994000059}, // mmf
		{0.5321887646968525, 0.6089375598233431},   // exp4
		{0.1596411324177458, 0.5932533727816017},   // ilog2
		{0.1118807960159468, 0.15709754917842422},  // weibull
		{0.324985653643809, 0.49291738867011886},   // janoschek
	}
	all := curves()
	require.Len(t, all, len(nni))
	for i, want := range nni {
		shift := 0.0
		if i == 9 {
			shift = 1
		}
		require.InEpsilon(t, want[0], all[i].at(2-shift, all[i].start), 1e-12, "curve %d", i)
		require.InEpsilon(t, want[1], all[i].at(10-shift, all[i].start), 1e-12, "curve %d", i)
	}
}

// risingCurve is a power law with noise, as many steps long, and its value at step 40.
func risingCurve(random *rand.Rand, length int) (steps, values []float64, truth float64) {
	top, rate := 0.5+0.5*random.Float64(), 0.2+1.3*random.Float64()
	drop := top * (0.3 + 0.6*random.Float64())
	for x := 1.0; x <= float64(length); x++ {
		steps, values = append(steps, x), append(values, top-drop*math.Pow(x, -rate)+0.01*random.NormFloat64())
	}
	return steps, values, top - drop*math.Pow(40, -rate)
}

func TestForecastsAreNearerToTheEndThanTheLastValueIs(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, length := range []int{6, 10, 20, 39} {
		const curves = 150
		missed, last, none := 0.0, 0.0, 0
		for range curves {
			steps, values, truth := risingCurve(random, length)
			value, ok := forecast(steps, values, 40)
			if !ok {
				none++
				continue
			}
			missed += (value - truth) * (value - truth)
			last += (values[length-1] - truth) * (values[length-1] - truth)
		}
		require.Less(t, none, curves/20, "%d steps", length)
		require.Less(t, math.Sqrt(missed/last), 0.75, "%d steps", length)
	}
}

func TestFitsFindTheCurveThatTheValuesLieOn(t *testing.T) {
	for i, c := range curves() {
		var steps, values []float64
		for x := 1.0; x <= 25; x++ {
			steps, values = append(steps, x), append(values, c.at(x, c.start))
		}
		from := make([]float64, len(c.start))
		for j := range from {
			from[j] = c.start[j]*1.2 + 0.02
		}
		before := measured(c.at, from, steps, values).squares
		require.Less(t, fit(c.at, from, steps, values).squares, before/50, "curve %d", i)
	}
}

func TestACurveWithoutAValueIsNotFitted(t *testing.T) {
	nowhere := func(float64, []float64) float64 { return math.NaN() }
	require.Equal(t, math.Inf(1), fit(nowhere, []float64{1}, []float64{1, 2}, []float64{1, 2}).squares)
	_, ok := forecast([]float64{6}, []float64{0}, 20)
	require.True(t, ok)
}

func newCurveBench(t require.TestingT, arguments string) *bench {
	assessor, err := New(Spec{Name: "CurveFitting", Arguments: json.RawMessage(arguments)})
	require.NoError(t, err)
	return &bench{t: t, assessor: assessor}
}

// rising and flat are accuracies; turned upside down they are losses.
func rising(step int) float64 { return 0.9 - 0.7*math.Pow(float64(step), -0.6) }
func flat(step int) float64   { return 0.5 - 0.3*math.Pow(float64(step), -0.6) }

func (b *bench) follow(sequence, from, to int, curve func(int) float64) (last Verdict) {
	for step := from; step <= to && !last.Stop; step++ {
		last = b.report(sequence, curve(step))
	}
	return last
}

func TestATrialWhoseCurveComesNowhereNearTheBestIsStopped(t *testing.T) {
	loss := func(curve func(int) float64) func(int) float64 {
		return func(step int) float64 { return 1 - curve(step) }
	}
	up, down := newCurveBench(t, `{"epoch_num": 20}`), newCurveBench(t, `{"epoch_num": 20, "optimize_mode": "minimize", "threshold": 0.8}`)
	require.False(t, up.follow(0, 1, 20, rising).Stop, "nothing to compare with yet")
	require.False(t, down.follow(0, 1, 20, loss(rising)).Stop)
	up.end(0, trial.Succeeded)
	down.end(0, trial.Succeeded)

	require.False(t, up.follow(1, 1, 5, flat).Stop, "start_step is 6")
	verdict := up.follow(1, 6, 6, flat)
	require.True(t, verdict.Stop)
	require.Equal(t, "curvefitting", verdict.Reason.Code)
	require.Regexp(t, `^0\.4\d+, its forecast for step 20, is below 0\.74\d+, which allows for threshold 0\.95 of the best result 0\.78`, verdict.Reason.Text)
	verdict = down.follow(1, 1, 6, loss(flat))
	require.True(t, verdict.Stop)
	require.Contains(t, verdict.Reason.Text, "is above")

	require.False(t, up.follow(2, 1, 20, rising).Stop, "low at first, but on its way")
	require.False(t, down.follow(2, 1, 20, loss(rising)).Stop)
}

func TestOnlyTrialsThatSucceededAreTheBest(t *testing.T) {
	b := newCurveBench(t, `{"epoch_num": 20}`)
	b.follow(0, 1, 20, rising)
	b.end(0, trial.Failed)
	require.False(t, b.follow(1, 1, 19, flat).Stop)
}

func TestTrialsAreJudgedEveryGapSteps(t *testing.T) {
	b := newCurveBench(t, `{"epoch_num": 20, "start_step": 2, "gap": 5}`)
	b.succeed(0, 0.9)
	require.False(t, b.follow(1, 1, 2, func(int) float64 { return 0.9 }).Stop) // judged at step 2: good enough
	require.False(t, b.follow(1, 3, 6, flat).Stop)
	require.True(t, b.follow(1, 7, 7, flat).Stop)
}

func TestNothingIsStoppedAtItsLastStep(t *testing.T) {
	b := newCurveBench(t, `{"epoch_num": 8, "start_step": 8}`)
	b.succeed(0, 0.9)
	require.False(t, b.follow(1, 1, 9, flat).Stop)
}

func TestStepsWithoutANumberAreLeftOutOfTheFit(t *testing.T) {
	b := newCurveBench(t, `{"epoch_num": 20}`)
	b.follow(0, 1, 20, rising)
	b.end(0, trial.Succeeded)
	for range 6 {
		require.False(t, b.reportNothing(1).Stop)
	}
	require.True(t, b.follow(1, 7, 15, flat).Stop)
}

func TestCurvefittingsArgumentsAreChecked(t *testing.T) {
	for arguments, want := range map[string]string{
		``: "assessor Curvefitting has no argument epoch_num: want how many reports a whole trial makes",
		`{"epoch_num": 0, "threshold": 0, "gap": 0}`: "argument epoch_num of assessor Curvefitting is 0: want an integer from 1\n" +
			"argument gap of assessor Curvefitting is 0: want an integer from 1\n" +
			"argument threshold of assessor Curvefitting is 0: want a number above 0",
	} {
		_, err := New(Spec{Name: "Curvefitting", Arguments: json.RawMessage(arguments)})
		require.EqualError(t, err, want)
	}
}

func BenchmarkForecast(b *testing.B) {
	for _, length := range []int{6, 20, 1000} {
		steps, values, _ := risingCurve(rand.New(rand.NewPCG(1, 2)), length)
		b.Run(fmt.Sprint(length, " steps"), func(b *testing.B) {
			for b.Loop() {
				forecast(steps, values, float64(2*length))
			}
		})
	}
}

// TestForecastsAreNearerToTheTruthThanNNIs is about the curves of testdata/forecasts.py
// for which NNI has a forecast.
func TestForecastsAreNearerToTheTruthThanNNIs(t *testing.T) {
	raw, err := os.ReadFile("testdata/forecasts.json")
	require.NoError(t, err)
	var curves []struct {
		Values []float64
		Truth  float64
		NNI    *float64
	}
	require.NoError(t, json.Unmarshal(raw, &curves))
	ours, theirs, compared := 0.0, 0.0, 0
	for _, c := range curves {
		var steps []float64
		for i := range c.Values {
			steps = append(steps, float64(i+1))
		}
		value, ok := forecast(steps, c.Values, 40)
		require.True(t, ok)
		if c.NNI != nil {
			ours, theirs = ours+(value-c.Truth)*(value-c.Truth), theirs+(*c.NNI-c.Truth)*(*c.NNI-c.Truth)
			compared++
		}
	}
	require.Greater(t, compared, 30)
	require.Less(t, math.Sqrt(ours/theirs), 0.75)
}
