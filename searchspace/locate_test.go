package searchspace

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

const everyKind = `{
	"c": {"_type": "choice", "_value": [1, 1.0, "<a>", {"k": [ 1 ]}]},
	"i": {"_type": "randint", "_value": [-3, 4]},
	"u": {"_type": "uniform", "_value": [-2, 3]},
	"qu": {"_type": "quniform", "_value": [2, 10, 5]},
	"l": {"_type": "loguniform", "_value": [1e-5, 10]},
	"ql": {"_type": "qloguniform", "_value": [1, 100, 10]},
	"n": {"_type": "normal", "_value": [0, 5]},
	"qn": {"_type": "qnormal", "_value": [0, 5, 0.5]},
	"ln": {"_type": "lognormal", "_value": [0, 2]},
	"qln": {"_type": "qlognormal", "_value": [0, 2, 0.5]},
	"nested": {"_type": "choice", "_value": [
		{"_name": "A", "x": {"_type": "uniform", "_value": [0, 1]}, "deep": {"_type": "choice", "_value": [{"_name": "in"}, {"_name": "out"}]}},
		{"_name": "B", "x": {"_type": "randint", "_value": [0, 9]}}]}}`

func TestAPointIsFoundAgainFromItsParameters(t *testing.T) {
	space := parse(t, everyKind)
	for n := range 300 {
		parameters := space.Parameters(space.Draw(NewStream(1, n)))
		found, ok := space.Locate(parameters)
		require.True(t, ok, string(parameters))
		again := space.Parameters(found)
		if string(parameters) != string(again) {
			requireCloseTo(t, parameters, again)
		}
	}
}

// requireCloseTo allows what exp(log(x)) misses.
func requireCloseTo(t *testing.T, want, got json.RawMessage) {
	var a, b map[string]any
	require.NoError(t, json.Unmarshal(want, &a))
	require.NoError(t, json.Unmarshal(got, &b))
	for _, name := range []string{"l", "ln"} {
		require.InEpsilon(t, a[name], b[name], 1e-9)
		delete(a, name)
		delete(b, name)
	}
	require.Equal(t, a, b)
}

func TestParametersFromElsewhereAreNotFound(t *testing.T) {
	space := parse(t, `{
		"i": {"_type": "randint", "_value": [0, 3]}, "l": {"_type": "loguniform", "_value": [1, 10]},
		"n": {"_type": "choice", "_value": [{"_name": "A", "x": {"_type": "uniform", "_value": [0, 1]}}, {"_name": "B"}]}}`)
	for parameters, found := range map[string]bool{
		`{"i":2, "l":1.0, "n":{"_name":"B"}, "more":1}`:      true,
		`{"n":{"x":1, "_name":"A"}, "i":0, "l":10.00000001}`: true,
		`{"i":3, "l":1.0, "n":{"_name":"B"}}`:                false,
		`{"i":2.0, "l":1.0, "n":{"_name":"B"}}`:              false,
		`{"i":2, "l":11.0, "n":{"_name":"B"}}`:               false,
		`{"i":2, "l":0, "n":{"_name":"B"}}`:                  false,
		`{"i":2, "l":"x", "n":{"_name":"B"}}`:                false,
		`{"i":2, "l":1.0, "n":{"_name":"C"}}`:                false,
		`{"i":2, "l":1.0, "n":{"_name":"A"}}`:                false,
		`{"i":2, "l":1.0, "n":{"_name":"A", "x":1.5}}`:       false,
		`{"i":2, "l":1.0}`:                                   false,
		`3`:                                                  false,
	} {
		_, ok := space.Locate(json.RawMessage(parameters))
		require.Equal(t, found, ok, parameters)
	}
}

func TestACellHoldsTheCoordinatesThatEmitTheSame(t *testing.T) {
	space := parse(t, everyKind)
	for n := range 300 {
		point := space.Draw(NewStream(2, n))
		for i := range space.Dimensions {
			if d := &space.Dimensions[i]; d.Kind.quantised() {
				requireCell(t, d, point[i])
			}
		}
	}
}

func requireCell(t *testing.T, d *Dimension, coordinate float64) {
	low, high := d.Cell(coordinate)
	require.LessOrEqual(t, low, coordinate)
	require.GreaterOrEqual(t, high, coordinate)
	nearLow, nearHigh := max(low, coordinate-1e3)+1e-9, min(high, coordinate+20)-1e-9
	require.Equal(t, d.Value(coordinate), d.Value(nearLow), "%s %v", d.Name, coordinate)
	require.Equal(t, d.Value(coordinate), d.Value(nearHigh), "%s %v", d.Name, coordinate)
	if !math.IsInf(high, 1) && (d.Kind.normal() || high < d.High) {
		require.Greater(t, d.Value(high+1e-9), d.Value(coordinate), "%s %v", d.Name, coordinate)
	}
}

func TestLevelsListTheDimensionsOfABranch(t *testing.T) {
	space := parse(t, everyKind)
	require.Equal(t, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, space.TopLevel())
	require.Equal(t, []int{11, 12}, space.Inside(10, 0))
	require.Equal(t, []int{13}, space.Inside(10, 1))
	require.Empty(t, space.Inside(12, 1))
	require.Nil(t, space.Inside(0, 0))
}
