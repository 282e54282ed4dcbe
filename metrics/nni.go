package metrics

import (
	"bytes"
	"encoding/json"
	"errors"
)

// requestParameter is what NNI's SDK sends when it finds no parameter.cfg. It
// asks for something and reports nothing.
const requestParameter = "REQUEST_PARAMETER"

var errNoMetric = errors.New("no metric of NNI's SDK")

// message is the JSON of NNI's SDK, the same on every channel.
type message struct {
	Type     string          `json:"type"`
	Sequence int64           `json:"sequence"`
	Value    json.RawMessage `json:"value"`
}

// nniRecord decodes one message. It returns nil where the message is fine and
// carries no metric.
func nniRecord(payload []byte) (*Record, error) {
	var m message
	if err := json.Unmarshal(payload, &m); err != nil {
		return nil, err
	}
	switch Kind(m.Type) {
	case Periodical, Final:
		return m.record()
	case requestParameter:
		return nil, nil
	}
	return nil, errNoMetric
}

func (m message) record() (*Record, error) {
	value, err := m.value()
	if err != nil || !valid(value) {
		return nil, errNoMetric
	}
	return &Record{Kind: Kind(m.Type), Step: m.Sequence, Value: text(bytes.TrimSpace(value))}, nil
}

// value undoes the second encoding: the SDK sends its JSON as a JSON string.
// A value that is no string is taken as it is.
func (m message) value() ([]byte, error) {
	if len(m.Value) == 0 || m.Value[0] != '"' {
		return m.Value, nil
	}
	var inner string
	err := json.Unmarshal(m.Value, &inner)
	return []byte(inner), err
}
