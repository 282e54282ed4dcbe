package tuners

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/perennial-ml/perennial/searchspace"
)

// difference is the derivative of a function by central differences.
func difference(f func(float64) float64, at float64) float64 {
	const h = 1e-5
	return (f(at+h) - f(at-h)) / (2 * h)
}

func TestTheKernelsSlopeIsItsDerivative(t *testing.T) {
	for _, squared := range []float64{0.01, 0.3, 1, 7} {
		_, slope := radial(squared)
		require.InEpsilon(t, difference(func(x float64) float64 { k, _ := radial(x); return k }, squared), slope, 1e-6)
	}
	k, _ := radial(0)
	require.Equal(t, 1.0, k)
}

// sampleProcess is some vectors, of which the last edge is unordered, with values.
func sampleProcess(n int) *likelihood {
	l := &likelihood{unordered: []bool{false, false, true}, floor: 1e-6}
	stream := searchspace.NewStream(1, n)
	for range n {
		x, y, c := stream.Open(), stream.Open(), float64(stream.Below(3))
		l.vectors = append(l.vectors, []float64{x, y, c})
		l.values = append(l.values, math.Sin(5*x)+y*y+c/2)
	}
	return l
}

func TestTheLikelihoodsSlopeIsItsDerivative(t *testing.T) {
	l := sampleProcess(20)
	theta := []float64{-0.5, 0.2, 0.4, -5}
	slope := make([]float64, len(theta))
	l.negative(theta, slope)
	for i := range theta {
		numeric := difference(func(x float64) float64 {
			moved := slices.Clone(theta)
			moved[i] = x
			return l.negative(moved, make([]float64, len(theta)))
		}, theta[i])
		require.InEpsilon(t, numeric, slope[i], 1e-4, "logarithm %d", i)
	}
}

func TestAFitFindsWhichEdgesMatter(t *testing.T) {
	l := &likelihood{unordered: []bool{false, false}, floor: 1e-6}
	for n := range 30 {
		stream := searchspace.NewStream(2, n)
		x := []float64{stream.Open(), stream.Open()}
		l.vectors, l.values = append(l.vectors, x), append(l.values, math.Sin(9*x[0]))
	}
	theta := l.fit()
	require.Greater(t, theta[1], theta[0]+1, "the second edge makes no difference")
	require.Less(t, theta[2], math.Log(1e-3), "there is no noise")
}

func TestAProcessGoesThroughItsValuesAndForgetsThemFarAway(t *testing.T) {
	l := sampleProcess(15)
	g := condition(newMatern(l.unordered, []float64{-1, -1, 0}), 1e-9, l.vectors, l.values)
	for i, vector := range l.vectors {
		mean, deviation := g.predict(vector)
		require.InDelta(t, l.values[i], mean, 1e-5)
		require.InDelta(t, 0, deviation, 1e-3)
		require.InDelta(t, mean, g.atVectors(l.values)[i], 1e-6)
	}
	mean, deviation := g.predict([]float64{90, -90, 7})
	require.InDelta(t, g.mean, mean, 1e-9)
	require.InDelta(t, math.Sqrt(g.variance), deviation, 1e-9)
}

func TestAProcessKnowsTheSlopesOfItsPrediction(t *testing.T) {
	l := sampleProcess(15)
	g := condition(newMatern(l.unordered, []float64{-1, -0.5, 0}), 1e-3, l.vectors, l.values)
	at := []float64{0.4, 0.7, 1}
	_, _, meanSlope, deviationSlope := g.slopes(at)
	for i := range 2 {
		predict := func(x float64) (float64, float64) {
			moved := slices.Clone(at)
			moved[i] = x
			return g.predict(moved)
		}
		require.InEpsilon(t, difference(func(x float64) float64 { m, _ := predict(x); return m }, at[i]), meanSlope[i], 1e-5)
		require.InEpsilon(t, difference(func(x float64) float64 { _, d := predict(x); return d }, at[i]), deviationSlope[i], 1e-4)
	}
	require.Zero(t, meanSlope[2], "an unordered edge has no slope")
}

func TestRepeatedVectorsDoNotBreakAProcess(t *testing.T) {
	vectors := slices.Repeat([][]float64{{0.5}}, 20)
	values := make([]float64, 20)
	values[3] = 1
	g := condition(newMatern([]bool{false}, []float64{3}), 1e-16, vectors, values)
	mean, deviation := g.predict([]float64{0.5})
	require.InDelta(t, 0.05, mean, 1e-3)
	require.False(t, math.IsNaN(deviation))
}

func TestUtilitiesKnowTheirDerivatives(t *testing.T) {
	utilities := map[string]utility{
		"ei": expectedImprovement(0.3, 0.1), "poi": probabilityOfImprovement(0.3, 0.1), "ucb": lowerBound(2),
	}
	for name, u := range utilities {
		for _, mean := range []float64{-3, -0.5, 0.2, 1, 5, 29.2, 40, 300} {
			value, byMean, byDeviation := u(mean, 1)
			require.False(t, math.IsNaN(value) || math.IsInf(value, 0))
			place := fmt.Sprintf("%s at %v", name, mean)
			require.InEpsilon(t, difference(func(x float64) float64 { v, _, _ := u(x, 1); return v }, mean), byMean, 1e-2, place)
			require.InDelta(t, difference(func(x float64) float64 { v, _, _ := u(mean, x); return v }, 1), byDeviation, 1e-2*(1+math.Abs(byDeviation)), place)
		}
	}
}

