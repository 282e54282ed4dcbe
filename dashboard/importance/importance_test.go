package importance_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/dashboard/importance"
)

func trials(count int, value func(x, y float64, name string, random *rand.Rand) float64) []importance.Trial {
	random := rand.New(rand.NewPCG(7, 7))
	var all []importance.Trial
	for range count {
		x, y, name := random.Float64(), random.Float64(), []string{"sgd", "adam", "lion"}[random.IntN(3)]
		one := importance.Trial{Value: value(x, y, name, random), Parameters: map[string]json.RawMessage{
			"x": json.RawMessage(fmt.Sprint(x)), "y": json.RawMessage(fmt.Sprint(y)), "same": json.RawMessage("3"),
			"optimizer": json.RawMessage(fmt.Sprintf("%q", name))}}
		if name == "sgd" {
			one.Parameters["optimizer/momentum"] = json.RawMessage(fmt.Sprint(random.Float64()))
		}
		all = append(all, one)
	}
	return all
}

func shares(answer importance.Answer) map[string]float64 {
	all := map[string]float64{}
	for _, p := range answer.Parameters {
		all[p.Name] = p.Share
	}
	return all
}

func TestWhatAResultDependsOnIsMoreImportantThanWhatItDoesNot(t *testing.T) {
	t.Parallel()
	answer := importance.Of(trials(300, func(x, y float64, _ string, random *rand.Rand) float64 {
		return 5*math.Abs(x-0.4) + y + 0.01*random.Float64()
	}))
	require.Equal(t, "x", answer.Parameters[0].Name)
	require.Equal(t, "y", answer.Parameters[1].Name)
	of := shares(answer)
	require.Greater(t, of["x"], 0.7)
	require.Less(t, of["optimizer"], 0.02)
	require.Greater(t, answer.Explained, 0.9)
	require.NotContains(t, of, "same", "what did not vary says nothing")
	require.InDelta(t, 1, of["x"]+of["y"]+of["optimizer"]+of["optimizer/momentum"], 1e-9)
}

func TestNamesHaveNoOrderAndOneResultThatIsFarOffMovesNothing(t *testing.T) {
	t.Parallel()
	answer := importance.Of(trials(200, func(x, _ float64, name string, random *rand.Rand) float64 {
		if x > 0.99 {
			return 1e30
		}
		return map[string]float64{"adam": 1}[name] + 0.1*random.Float64()
	}))
	require.Equal(t, "optimizer", answer.Parameters[0].Name)
	require.Greater(t, shares(answer)["optimizer"], 0.8)
}

func TestChanceAloneExplainsNothing(t *testing.T) {
	t.Parallel()
	answer := importance.Of(trials(300, func(_, _ float64, _ string, random *rand.Rand) float64 { return random.Float64() }))
	require.Less(t, answer.Explained, 0.1)
}

func TestFewResultsAndResultsThatAreAllAlikeSayNothing(t *testing.T) {
	t.Parallel()
	alike := func(float64, float64, string, *rand.Rand) float64 { return 1 }
	require.Empty(t, importance.Of(trials(importance.Least-1, alike)).Parameters)
	require.Empty(t, importance.Of(nil).Parameters)
	for name, share := range shares(importance.Of(trials(50, alike))) {
		require.Zero(t, share, name)
	}
}

func TestTheSameTrialsGiveTheSameAnswer(t *testing.T) {
	t.Parallel()
	few := func() importance.Answer {
		return importance.Of(trials(3000, func(x, y float64, _ string, _ *rand.Rand) float64 { return x * y }))
	}
	require.Equal(t, few(), few())
}

func BenchmarkTwoThousandTrials(b *testing.B) {
	all := trials(2000, func(x, y float64, _ string, _ *rand.Rand) float64 { return x * y })
	for b.Loop() {
		importance.Of(all)
	}
}
