package metrics

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"
)

var (
	word    = regexp.MustCompile(`[-+]?[0-9A-Za-z.][-+0-9A-Za-z.]*`)
	decimal = regexp.MustCompile(`^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$`)
)

// spelled returns text as JSON where it is JSON but for its numbers, which each
// language prints in its own way: .5, 1., +2, 007, nan, -inf, Inf. All else is
// returned as it is.
func spelled(text []byte) []byte {
	if valid(text) {
		return text
	}
	var respelled []byte
	for rest := text; len(rest) > 0; {
		size := outside(rest)
		if rest[0] == '"' {
			size = quoted(rest)
		}
		piece := rest[:size]
		if piece[0] != '"' {
			piece = word.ReplaceAllFunc(piece, func(word []byte) []byte { return []byte(number(string(word))) })
		}
		respelled, rest = append(respelled, piece...), rest[size:]
	}
	if valid(respelled) {
		return respelled
	}
	return text
}

// outside is how long text is before its first string.
func outside(text []byte) int {
	if at := bytes.IndexByte(text, '"'); at >= 0 {
		return at
	}
	return len(text)
}

// number is a word that stands for a number, as Python's json would write it.
func number(word string) string {
	if decimal.MatchString(word) {
		if value, err := strconv.ParseFloat(word, 64); err == nil {
			return strconv.FormatFloat(value, 'g', -1, 64)
		}
	}
	sign := ""
	if strings.HasPrefix(word, "-") {
		sign = "-"
	}
	switch strings.ToLower(strings.TrimLeft(word, "+-")) {
	case "nan":
		return "NaN"
	case "inf", "infinity":
		return sign + "Infinity"
	}
	return word
}