func TestExpectedImprovementIsThatOfTheNormalDistribution(t *testing.T) {
	value, _, _ := expectedImprovement(1, 0)(1, 2)
	require.InDelta(t, 2/math.Sqrt(2*math.Pi), math.Exp(value), 1e-12)
	value, _, _ = expectedImprovement(1, 0)(-99, 1e-3)
	require.InDelta(t, 100, math.Exp(value), 1e-9, "certain to improve by 100")
}

func TestWarpingKeepsTheOrderAndIsFinite(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		losses := rapid.SliceOfN(rapid.Float64Range(-math.MaxFloat64, math.MaxFloat64), 1, 30).Draw(t, "losses")
		slices.Sort(losses)
		values := warped(losses)
		require.True(t, slices.IsSorted(values))
		for _, value := range values {
			require.False(t, math.IsNaN(value) || math.IsInf(value, 0))
		}
	})
}

func TestWarpingKeepsTheBestApartBesideAnOutlier(t *testing.T) {
	values := warped([]float64{1, 2, 3, 4, 5, 6, 7, 8, 1e9})
	require.Greater(t, values[1]-values[0], 0.1)
	require.Less(t, values[8]-values[7], 4.0)
}

func TestTheTransformOfYeoAndJohnsonIsContinuousInItsParameter(t *testing.T) {
	for _, x := range []float64{-3, -0.1, 0, 0.2, 5} {
		require.InDelta(t, yeoJohnson(x, 1e-9), yeoJohnson(x, 0), 1e-6)
		require.InDelta(t, yeoJohnson(x, 2-1e-9), yeoJohnson(x, 2), 1e-6)
		require.InDelta(t, x, yeoJohnson(x, 1), 1e-12)
	}
}

func TestAModelKeepsTheBestTheLatestAndSomeOthers(t *testing.T) {
	var k kept
	const trials = 3000
	for n := range trials {
		loss := float64((n*7919)%trials + 1)
		if n%10 == 0 {
			loss = math.NaN()
		}
		k.add(observed{trial: n, vector: []float64{0}, loss: loss})
		require.Len(t, k.best, min(n+1, keptTrials))
	}
	require.Len(t, k.latest, keptTrials)
	for i, o := range k.latest[keptTrials-keptLatest:] {
		require.Equal(t, trials-keptLatest+i, o.trial)
	}
	require.True(t, slices.IsSortedFunc(k.best[:k.scored()], func(a, b *observed) int { return int(a.loss - b.loss) }))
	require.Less(t, k.best[keptBest-1].loss, float64(keptBest)*1.3, "about one of ten has no loss")
	others := 0
	for _, o := range k.latest[:keptTrials-keptLatest] {
		if !(o.loss <= k.best[keptBest-1].loss) {
			others++
		}
	}
	require.Positive(t, others)
	require.Len(t, thinned(k.best, 64), 64)
}

func TestTheCubeIsThereAndBack(t *testing.T) {
	space, err := searchspace.Parse([]byte(`{
		"numbers": {"_type": "choice", "_value": [8, 2, 4]},
		"words": {"_type": "choice", "_value": ["a", "b", "c"]},
		"count": {"_type": "randint", "_value": [1, 6]},
		"one": {"_type": "randint", "_value": [1, 2]},
		"rate": {"_type": "loguniform", "_value": [0.01, 1]},
		"step": {"_type": "quniform", "_value": [0, 10, 5]},
		"wide": {"_type": "normal", "_value": [3, 2]},
		"deep": {"_type": "choice", "_value": [{"_name": "x", "w": {"_type": "choice", "_value": ["a", "b"]},
			"u": {"_type": "uniform", "_value": [0, 1]}}, {"_name": "y"}]}}`))
	require.NoError(t, err)
	c := newCube(space)
	for parameters, want := range map[string][]float64{
		`{"numbers":2,"words":"b","count":2,"one":1,"rate":1.0,"step":10.0,"wide":3.0,"deep":{"_name":"y"}}`:                 {0, 1, 0.25, 0.5, 1, 1, 0.5, 1, -1, 0.5},
		`{"numbers":8,"words":"a","count":5,"one":1,"rate":1.0,"step":5.0,"wide":3.0,"deep":{"_name":"x","w":"b","u":0.25}}`: {1, 0, 1, 0.5, 1, 0.5, 0.5, 0, 1, 0.25},
	} {
		point, ok := space.Locate([]byte(parameters))
		require.True(t, ok)
		require.InDeltaSlice(t, want, c.vector(point), 1e-9)
		require.Equal(t, parameters, string(c.parameters(c.vector(point))))
	}
	for n := range 200 {
		vector := c.draw(searchspace.NewStream(1, n))
		require.InDeltaSlice(t, vector, c.snapped(vector), 1e-9)
		require.InDeltaSlice(t, c.spread(1, n), c.snapped(c.spread(1, n)), 1e-9)
	}
}

func TestTheFirstDesignIsSpreadEvenly(t *testing.T) {
	space, err := searchspace.Parse([]byte(`{"x": {"_type": "uniform", "_value": [0, 1]}, "c": {"_type": "choice", "_value": ["a", "b"]}}`))
	require.NoError(t, err)
	words, quarters := map[float64]int{}, map[float64]int{}
	for n := range 16 {
		vector := newCube(space).spread(5, n)
		words[vector[1]]++
		quarters[math.Floor(vector[0]*4)]++
	}
	for _, count := range words {
		require.InDelta(t, 8, count, 1)
	}
	for quarter := range 4 {
		require.InDelta(t, 4, quarters[float64(quarter)], 1)
	}
}
