package arguments

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Mode reads optimize_mode.
func Mode(minimize *bool) Check {
	return func(value json.RawMessage) error {
		var mode string
		if json.Unmarshal(value, &mode) != nil || mode != "maximize" && mode != "minimize" {
			return errors.New(`want "maximize" or "minimize"`)
		}
		*minimize = mode == "minimize"
		return nil
	}
}

// Seed reads seed, an integer or null.
func Seed(seed *uint64) Check {
	return func(value json.RawMessage) error {
		if string(value) == "null" {
			return nil
		}
		given, err := strconv.ParseUint(string(value), 10, 64)
		if err != nil {
			return errors.New("want an integer from 0 to 18446744073709551615, or null")
		}
		*seed = given
		return nil
	}
}

// Count reads an integer from low on, which must fit 32 bits.
func Count(number *int, low int) Check {
	within := Integer(number, low, math.MaxInt32)
	return func(value json.RawMessage) error {
		if within(value) != nil {
			return fmt.Errorf("want an integer from %d", low)
		}
		return nil
	}
}

// Integer reads an integer of [low, high].
func Integer(number *int, low, high int) Check {
	return func(value json.RawMessage) error {
		given, err := strconv.ParseInt(string(value), 10, 64)
		if err != nil || given < int64(low) || given > int64(high) {
			return fmt.Errorf("want an integer from %d to %d", low, high)
		}
		*number = int(given)
		return nil
	}
}

// Number reads a number of [low, high].
func Number(number *float64, low, high float64) Check {
	return func(value json.RawMessage) error {
		given, err := strconv.ParseFloat(string(value), 64)
		if err != nil || !(given >= low && given <= high) {
			return fmt.Errorf("want a number from %v to %v", low, high)
		}
		*number = given
		return nil
	}
}

// Positive reads a finite number above 0.
func Positive(number *float64) Check {
	return func(value json.RawMessage) error {
		given, err := strconv.ParseFloat(string(value), 64)
		if err != nil || !(given > 0) || math.IsInf(given, 0) {
			return errors.New("want a number above 0")
		}
		*number = given
		return nil
	}
}

// Word reads one of some words.
func Word(word *string, words ...string) Check {
	return func(value json.RawMessage) error {
		var given string
		if json.Unmarshal(value, &given) != nil || !slices.Contains(words, given) {
			return fmt.Errorf(`want "%s"`, strings.Join(words, `" or "`))
		}
		*word = given
		return nil
	}
}

// Switch reads true or false.
func Switch(on *bool) Check {
	return func(value json.RawMessage) error {
		if json.Unmarshal(value, on) != nil || string(value) == "null" {
			return errors.New("want true or false")
		}
		return nil
	}
}

// Path reads the absolute path of a directory.
func Path(path *string) Check {
	return func(value json.RawMessage) error {
		var given string
		if json.Unmarshal(value, &given) != nil || !strings.HasPrefix(given, "/") {
			return errors.New("want the absolute path of a directory that every trial can reach")
		}
		*path = given
		return nil
	}
}

// OrNull takes null too, for "as if it were not given".
func OrNull(other Check) Check {
	return func(value json.RawMessage) error {
		if string(value) == "null" {
			return nil
		}
		return other(value)
	}
}

// Members reads an object, or null, by a check for each of its keys.
func Members(checks map[string]Check) Check {
	names := strings.Join(slices.Sorted(maps.Keys(checks)), ", ")
	return func(value json.RawMessage) error {
		var given map[string]json.RawMessage
		if json.Unmarshal(value, &given) != nil {
			return fmt.Errorf("want an object with any of %s", names)
		}
		var faults []error
		for _, name := range slices.Sorted(maps.Keys(given)) {
			if check, ok := checks[name]; !ok {
				faults = append(faults, fmt.Errorf("it has no %q: want any of %s", name, names))
			} else if err := check(given[name]); err != nil {
				faults = append(faults, fmt.Errorf("%s is %s: %w", name, given[name], err))
			}
		}
		return errors.Join(faults...)
	}
}
