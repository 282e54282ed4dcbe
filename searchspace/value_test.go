package searchspace

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestRoundingIsNNIs(t *testing.T) {
	for _, c := range []struct {
		definition string
		raw        float64
		emitted    string
	}{
		{`"quniform", "_value": [0, 1, 0.1]`, .25, "0.2"},
		{`"quniform", "_value": [0, 1, 0.1]`, .3, "0.30000000000000004"},
		{`"quniform", "_value": [0, 1, 0.1]`, .349999, "0.30000000000000004"},
		{`"quniform", "_value": [0, 1, 0.1]`, .05, "0.0"},
		{`"quniform", "_value": [0, 1, 0.1]`, .15, "0.1"},
		{`"quniform", "_value": [2, 10, 5]`, 2, "2.0"},
		{`"quniform", "_value": [2, 10, 5]`, 2.4, "2.0"},
		{`"quniform", "_value": [2, 10, 5]`, 7.4, "5.0"},
		{`"quniform", "_value": [2, 10, 5]`, 7.5, "10.0"},
		{`"quniform", "_value": [2, 10, 5]`, 9.9, "10.0"},
		{`"quniform", "_value": [0, 10, 4]`, 2, "0.0"},
		{`"quniform", "_value": [0, 10, 4]`, 6, "8.0"},
		{`"quniform", "_value": [0, 10, 4]`, 10, "8.0"},
		{`"qnormal", "_value": [0, 1, 0.5]`, -.25, "0.0"},
		{`"qnormal", "_value": [0, 1, 0.5]`, .25, "0.0"},
		{`"qnormal", "_value": [0, 1, 0.5]`, .75, "1.0"},
		{`"loguniform", "_value": [1e-4, 1]`, math.Log(1e-4), "0.00010000000000000009"},
		{`"lognormal", "_value": [0, 1]`, 1000, "1.7976931348623157e+308"},
		{`"randint", "_value": [0.5, 3.2]`, 0, "1"},
		{`"randint", "_value": [0.5, 3.2]`, 2, "3"},
		{`"randint", "_value": [9007199254740993, 9007199254740995]`, 0, "9007199254740993"},
	} {
		space := parse(t, `{"x": {"_type": `+c.definition+`}}`)
		require.Equal(t, c.emitted, string(space.Dimensions[0].Text(c.raw)), "%s at %v", c.definition, c.raw)
	}
}

func TestRandIntRoundsBothEndsUp(t *testing.T) {
	require.Equal(t, 3, parse(t, `{"x": {"_type": "randint", "_value": [0.5, 3.2]}}`).Dimensions[0].Size)
}

func TestFloatsAreSpelledAsPythonSpellsThem(t *testing.T) {
	for text, x := range map[string]float64{
		"5.0": 5, "0.0": 0, "0.30000000000000004": 0.30000000000000004, "1e-05": 1e-5, "0.0001": 1e-4,
		"1e+16": 1e16, "1000000000000000.0": 1e15, "-2.5e-07": -2.5e-7, "1.5e+300": 1.5e300,
		"5e-324": 5e-324, "123456.789": 123456.789, "-0.5": -0.5,
	} {
		require.Equal(t, text, FormatFloat(x))
	}
}

func TestFloatTextRoundTrips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.Float64().Draw(t, "x")
		back, err := strconv.ParseFloat(FormatFloat(x), 64)
		require.NoError(t, err)
		require.Equal(t, x, back)
		require.True(t, json.Valid([]byte(FormatFloat(x))))
	})
}

func TestElementsOfAChoiceStayByteForByte(t *testing.T) {
	space := parse(t, `{"<x>": {"_type": "choice", "_value": [1.0, 1, 1e2, "é<", {"b": 2.50, "a": [ 1 ]}, null]}}`)
	for i, want := range []string{`1.0`, `1`, `1e2`, `"é<"`, `{"b": 2.50, "a": [ 1 ]}`, `null`} {
		require.Equal(t, `{"<x>":`+want+`}`, string(space.Parameters(Point{float64(i)})))
	}
}

const twoLevels = `{
	"z": {"_type": "choice", "_value": [
		{"_name": "A", "k": {"_type": "choice", "_value": [
			{"_name": "deep", "q": {"_type": "quniform", "_value": [2, 10, 5]}},
			{"_name": "flat"}]}},
		{"_name": "B"}]},
	"a": {"_type": "randint", "_value": [0, 2]}}`

func TestNestedChoicesShowOnlyTheBranchTaken(t *testing.T) {
	space := parse(t, twoLevels)
	for _, c := range []struct {
		point Point
		want  string
	}{
		{Point{0, 0, 7.5, 1}, `{"z":{"_name":"A","k":{"_name":"deep","q":10.0}},"a":1}`},
		{Point{0, 1, 7.5, 0}, `{"z":{"_name":"A","k":{"_name":"flat"}},"a":0}`},
		{Point{1, 0, 7.5, 0}, `{"z":{"_name":"B"},"a":0}`},
	} {
		require.Equal(t, c.want, string(space.Parameters(c.point)))
	}
}

func TestOnlyATopLevelContinuousParameterNeverRepeats(t *testing.T) {
	require.True(t, parse(t, `{"a": {"_type": "choice", "_value": [1]}, "x": {"_type": "normal", "_value": [0, 1]}}`).NeverRepeats())
	require.False(t, parse(t, `{"x": {"_type": "quniform", "_value": [0, 1, 0.5]}}`).NeverRepeats())
	require.False(t, parse(t, `{"n": {"_type": "choice", "_value": [{"_name": "A", "x": {"_type": "uniform", "_value": [0, 1]}}]}}`).NeverRepeats())
}

func TestDrawsFollowTheirDistributions(t *testing.T) {
	for definition, median := range map[string]float64{
		`"uniform", "_value": [2, 6]`:         4,
		`"loguniform", "_value": [0.0001, 1]`: 0.01,
		`"normal", "_value": [3, 2]`:          3,
		`"lognormal", "_value": [0, 1]`:       1,
		`"randint", "_value": [0, 101]`:       50,
	} {
		space := parse(t, `{"x": {"_type": `+definition+`}}`)
		const draws = 4001
		values := make([]float64, draws)
		for n := range values {
			text := space.Dimensions[0].Text(space.Draw(NewStream(7, n))[0])
			require.NoError(t, json.Unmarshal(text, &values[n]))
		}
		slices.Sort(values)
		require.InEpsilon(t, median, values[draws/2], 0.15, definition)
	}
}

// The numbers are part of what a seed promises: changing them changes every
// experiment that is run again with its seed.
func TestAStreamIsTheSameEverywhere(t *testing.T) {
	stream := NewStream(42, 7)
	require.Equal(t, []any{0.7982999328055759, 0.46453577564227644, uint64(611)},
		[]any{stream.Open(), stream.Open(), stream.Below(1000)})
	require.NotEqual(t, NewStream(42, 7).Open(), NewStream(42, 8).Open())
	require.NotEqual(t, NewStream(42, 7).Open(), NewStream(43, 7).Open())
}

func TestBelowCoversItsRangeEvenly(t *testing.T) {
	stream := NewStream(1, 1)
	counts := make([]int, 3)
	for range 3000 {
		counts[stream.Below(3)]++
	}
	for _, count := range counts {
		require.InDelta(t, 1000, count, 120)
	}
}
