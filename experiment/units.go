package experiment

import (
	"errors"
	"math/big"
	"regexp"
	"strings"
)

var errNoUnit = errors.New("has no unit")

var quantity = regexp.MustCompile(`^([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE]([-+]?[0-9]{1,2}))?\s*([a-zA-Z]*)$`)

var secondsIn = map[string]int64{"s": 1, "m": 60, "h": 3600, "d": 86400}

// bytesIn counts as NNI does, in powers of 1024.
var bytesIn = map[string]int64{"b": 1, "kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30, "tb": 1 << 40}

// parseQuantity returns the number and the lower-case unit of "1.5h" or "10 GB".
func parseQuantity(text string) (number *big.Rat, unit string, ok bool) {
	parts := quantity.FindStringSubmatch(strings.TrimSpace(text))
	if parts == nil || len(text) > 40 {
		return nil, "", false
	}
	digits := parts[1]
	if parts[2] != "" {
		digits += "e" + parts[2]
	}
	number, ok = new(big.Rat).SetString(digits)
	return number, strings.ToLower(parts[3]), ok
}

// inUnits returns text in the smallest unit of a table, rounded up. What has no
// unit counts as bare of them; with bare 0 it is errNoUnit.
func inUnits(text string, units map[string]int64, bare int64) (int64, error) {
	number, unit, ok := parseQuantity(text)
	if !ok {
		return 0, errors.New("is not a number with a unit")
	}
	factor := units[unit]
	switch {
	case unit == "":
		factor = bare
	case factor == 0:
		return 0, errors.New("has a unit that is not known")
	}
	if factor == 0 {
		return 0, errNoUnit
	}
	return roundedUp(number.Mul(number, big.NewRat(factor, 1)))
}

func roundedUp(number *big.Rat) (int64, error) {
	up := new(big.Int).Add(number.Num(), number.Denom())
	up.Sub(up, big.NewInt(1)).Quo(up, number.Denom())
	if up.BitLen() > 53 {
		return 0, errors.New("is too large")
	}
	return up.Int64(), nil
}
