package tuners_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/testsuite/tunertest"
	"github.com/perennial-ml/perennial/tuners"
)

func TestCMAESKeepsTheTunersPromises(t *testing.T) {
	tunertest.Run(t, tuners.New, tunertest.Options{
		Spec:   tuners.Spec{Name: "CMA-ES", Seed: 42, Arguments: []byte(`{"population_size": 4}`)},
		Finite: tunertest.FiniteSpaces(),
	})
}

func TestCMAESGoesDownASphereAndAnEllipsoid(t *testing.T) {
	for name, stretch := range map[string]float64{"sphere": 1, "ellipsoid": 1000} {
		s := newSearch(t, minimising("CMAES", tenDimensions(`"uniform", "_value": [-3, 5]`), 1), 1)
		s.run(3000, ellipsoid(stretch))
		require.Less(t, s.best(), 1e-6, name)
	}
}

// ellipsoid has its minimum, 0, at 1, and is stretched by a factor from one end to
// the other, with neighbours that depend on each other.
func ellipsoid(stretch float64) func(map[string]any) float64 {
	return func(x map[string]any) float64 {
		sum, before := 0.0, 0.0
		for i := range len(x) {
			along := x[fmt.Sprintf("p%d", i)].(float64) - 1 + before/2
			sum += math.Pow(stretch, float64(i)/float64(len(x)-1)) * along * along
			before = along
		}
		return sum
	}
}

const mixedSpace = `{"kind": {"_type": "choice", "_value": ["a", "b", "c", "d"]}, "n": {"_type": "randint", "_value": [0, 50]},
	"x": {"_type": "uniform", "_value": [0, 1]}, "y": {"_type": "normal", "_value": [0, 1]},
	"net": {"_type": "choice", "_value": [{"_name": "deep", "step": {"_type": "quniform", "_value": [0, 10, 0.5]}}, {"_name": "flat"}]}}`

// mixed has its minimum, 0, in branch "deep".
func mixed(x map[string]any) float64 {
	off := math.Abs(x["n"].(float64)-37)/50 + math.Abs(x["x"].(float64)-0.3) + math.Abs(x["y"].(float64)-1)/5
	if x["kind"] != "c" {
		off += 0.5
	}
	net := x["net"].(map[string]any)
	if net["_name"] == "flat" {
		return off + 0.5
	}
	return off + math.Abs(net["step"].(float64)-7)/10
}

func TestCMAESLearnsChoicesIntegersAndBranches(t *testing.T) {
	for seed := range uint64(3) {
		s := newSearch(t, minimising("CMAES", mixedSpace, seed), 4)
		s.run(400, mixed)
		require.Less(t, s.best(), 0.1, "the best of 400 random trials is 0.3 in the median")
	}
}

func TestCMAESLeavesAMinimumInWhichItRests(t *testing.T) {
	twoBasins := func(x map[string]any) float64 {
		at := x["x"].(float64)
		return min(0.1+math.Abs(at-0.5), 200*math.Abs(at-0.98)-1)
	}
	space := `{"x": {"_type": "uniform", "_value": [0, 1]}, "y": {"_type": "uniform", "_value": [0, 1]}}`
	best := func(arguments string) float64 {
		spec := minimising("CMAES", space, 5)
		spec.Arguments = []byte(arguments)
		s := newSearch(t, spec, 1)
		s.run(4000, func(x map[string]any) float64 { return twoBasins(x) + math.Abs(x["y"].(float64)-0.5)/10 })
		return s.best()
	}
	require.Less(t, best(`{"optimize_mode": "minimize"}`), 0.0, "it begins again until it finds the narrow basin")
	require.Positive(t, best(`{"optimize_mode": "minimize", "restart": false}`))
}

func TestCMAESBearsFailuresAndResultsThatAreAllAlike(t *testing.T) {
	for _, space := range []string{mixedSpace, `{"c": {"_type": "choice", "_value": ["a", {"b": 1}, null]}, "n": {"_type": "uniform", "_value": [0, 1]}}`} {
		for _, value := range []float64{math.NaN(), 7, math.MaxFloat64} {
			s := newSearch(t, minimising("CMAES", space, 1), 3)
			require.Len(t, s.run(500, func(map[string]any) float64 { return value }), 500)
		}
	}
}

func TestBadArgumentsOfCMAESAreRefusedWithWhatWouldBeRight(t *testing.T) {
	for arguments, want := range map[string]string{
		`{"population_size": 3}`: `argument population_size of tuner CMAES is 3: want an integer from 4 to 1000`,
		`{"sigma0": 0}`:          `argument sigma0 of tuner CMAES is 0: want a number from 0.001 to 1`,
		`{"restart": 1}`:         `argument restart of tuner CMAES is 1: want true or false`,
	} {
		_, err := tuners.New(tuners.Spec{Name: "CMA-ES", Space: []byte(mixedSpace), Arguments: []byte(arguments)})
		require.ErrorContains(t, err, want)
	}
}
