package searchspace

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func parse(t testing.TB, raw string) *Space {
	t.Helper()
	space, err := Parse(json.RawMessage(raw))
	require.NoError(t, err)
	return space
}

func TestEveryFaultIsReportedWithItsPlaceAndWhatWouldBeRight(t *testing.T) {
	_, err := Parse(json.RawMessage(`{
		"a/b": {"_type": "unifrom", "_value": [0, 1]},
		"c": {"_type": "uniform", "_value": [1, 0]},
		"d": {"_type": "quniform", "_value": [0, 1]},
		"e": {"_type": "loguniform", "_value": [0, 1]},
		"f": {"_type": "normal", "_value": [0, -1]},
		"g": {"_type": "randint", "_value": [3, 3]},
		"h": {"_type": "choice", "_value": []},
		"i": {"_type": "layer_choice", "_value": ["x"]},
		"j": {"_value": [1]},
		"k": {"_type": "choice", "_value": [{"_name": "A", "x": {"_type": "qnormal", "_value": [0, 1, -1]}}]},
		"l": 5,
		"m": {"_type": "uniform", "_value": ["low", true]},
		"n": {"_type": "choice"},
		"c": {"_type": "uniform", "_value": [0, 1]}
	}`))
	var faults Faults
	require.True(t, errors.As(err, &faults))
	require.Equal(t, []string{
		`search space /c is there twice: want each key once`,
		`search space /a~1b/_type is "unifrom", which is no type: want uniform, or another of choice, randint, uniform, quniform, loguniform, qloguniform, normal, qnormal, lognormal, qlognormal`,
		`search space /c/_value has low 1 and high 0: want low < high`,
		`search space /d/_value has 2 elements: want 3 numbers, [low, high, q]`,
		`search space /e/_value/0 is 0: want low > 0, for it has a logarithm`,
		`search space /f/_value/1 is -1: want a deviation > 0`,
		`search space /g/_value has no integer in [3, 3): want low < high; high itself is never drawn`,
		`search space /h/_value is empty: want at least one element`,
		`search space /i/_type is "layer_choice", which is for neural architecture search: want a hyperparameter's type: architecture search is not supported (one of choice, randint, uniform, quniform, loguniform, qloguniform, normal, qnormal, lognormal, qlognormal)`,
		`search space /j has no "_type": want one of choice, randint, uniform, quniform, loguniform, qloguniform, normal, qnormal, lognormal, qlognormal`,
		`search space /k/_value/0/x/_value/2 is -1: want a step q > 0`,
		`search space /l is 5: want an object with "_type" and "_value"`,
		`search space /m/_value/0 is "low", not a finite number: want numbers, [low, high]`,
		`search space /m/_value/1 is true, not a finite number: want numbers, [low, high]`,
		`search space /n has no "_value": want a list such as [0, 1]`,
	}, strings.Split(err.Error(), "\n"))
}

func TestWhatIsNoObjectIsRefusedAsAWhole(t *testing.T) {
	for raw, want := range map[string]string{
		"":             "is missing",
		"{}":           "is empty",
		"null":         "is null",
		"[1]":          "is [1]",
		"{\n \"a\": x": "line 2, column 7",
		"{":            "is not JSON",
		`{"a": NaN}`:   "is not JSON",
	} {
		_, err := Parse(json.RawMessage(raw))
		require.ErrorContains(t, err, want, raw)
	}
}

func TestRangesTooWideForTheirNumbersAreFaults(t *testing.T) {
	for _, raw := range []string{
		`{"x": {"_type": "uniform", "_value": [-1e308, 1e308]}}`,
		`{"x": {"_type": "uniform", "_value": [0, 1e999]}}`,
		`{"x": {"_type": "randint", "_value": [0, 1e30]}}`,
		`{"x": {"_type": "randint", "_value": [-9223372036854775808, 9223372036854775807]}}`,
	} {
		_, err := Parse(json.RawMessage(raw))
		require.Error(t, err, raw)
	}
}

