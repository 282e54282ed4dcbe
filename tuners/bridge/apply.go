package bridge

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/perennial-ml/perennial/trial"
)

// listener is an algorithm's process, however it is spoken to: what it is told.
type listener interface {
	ask(trial.Event, trial.Asked) error
	report(trial.Event, trial.Intermediate) error
	end(trial.Event, trial.Ended) error
	obey(trial.Event, trial.Command) error
}

// tell tells a listener what the log says.
func tell(l listener, event trial.Event) error {
	switch event.Kind {
	case trial.KindAsked:
		return decoded(event, l.ask)
	case trial.KindIntermediate:
		return decoded(event, l.report)
	case trial.KindEnded:
		return decoded(event, l.end)
	case trial.KindCommand:
		return decoded(event, l.obey)
	}
	return nil
}

// Apply implements tuners.Tuner: what the log says, in NNI's commands.
func (d *dispatcher) Apply(event trial.Event) error {
	if err := tell(d, event); err != nil {
		return d.spec.about(err)
	}
	return nil
}

// decoded hands the data of an event to what treats it.
func decoded[Data any](event trial.Event, treat func(trial.Event, Data) error) error {
	var data Data
	if err := json.Unmarshal(event.Data, &data); err != nil {
		return fmt.Errorf("read %s event: %w", event.Kind, err)
	}
	return treat(event, data)
}

func (d *dispatcher) obey(_ trial.Event, command trial.Command) error {
	if command.Name != trial.SetSearchSpace {
		return nil
	}
	d.asked = false
	return d.tell(codeSpace, string(command.Value))
}

// ask takes note of a trial. One that the process proposed is its own; any other
// gets no parameter_id, as NNI's manager does with customised trials, and its
// result comes as imported data.
func (d *dispatcher) ask(event trial.Event, asked trial.Asked) error {
	made := &open{id: json.RawMessage("null"), asked: asked}
	if asked.Source != trial.SourceCustomized && d.spec.Tuner != nil {
		taken, err := d.take(asked.Parameters)
		if err != nil {
			return err
		}
		if taken != nil {
			made.id, made.content = taken.id, taken.content
		}
	}
	if made.content == "" {
		content, err := json.Marshal(map[string]any{
			"parameter_id": nil, "parameter_source": trial.SourceCustomized, "parameters": asked.Parameters, "parameter_index": 0,
		})
		if err != nil {
			return fmt.Errorf("read %s event: %w", event.Kind, err)
		}
		made.content = string(content)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open[event.Sequence] = made
	d.ids[trial.ID(d.spec.Experiment, event.Sequence)] = event.Sequence
	return nil
}

// take finds the proposal that an ask was made from. A process that is rebuilt is
// asked for it again; from the first that it makes differently it is left alone.
func (d *dispatcher) take(parameters trial.Parameters) (*proposed, error) {
	wanted, err := canonical(parameters)
	if err != nil {
		return nil, err
	}
	if taken := d.takePending(wanted); taken != nil || d.diverged {
		return taken, nil
	}
	if err := d.tell(codeRequest, "1"); err != nil {
		return nil, err
	}
	taken := d.takePending(wanted)
	d.diverged = taken == nil
	return taken, nil
}

func (d *dispatcher) takePending(wanted []byte) *proposed {
	d.mu.Lock()
	defer d.mu.Unlock()
	i := slices.IndexFunc(d.pending, func(p proposed) bool {
		made, err := canonical(p.parameters)
		return err == nil && bytes.Equal(made, wanted)
	})
	if i < 0 {
		return nil
	}
	taken := d.pending[i]
	d.pending = slices.Delete(d.pending, i, i+1)
	d.asked = false
	return &taken
}

// canonical is a JSON value without blanks, its keys in order, its numbers as written.
func canonical(raw json.RawMessage) ([]byte, error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, fmt.Errorf("parameters %.40s are not JSON: %w", raw, err)
	}
	return json.Marshal(value)
}

// metric is what NNI's trials report, and its manager hands on.
type metric struct {
	ParameterID json.RawMessage `json:"parameter_id"`
	TrialID     string          `json:"trial_job_id"`
	Type        string          `json:"type"`
	Sequence    int             `json:"sequence"`
	Value       string          `json:"value"` // JSON
}

// report hands on an intermediate result. Those that are no finite numbers are left
// out, and the others numbered without a gap: an assessor waits for what is missing.
func (d *dispatcher) report(event trial.Event, result trial.Intermediate) error {
	o := d.open[event.Sequence]
	value := valueOf(result.Value, result.Metric)
	if o == nil || value == "" {
		return nil
	}
	d.mu.Lock()
	sequence := o.reported
	o.reported, o.attempt, o.event = o.reported+1, event.Attempt, event.Number
	d.mu.Unlock()
	if !d.Judges() {
		return nil
	}
	return d.measure(event.Sequence, metric{o.id, "", "PERIODICAL", sequence, value})
}

func (d *dispatcher) measure(sequence int, m metric) error {
	m.TrialID = trial.ID(d.spec.Experiment, sequence)
	content, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return d.tell(codeMetric, string(content))
}

// valueOf is a result as the trial reported it, "" where algorithms are not fed it.
func valueOf(number *float64, reported json.RawMessage) string {
	switch {
	case number == nil:
		return ""
	case len(reported) > 0:
		return string(reported)
	}
	return strconv.FormatFloat(*number, 'g', -1, 64)
}

// end hands on a trial's final result, and then that it ended.
func (d *dispatcher) end(event trial.Event, ended trial.Ended) error {
	o := d.open[event.Sequence]
	if o == nil {
		return nil
	}
	if value := valueOf(ended.Value, ended.Metric); value != "" {
		if err := d.final(event.Sequence, o, value); err != nil {
			return err
		}
	}
	if string(o.id) != "null" || d.Judges() {
		if err := d.close(event.Sequence, o, ended.State); err != nil {
			return err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked = false
	delete(d.open, event.Sequence)
	delete(d.ids, trial.ID(d.spec.Experiment, event.Sequence))
	return nil
}

func (d *dispatcher) final(sequence int, o *open, value string) error {
	if string(o.id) != "null" || o.asked.Source == trial.SourceCustomized {
		return d.measure(sequence, metric{o.id, "", "FINAL", o.reported, value})
	}
	if d.spec.Tuner == nil {
		return nil
	}
	content, err := json.Marshal([]map[string]any{{
		"parameter": o.asked.Parameters, "value": value, "trialJobId": trial.ID(d.spec.Experiment, sequence),
	}})
	if err != nil {
		return err
	}
	return d.tell(codeImport, string(content))
}

func (d *dispatcher) close(sequence int, o *open, state trial.State) error {
	content, err := json.Marshal(map[string]any{
		"trial_job_id": trial.ID(d.spec.Experiment, sequence), "event": state, "hyper_params": o.content,
	})
	if err != nil {
		return err
	}
	return d.tell(codeEnd, string(content))
}
