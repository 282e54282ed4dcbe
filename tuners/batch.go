package tuners

import (
	"encoding/json"

	"github.com/perennial-ml/perennial/arguments"
	"github.com/perennial-ml/perennial/searchspace"
	"github.com/perennial-ml/perennial/trial"
)

// Batch hands out the elements of one choice, each a whole parameter object, in
// order, and is exhausted then. An element that is listed twice is handed out
// twice. Of a new list, what was handed out already is left out.
type Batch struct {
	elements []element
	passed   int // elements at the front that were handed out
	emitted  emitted
}

// element is one parameter object of the list.
type element struct {
	parameters trial.Parameters
	key        set
	repetition int // how many equal elements are before it
}

// NewBatch builds Batch, which takes no arguments.
func NewBatch(spec Spec) (Tuner, error) {
	if err := arguments.Read("tuner Batch", spec.Arguments, nil); err != nil {
		return nil, err
	}
	elements, err := readElements(spec.Space)
	if err != nil {
		return nil, err
	}
	return &Batch{elements: elements, emitted: emitted{}}, nil
}

func readElements(space json.RawMessage) ([]element, error) {
	list, err := searchspace.Elements(space)
	if err != nil {
		return nil, err
	}
	seen := emitted{}
	elements := make([]element, len(list))
	for i, parameters := range list {
		key, err := setOf(parameters)
		if err != nil {
			return nil, err
		}
		elements[i] = element{parameters: parameters, key: key, repetition: seen[key]}
		seen[key]++
	}
	return elements, nil
}

// Propose answers with the first element not handed out.
func (b *Batch) Propose(int) (Proposal, error) {
	for _, e := range b.elements[b.passed:] {
		if b.emitted[e.key] <= e.repetition {
			return Proposal{Parameters: e.parameters}, nil
		}
		b.passed++
	}
	return Proposal{Answer: Exhausted}, nil
}

// Apply takes note of asks and of a new list. After an error it is as it was
// before.
func (b *Batch) Apply(event trial.Event) error {
	if event.Kind == trial.KindAsked {
		return b.emitted.apply(event)
	}
	raw, err := newSpace(event)
	if raw == nil || err != nil {
		return err
	}
	elements, err := readElements(raw)
	if err == nil {
		b.elements, b.passed = elements, 0
	}
	return err
}
