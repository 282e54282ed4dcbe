package searchspace

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
)

// FormatFloat spells a finite number as Python's repr does, which is what NNI
// trials see: the shortest digits that round-trip, ".0" where they are integral,
// an exponent below 1e-4 and from 1e16 (5.0, 0.30000000000000004, 1e-05, 1e+16).
func FormatFloat(x float64) string {
	size := math.Abs(x)
	if size != 0 && (size < 1e-4 || size >= 1e16) {
		return strconv.FormatFloat(x, 'e', -1, 64)
	}
	text := strconv.FormatFloat(x, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}

// number reads a finite number. Like NNI it takes one written as a string too:
// YAML 1.1 reads 1e-4 as such.
func number(raw json.RawMessage) (float64, bool) {
	text := string(raw)
	if strings.HasPrefix(text, `"`) {
		if json.Unmarshal(raw, &text) != nil {
			return 0, false
		}
	}
	// ParseFloat also takes "inf" and hexadecimals, which are no JSON numbers.
	if strings.Trim(text, "0123456789+-.eE") != "" {
		return 0, false
	}
	x, err := strconv.ParseFloat(text, 64)
	return x, err == nil
}

// roundedUp reads a bound of randint, exactly where it is written as an integer.
func roundedUp(raw json.RawMessage) (int64, bool) {
	if n, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
		return n, true
	}
	x, ok := number(raw)
	x = math.Ceil(x)
	return int64(x), ok && math.Abs(x) < 1<<63
}
