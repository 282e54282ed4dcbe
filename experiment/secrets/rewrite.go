package secrets

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/perennial-ml/perennial/experiment"
)

// scalar is a value of a JSON document, where it stands, and whether it stands
// below a secret key.
type scalar struct {
	place  string
	value  json.RawMessage
	secret bool
}

func (s scalar) reference() (experiment.Reference, bool) {
	var text string
	if json.Unmarshal(s.value, &text) != nil {
		return experiment.Reference{}, false
	}
	return experiment.ParseReference(text)
}

// inline tells whether the value is a text or a number, and no reference.
func (s scalar) inline() bool {
	switch first := s.value[0]; {
	case first == '"':
		_, reference := s.reference()
		return !reference && string(s.value) != `""`
	default:
		return first == '-' || '0' <= first && first <= '9'
	}
}

// rewrite changes the scalars of a JSON document. Everything else stays as it is:
// the order of keys, and numbers digit by digit.
func rewrite(at scalar, change func(scalar) (json.RawMessage, error)) (json.RawMessage, error) {
	at.value = bytes.TrimSpace(at.value)
	if len(at.value) == 0 {
		return nil, nil
	}
	switch at.value[0] {
	case '{':
		return rewriteObject(at, change)
	case '[':
		return rewriteList(at, change)
	}
	return change(at)
}

func rewriteObject(at scalar, change func(scalar) (json.RawMessage, error)) (json.RawMessage, error) {
	decoder := json.NewDecoder(bytes.NewReader(at.value))
	if _, err := decoder.Token(); err != nil {
		return nil, err
	}
	var members [][]byte
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return nil, err
		}
		key := token.(string) // the decoder accepts nothing else here
		inner := scalar{place: at.place + "/" + key, secret: at.secret || experiment.SecretKey(key)}
		if err := decoder.Decode(&inner.value); err != nil {
			return nil, err
		}
		value, err := rewrite(inner, change)
		if err != nil {
			return nil, err
		}
		name, err := json.Marshal(key)
		if err != nil {
			return nil, err
		}
		members = append(members, append(append(name, ':'), value...))
	}
	return join('{', members, '}'), nil
}

func rewriteList(at scalar, change func(scalar) (json.RawMessage, error)) (json.RawMessage, error) {
	var items []json.RawMessage
	if err := json.Unmarshal(at.value, &items); err != nil {
		return nil, err
	}
	var rewritten [][]byte
	for i, item := range items {
		value, err := rewrite(scalar{at.place + "/" + strconv.Itoa(i), item, at.secret}, change)
		if err != nil {
			return nil, err
		}
		rewritten = append(rewritten, value)
	}
	return join('[', rewritten, ']'), nil
}

func join(opening byte, parts [][]byte, closing byte) json.RawMessage {
	whole := append([]byte{opening}, bytes.Join(parts, []byte{','})...)
	return append(whole, closing)
}
