package record

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/perennial-ml/perennial/trial"
)

func nanoseconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// instant scans a time.
type instant struct{ *time.Time }

func (i instant) Scan(source any) error {
	n, isInteger := source.(int64)
	if !isInteger {
		return fmt.Errorf("a time is an integer, not %T", source)
	}
	*i.Time = time.Time{}
	if n != 0 {
		*i.Time = time.Unix(0, n).UTC()
	}
	return nil
}

// encoded scans JSON; NULL leaves its place alone.
type encoded struct{ place any }

func (e encoded) Scan(source any) error {
	switch text := source.(type) {
	case nil:
		return nil
	case string:
		return json.Unmarshal([]byte(text), e.place)
	}
	return fmt.Errorf("JSON is text, not %T", source)
}

// encode returns the value as JSON, or NULL for nil.
func encode[T any](value *T) (any, error) {
	if value == nil {
		return nil, nil
	}
	text, err := json.Marshal(value)
	return string(text), err
}

// textOrNull keeps raw bytes; nil is NULL.
func textOrNull(raw []byte) any {
	if raw == nil {
		return nil
	}
	return string(raw)
}

// raw scans text into bytes as they were.
func raw(place *json.RawMessage) *[]byte { return (*[]byte)(place) }

// found turns a missing row into ErrNotFound that names what was sought.
func found(err error, format string, args ...any) error {
	if errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), ErrNotFound)
	}
	return classify(err)
}

func describe(key trial.Key) string {
	return fmt.Sprintf("attempt %d of trial %d of experiment %s", key.Attempt, key.Sequence, key.Experiment)
}
