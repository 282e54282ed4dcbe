package tuners

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/perennial-ml/perennial/searchspace"
	"github.com/perennial-ml/perennial/trial"
)

// Keys that some tuners give beside the parameters of the search space.
const (
	budgetKey = "TRIAL_BUDGET"        // how long a trial shall train, in the user's own unit
	loadKey   = "load_checkpoint_dir" // where a trial finds its checkpoint, if there is one
	saveKey   = "save_checkpoint_dir" // where a trial leaves its checkpoint
)

// extra is one key that a tuner adds to a trial's parameters.
type extra struct {
	key   string
	value any
}

// with is parameters with keys added at their end. The rest stays byte for byte.
func with(parameters trial.Parameters, extras ...extra) trial.Parameters {
	whole := bytes.TrimSpace(parameters)
	out := bytes.NewBuffer(slices.Clone(whole[:len(whole)-1]))
	for _, e := range extras {
		value, _ := json.Marshal(e.value) // a number or a string
		fmt.Fprintf(out, `,%q:%s`, e.key, value)
	}
	out.WriteByte('}')
	return out.Bytes()
}

// without is parameters less some keys, as the search space has them.
func without(parameters trial.Parameters, keys ...string) (trial.Parameters, error) {
	decoder := json.NewDecoder(bytes.NewReader(parameters))
	if open, err := decoder.Token(); err != nil || open != json.Delim('{') {
		return nil, fmt.Errorf("parameters %.40s are no JSON object", parameters)
	}
	out := []byte{'{'}
	for decoder.More() {
		var value json.RawMessage
		key, err := decoder.Token()
		if err := errors.Join(err, decoder.Decode(&value)); err != nil {
			return nil, fmt.Errorf("parameters %.40s are no JSON object: %w", parameters, err)
		}
		if text, ok := key.(string); ok && !slices.Contains(keys, text) {
			out = fmt.Appendf(out, `%s:%s,`, identifier(text), value)
		}
	}
	return append(bytes.TrimSuffix(out, []byte{','}), '}'), nil
}

// refuse finds parameters of a space that have the name of a key that the tuner
// adds itself.
func refuse(tuner string, space json.RawMessage, keys ...string) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(space, &members); err != nil {
		return err
	}
	var faults searchspace.Faults
	for _, key := range keys {
		if _, ok := members[key]; ok {
			faults = append(faults, searchspace.Fault{Path: "/" + key, Message: "is the name of a key that " + tuner + " adds itself", Want: "another name"})
		}
	}
	if faults == nil {
		return nil
	}
	return faults
}
