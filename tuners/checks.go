package tuners

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// optimizeModeInto reads optimize_mode.
func optimizeModeInto(minimize *bool) check {
	return func(value json.RawMessage) error {
		if err := optimizeMode(value); err != nil {
			return err
		}
		*minimize = string(value) == `"minimize"`
		return nil
	}
}

// integerInto reads an integer of [low, high].
func integerInto(number *int, low, high int) check {
	return func(value json.RawMessage) error {
		given, err := strconv.ParseInt(string(value), 10, 64)
		if err != nil || given < int64(low) || given > int64(high) {
			return fmt.Errorf("want an integer from %d to %d", low, high)
		}
		*number = int(given)
		return nil
	}
}

// numberInto reads a number of [low, high].
func numberInto(number *float64, low, high float64) check {
	return func(value json.RawMessage) error {
		given, err := strconv.ParseFloat(string(value), 64)
		if err != nil || !(given >= low && given <= high) {
			return fmt.Errorf("want a number from %v to %v", low, high)
		}
		*number = given
		return nil
	}
}

// wordInto reads one of some words.
func wordInto(word *string, words ...string) check {
	return func(value json.RawMessage) error {
		var given string
		if json.Unmarshal(value, &given) == nil {
			for _, possible := range words {
				if given == possible {
					*word = given
					return nil
				}
			}
		}
		return fmt.Errorf(`want "%s"`, strings.Join(words, `" or "`))
	}
}

// switchInto reads true or false.
func switchInto(on *bool) check {
	return func(value json.RawMessage) error {
		if json.Unmarshal(value, on) != nil || string(value) == "null" {
			return errors.New("want true or false")
		}
		return nil
	}
}

// pathInto reads the absolute path of a directory.
func pathInto(path *string) check {
	return func(value json.RawMessage) error {
		var given string
		if json.Unmarshal(value, &given) != nil || !strings.HasPrefix(given, "/") {
			return errors.New("want the absolute path of a directory that every trial can reach")
		}
		*path = given
		return nil
	}
}
