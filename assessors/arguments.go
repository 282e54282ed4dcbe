package assessors

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

// check reads one argument and says what would be right if it is not.
type check func(value json.RawMessage) error

// checkArguments applies to each argument of an assessor its check and reports all
// that are wrong or unknown. Arguments may be nil or null.
func checkArguments(assessor string, arguments json.RawMessage, checks map[string]check) error {
	given := map[string]json.RawMessage{}
	if len(arguments) > 0 && json.Unmarshal(arguments, &given) != nil {
		return fmt.Errorf("classArgs of assessor %s is %s: want an object", assessor, arguments)
	}
	var faults []error
	for _, name := range slices.Sorted(maps.Keys(given)) {
		check, ok := checks[name]
		if !ok {
			all := slices.Sorted(maps.Keys(checks))
			text := fmt.Sprintf("assessor %s has no argument %q: it takes %s", assessor, name, strings.Join(all, ", "))
			faults = append(faults, &argumentError{text: text, takes: all})
		} else if err := check(given[name]); err != nil {
			text := fmt.Sprintf("argument %s of assessor %s is %s: want %v", name, assessor, given[name], err)
			faults = append(faults, &argumentError{text: text, want: err.Error()})
		}
	}
	return errors.Join(faults...)
}

// optimizeModeInto reads optimize_mode.
func optimizeModeInto(minimize *bool) check {
	return func(value json.RawMessage) error {
		var mode string
		json.Unmarshal(value, &mode) // what is no string is no mode either
		*minimize = mode == "minimize"
		if mode != "minimize" && mode != "maximize" {
			return errors.New(`"maximize" or "minimize"`)
		}
		return nil
	}
}

// integerInto reads an integer from low on.
func integerInto(number *int, low int) check {
	return func(value json.RawMessage) error {
		given, err := strconv.ParseInt(string(value), 10, 32)
		if err != nil || int(given) < low {
			return fmt.Errorf("an integer from %d", low)
		}
		*number = int(given)
		return nil
	}
}

// numberInto reads a number above 0.
func numberInto(number *float64) check {
	return func(value json.RawMessage) error {
		given, err := strconv.ParseFloat(string(value), 64)
		if err != nil || !(given > 0) || math.IsInf(given, 0) {
			return errors.New("a number above 0")
		}
		*number = given
		return nil
	}
}
