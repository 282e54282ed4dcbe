package views

import (
	"bytes"
	"encoding/json"
)

// Field is one value of an object.
type Field struct {
	Name  string
	Value json.RawMessage
}

// Flatten lists an object's values in the order of the text, nested objects taken apart as
// "outer/inner". What is no object is one field without a name.
func Flatten(text json.RawMessage) []Field {
	inside, ok := Members(text)
	if !ok {
		return []Field{{"", text}}
	}
	var all []Field
	for _, m := range inside {
		for _, f := range Flatten(m.Value) {
			if f.Name != "" {
				f.Name = "/" + f.Name
			}
			all = append(all, Field{m.Name + f.Name, f.Value})
		}
	}
	return all
}

// Members reads an object in the order of its text, as far as it can be read; false
// where it is none.
func Members(text json.RawMessage) (all []Field, ok bool) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	if start, err := decoder.Token(); err != nil || start != json.Delim('{') {
		return nil, false
	}
	for decoder.More() {
		name, err := decoder.Token()
		var value json.RawMessage
		if err != nil || decoder.Decode(&value) != nil {
			break
		}
		all = append(all, Field{name.(string), value})
	}
	return all, true
}
