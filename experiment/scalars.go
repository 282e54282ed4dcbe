package experiment

import (
	"encoding/json"
	"fmt"
	"math/big"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// NNI reads YAML 1.1, in which yes and on are booleans, 010 is eight and 1:30 is
// ninety; today's YAML disagrees. The key decides what is meant: where it wants
// text, the text as written; where it wants a number or a boolean, NNI's reading;
// where anything goes (classArgs, searchSpace), NNI's reading too. What could be
// either is warned about.

// plain tells whether a scalar stands without quotes and tag, so that its type is
// by its looks.
func plain(n *yaml.Node) bool {
	const styled = yaml.TaggedStyle | yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle
	return n.Kind == yaml.ScalarNode && n.Style&styled == 0
}

// null tells whether a value stands for "unset".
func null(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

var (
	truths = map[string]bool{"true": true, "yes": true, "on": true, "false": false, "no": false, "off": false}
	// oneCase is how YAML 1.1 lets its words be written: yes, Yes, YES.
	oneCase = regexp.MustCompile(`^([a-z]+|[A-Z][a-z]+|[A-Z]+)$`)
)

// truth reads YAML 1.1's booleans.
func truth(n *yaml.Node) (value, ok bool) {
	if !plain(n) || !oneCase.MatchString(n.Value) {
		return false, false
	}
	value, ok = truths[strings.ToLower(n.Value)]
	return value, ok
}

var (
	decimal     = regexp.MustCompile(`^[-+]?(0|[1-9][0-9_]*)$`)
	octal       = regexp.MustCompile(`^[-+]?0[0-7_]+$`)
	radix       = regexp.MustCompile(`^[-+]?0[xbo][0-9a-fA-F_]+$`)
	sexagesimal = regexp.MustCompile(`^[-+]?[1-9][0-9_]*(:[0-5]?[0-9])+$`)
	float       = regexp.MustCompile(`^[-+]?([0-9][0-9_]*(\.[0-9_]*)?|\.[0-9][0-9_]*)([eE][-+]?[0-9]+)?$`)
)

// whole reads an integer as YAML 1.1 does. The note, where there is one, says how
// else it could be read.
func whole(n *yaml.Node) (value *big.Int, note string, ok bool) {
	if !plain(n) || len(n.Value) > 100 {
		return nil, "", false
	}
	text := strings.TrimPrefix(strings.ReplaceAll(n.Value, "_", ""), "+")
	switch {
	case decimal.MatchString(n.Value):
		value, ok = new(big.Int).SetString(text, 10)
	case octal.MatchString(n.Value):
		value, ok = new(big.Int).SetString(text, 8)
		note = "an integer with a leading 0 is octal to NNI"
	case radix.MatchString(n.Value):
		value, ok = new(big.Int).SetString(text, 0)
	case sexagesimal.MatchString(n.Value):
		value, ok = base60(text), true
		note = "digits with a colon are a number of base 60 to NNI"
	}
	return value, note, ok
}

func base60(text string) *big.Int {
	digits, negative := strings.CutPrefix(text, "-")
	sum := new(big.Int)
	for part := range strings.SplitSeq(digits, ":") {
		digit, _ := new(big.Int).SetString(part, 10)
		sum.Add(sum.Mul(sum, big.NewInt(60)), digit)
	}
	if negative {
		sum.Neg(sum)
	}
	return sum
}

// jsonNumber returns a number's text as JSON spells it: 5.0 stays 5.0.
func jsonNumber(n *yaml.Node) (text, note string, ok bool) {
	if !plain(n) {
		return "", "", false
	}
	if value, note, ok := whole(n); ok {
		return value.String(), note, true
	}
	if !float.MatchString(n.Value) || octal.MatchString(n.Value) {
		return "", "", false
	}
	text = strings.TrimPrefix(strings.ReplaceAll(n.Value, "_", ""), "+")
	digits, negative := strings.CutPrefix(text, "-")
	digits = pointed(trimZeros(digits))
	if negative {
		digits = "-" + digits
	}
	return digits, "", json.Valid([]byte(digits))
}

// trimZeros removes what JSON does not allow in front of a number.
func trimZeros(digits string) string {
	for len(digits) > 1 && digits[0] == '0' && digits[1] >= '0' && digits[1] <= '9' {
		digits = digits[1:]
	}
	return digits
}

var barePoint = regexp.MustCompile(`\.($|[eE])`)

// pointed gives a decimal point the digits that JSON wants on both sides.
func pointed(digits string) string {
	if strings.HasPrefix(digits, ".") {
		digits = "0" + digits
	}
	return barePoint.ReplaceAllString(digits, ".0$1")
}

// described says what a value is, for "must be …, not …".
func described(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case null(n):
		return "null"
	case plain(n):
		return describedPlain(n)
	}
	return "the text " + quoted(n.Value)
}

func describedPlain(n *yaml.Node) string {
	if _, ok := truth(n); ok {
		return "the boolean " + n.Value
	}
	if _, _, ok := jsonNumber(n); ok {
		return "the number " + cut(n.Value)
	}
	return "the text " + quoted(n.Value)
}

func asRead(n *yaml.Node, reading any) string {
	return fmt.Sprintf("%s is read as %v, as NNI reads it", cut(n.Value), reading)
}
