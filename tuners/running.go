package tuners

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/perennial-ml/perennial/trial"
)

// running is the trials of the algorithm that were asked and have not ended, each
// as a vector of the cube. Trials of the user's own are not among them, nor those
// whose parameters do not lie in the space.
type running struct {
	trials map[int]runningTrial
}

type runningTrial struct {
	vector []float64
	last   *float64 // its latest intermediate that is a number
}

// outcome is how a trial ended.
type outcome struct {
	trial  int
	vector []float64
	value  *float64 // nil where the trial gave none
}

// read decodes what an event says happened.
func read[T any](event trial.Event) (T, error) {
	var data T
	if err := json.Unmarshal(event.Data, &data); err != nil {
		return data, fmt.Errorf("read %s event: %w", event.Kind, err)
	}
	return data, nil
}

// asked takes note of an ask of the algorithm and tells whether it lies in the space.
func (r *running) asked(c *cube, number int, parameters trial.Parameters) bool {
	point, ok := c.space.Locate(parameters)
	if ok {
		r.trials[number] = runningTrial{vector: c.vector(point)}
	}
	return ok
}

// reported takes note of an intermediate.
func (r *running) reported(event trial.Event) error {
	intermediate, err := read[trial.Intermediate](event)
	t, ok := r.trials[event.Sequence]
	if err == nil && ok && intermediate.Value != nil {
		t.last = intermediate.Value
		r.trials[event.Sequence] = t
	}
	return err
}

// ended takes a trial out; false if it was not there. The result of a trial that an
// assessor stopped is its latest intermediate, where it was given no other.
func (r *running) ended(event trial.Event) (outcome, bool, error) {
	end, err := read[trial.Ended](event)
	t, ok := r.trials[event.Sequence]
	if err != nil || !ok {
		return outcome{}, false, err
	}
	delete(r.trials, event.Sequence)
	if end.Value == nil && end.State == trial.EarlyStopped {
		end.Value = t.last
	}
	return outcome{trial: event.Sequence, vector: t.vector, value: end.Value}, true, nil
}

// vectors returns where the running trials are, the oldest first.
func (r *running) vectors() [][]float64 {
	var vectors [][]float64
	for _, number := range slices.Sorted(maps.Keys(r.trials)) {
		vectors = append(vectors, r.trials[number].vector)
	}
	return vectors
}

// move takes the trials to another cube and forgets those that do not fit.
func (r *running) move(from, to *cube) {
	for number, t := range r.trials {
		vector, ok := to.moved(from, t.vector)
		if !ok {
			delete(r.trials, number)
			continue
		}
		t.vector = vector
		r.trials[number] = t
	}
}
