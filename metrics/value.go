package metrics

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"
)

// Default returns the number a tuner is fed: the value itself, or the "default"
// of an object. It is false where there is none, and for NaN and infinities.
func (r Record) Default() (float64, bool) {
	strict := withoutNonFinite([]byte(r.Value))
	if number, ok := finite(strict); ok {
		return number, true
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(strict, &object) != nil {
		return 0, false
	}
	return finite(object["default"])
}

// Object returns the value where it is an object, with null in place of NaN and
// infinities; nil where it is anything else.
func (r Record) Object() json.RawMessage {
	strict := withoutNonFinite([]byte(r.Value))
	if text := bytes.TrimSpace(strict); len(text) == 0 || text[0] != '{' || !json.Valid(text) {
		return nil
	}
	return strict
}

func finite(text []byte) (float64, bool) {
	var number *float64
	if json.Unmarshal(text, &number) != nil || number == nil {
		return 0, false
	}
	return *number, !math.IsInf(*number, 0)
}

// valid tells whether text is one JSON value, bare NaN and infinities allowed.
func valid(text []byte) bool { return json.Valid(withoutNonFinite(text)) }

var nonFinite = []string{"-Infinity", "Infinity", "NaN"}

// withoutNonFinite replaces what Python's json writes for NaN and infinities by
// null. A word that only contains one of them stays no JSON: 1NaN becomes 1null.
func withoutNonFinite(text []byte) []byte {
	if !bytes.Contains(text, []byte("NaN")) && !bytes.Contains(text, []byte("Infinity")) {
		return text
	}
	strict := make([]byte, 0, len(text))
	for len(text) > 0 {
		size, replaced := token(text)
		if replaced {
			strict = append(strict, "null"...)
		} else {
			strict = append(strict, text[:size]...)
		}
		text = text[size:]
	}
	return strict
}

// token measures what text begins with: a string, a word for a number that is
// not finite, or one byte of anything else.
func token(text []byte) (size int, notFinite bool) {
	if text[0] == '"' {
		return quoted(text), false
	}
	for _, word := range nonFinite {
		if bytes.HasPrefix(text, []byte(word)) {
			return len(word), true
		}
	}
	return 1, false
}

// quoted returns the length of the JSON string that text begins with; all of
// text where the string has no end.
func quoted(text []byte) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(text)
}

// unreadableBytes is what is kept of a piece of text that is too long to be told.
const unreadableBytes = 100

// unreadable is the record of a piece of text that was marked as a metric and
// is none.
func unreadable(piece []byte) Record {
	size, more := len(piece), ""
	if size > unreadableBytes {
		piece = piece[:unreadableBytes]
		more = fmt.Sprintf("… (%d bytes)", size)
	}
	if size > MaxBytes {
		more = fmt.Sprintf("… (at least %d bytes, and %d is the most that a metric may have)", size, MaxBytes)
	}
	return Record{Kind: Unreadable, Value: text(piece) + more}
}

// text makes a value that the journal's JSON carries unchanged.
func text(value []byte) string { return strings.ToValidUTF8(string(value), "\uFFFD") }
