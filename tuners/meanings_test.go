package tuners

import (
	"encoding/json"
	"testing"

	"github.com/davecgh/go-spew/spew"
	"github.com/stretchr/testify/require"
)

// state is all that a tuner holds, functions by where their code is.
func state(tuner Tuner) string {
	dump := spew.ConfigState{Indent: " ", DisablePointerAddresses: true, DisableCapacities: true, DisableMethods: true, SortKeys: true}
	return dump.Sdump(tuner)
}

func TestEveryArgumentHasAMeaningAndIsByDefaultWhatItSays(t *testing.T) {
	for _, name := range Names() {
		build := func(given string) Tuner {
			tuner, err := New(Spec{Name: name, Arguments: json.RawMessage(given), Space: json.RawMessage(`{"x": {"_type": "choice", "_value": [1, 2]}}`), Checkpoints: "/checkpoints"})
			require.NoError(t, err, "%s %s", name, given)
			return tuner
		}
		for _, argument := range Describe(name) {
			require.NotEmpty(t, argument.Text, "%s %s", name, argument.Name)
			if argument.Default == "" {
				continue
			}
			value := json.RawMessage(argument.Default)
			if !json.Valid(value) {
				value, _ = json.Marshal(argument.Default)
			}
			given, err := json.Marshal(map[string]json.RawMessage{argument.Name: value})
			require.NoError(t, err)
			require.Equal(t, state(build("{}")), state(build(string(given))), "%s %s", name, argument.Name)
		}
	}
}
