package tuners

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"

	"github.com/perennial-ml/perennial/trial"
)

// set stands for a parameter set whatever the order of its keys and the blanks in
// it; numbers that are spelled differently differ, as they do in NNI.
type set [16]byte

func setOf(parameters trial.Parameters) (set, error) {
	decoder := json.NewDecoder(bytes.NewReader(parameters))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return set{}, fmt.Errorf("parameters %.40s are not JSON: %w", parameters, err)
	}
	sorted, err := json.Marshal(value)
	if err != nil {
		return set{}, err
	}
	sum := sha256.Sum256(sorted)
	return set(sum[:len(set{})]), nil
}

// emitted counts how often each parameter set was asked by the algorithm. It takes
// some forty bytes a trial.
type emitted map[set]int

// apply counts an ask of the log, unless a person chose its parameters.
func (e emitted) apply(event trial.Event) error {
	var asked trial.Asked
	if err := json.Unmarshal(event.Data, &asked); err != nil {
		return fmt.Errorf("read %s event: %w", event.Kind, err)
	}
	if asked.Source == trial.SourceCustomized {
		return nil
	}
	key, err := setOf(asked.Parameters)
	if err != nil {
		return fmt.Errorf("read %s event: %w", event.Kind, err)
	}
	e[key]++
	return nil
}

// newSpace returns the search space that an event sets, or nil for other events.
func newSpace(event trial.Event) (json.RawMessage, error) {
	if event.Kind != trial.KindCommand {
		return nil, nil
	}
	var command trial.Command
	if err := json.Unmarshal(event.Data, &command); err != nil {
		return nil, fmt.Errorf("read %s event: %w", event.Kind, err)
	}
	if command.Name != trial.SetSearchSpace {
		return nil, nil
	}
	return command.Value, nil
}