func TestNumbersThatYAMLReadsAsStringsAreNumbersInRanges(t *testing.T) {
	space := parse(t, `{"lr": {"_type": "loguniform", "_value": ["1e-4", "1e-1"]}, "n": {"_type": "randint", "_value": ["1", 3]}}`)
	require.InDelta(t, -9.21034, space.Dimensions[0].Low, 1e-5)
	require.Equal(t, 2, space.Dimensions[1].Size)
}

func TestABatchSpaceIsOneChoiceOfWholeParameterObjects(t *testing.T) {
	elements, err := Elements(json.RawMessage(`{"all": {"_type": "choice", "_value": [{"a": 1.0}, {"_name": "b", "k": 2}]}}`))
	require.NoError(t, err)
	require.Equal(t, []json.RawMessage{[]byte(`{"a": 1.0}`), []byte(`{"_name": "b", "k": 2}`)}, elements)

	_, err = Elements(json.RawMessage(`{"a": {"_type": "uniform", "_value": [0, 1]}, "b": {"_type": "choice", "_value": [{"k": 1, "k": 2}]}}`))
	require.EqualError(t, err, strings.Join([]string{
		`search space has 2 keys: want one key of type choice for the Batch tuner`,
		`search space /a/_type is "uniform": want choice for the Batch tuner`,
		`search space /b/_value/0/k is there twice: want each key once`,
	}, "\n"))
}

func TestABatchSpaceMayListPlainValuesAsNNIs(t *testing.T) {
	elements, err := Elements(json.RawMessage(`{"size": {"_type": "choice", "_value": [16, "a", 64.0, [1], {"b": 1}]}}`))
	require.NoError(t, err)
	require.Equal(t, "[16 \"a\" 64.0 [1] {\"b\": 1}]", fmt.Sprintf("%s", elements))
}

func TestARangeOfOneValueIsThatValueWithAWarning(t *testing.T) {
	for value, space := range map[string]string{
		`2.0`:           `{"_type": "uniform", "_value": [2, 2]}`,
		`0.1`:           `{"_type": "loguniform", "_value": [0.1, 1e-1]}`,
		`5.0`:           `{"_type": "quniform", "_value": [5, 5, 2]}`,
		`7.0`:           `{"_type": "qloguniform", "_value": [7, 7, 7]}`,
		`3.0`:           `{"_type": "normal", "_value": [3, 0]}`,
		`1.0`:           `{"_type": "lognormal", "_value": [0, 0]}`,
		`4.0`:           `{"_type": "qnormal", "_value": [3.5, 0, 2]}`,
		`10000000000.0`: `{"_type": "loguniform", "_value": [1e10, 10000000000.000002]}`,
	} {
		space := parse(t, `{"x": `+space+`}`)
		require.Len(t, space.Warnings, 1)
		require.Contains(t, space.Warnings[0].Message, "so it is always "+value)
		set := `{"x":` + value + `}`
		require.Equal(t, []string{set, "end"}, walk(space, 9))
		require.Equal(t, set, string(space.Parameters(space.Draw(NewStream(1, 1)))))
		_, found := space.Locate(json.RawMessage(set))
		require.True(t, found)
	}
}

func TestOnlyAContinuousRangeOfOneValueIsDrawnAgainAndAgainAsWithNNI(t *testing.T) {
	require.True(t, parse(t, `{"x": {"_type": "uniform", "_value": [2, 2]}}`).NeverRepeats())
	require.False(t, parse(t, `{"x": {"_type": "quniform", "_value": [2, 2, 1]}}`).NeverRepeats())
}

func TestTheNearestWordIsOneThatATypoCouldHaveMeant(t *testing.T) {
	words := []string{"Random", "GridSearch", "Batch"}
	require.Equal(t, "Random", Nearest("rnadom", words))
	require.Equal(t, "GridSearch", Nearest("gridserch", words))
	require.Empty(t, Nearest("Bayes", words))
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"n": {"_type": "choice", "_value": [{"_name": "A", "k": {"_type": "randint", "_value": [0.5, 3.2]}}]}}`))
	f.Add([]byte(`{"x": {"_type": "qloguniform", "_value": ["1e-4", 1, 0.1]}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		space, err := Parse(raw)
		if err != nil {
			return
		}
		for n := range 5 {
			require.True(t, json.Valid(space.Parameters(space.Draw(NewStream(1, n)))))
		}
	})
}
