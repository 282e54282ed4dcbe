package searchspace

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParametersThatDoNotLieInTheSpaceAreNamedEachWithWhatWouldBeRight(t *testing.T) {
	space, err := Parse(json.RawMessage(`{
		"lr": {"_type": "loguniform", "_value": [0.001, 0.1]}, "n": {"_type": "randint", "_value": [1, 5]},
		"opt": {"_type": "choice", "_value": ["sgd", "adam"]}, "w": {"_type": "normal", "_value": [0, 1]},
		"q": {"_type": "quniform", "_value": [0, 1, 0.5]}, "fixed": {"_type": "uniform", "_value": [2, 2]},
		"net": {"_type": "choice", "_value": [{"_name": "A", "depth": {"_type": "choice", "_value": [1, 2]}}, {"_name": "B"}]}}`))
	require.NoError(t, err)
	stray := func(parameters string) string {
		var lines []string
		for _, fault := range space.Strays(json.RawMessage(parameters)) {
			lines = append(lines, fmt.Sprintf("%q %s; want %s", fault.Path, fault.Message, fault.Want))
		}
		return strings.Join(lines, "\n")
	}
	require.Empty(t, stray(`{"lr": 0.01, "n": 4, "opt": "adam", "w": -7, "q": 0.5, "fixed": 2.0, "net": {"_name": "A", "depth": 2}}`))
	require.Empty(t, stray(`{"lr": 0.1, "n": 1, "opt": "sgd", "w": 0, "q": 0, "fixed": 2.0, "net": {"_name": "B"}}`))
	for parameters, want := range map[string]string{
		`{"lr": 1, "n": 5, "opt": "sdg", "w": "x", "q": 2, "fixed": 2.0, "net": {"_name": "C"}}`: `"/lr" is 1; want a number from 0.001 to 0.1
"/n" is 5; want a whole number from 1 to 4
"/opt" is "sdg"; want one of "sgd", "adam"
"/w" is "x"; want a number
"/q" is 2; want a number from 0 to 1
"/net" is {"_name": "C"}; want an object whose "_name" is one of "A", "B"`,
		`{"lr": 0.01, "n": 1, "opt": "sgd", "w": 0, "q": 0, "net": {"_name": "A", "dept": 1}, "op": 1, "fixed": 2.0}`: `"/net/depth" is missing; want one of 1, 2
"/net/dept" is no parameter of the search space; want depth
"/op" is no parameter of the search space; want opt`,
		`[]`: `"" is no object of parameters; want an object with lr, n, opt, w, q, fixed, net`,
	} {
		require.Equal(t, want, stray(parameters))
	}
}
