package tuners

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// check reads one argument and says what would be right if it is not.
type check func(value json.RawMessage) error

// checkArguments applies to each argument of a tuner its check and reports all
// that are wrong or unknown. Arguments may be nil or null.
func checkArguments(tuner string, arguments json.RawMessage, checks map[string]check) error {
	given := map[string]json.RawMessage{}
	if len(arguments) > 0 && json.Unmarshal(arguments, &given) != nil {
		return fmt.Errorf("classArgs of tuner %s is %s: want an object", tuner, arguments)
	}
	var faults []error
	for _, name := range slices.Sorted(maps.Keys(given)) {
		check, ok := checks[name]
		if !ok {
			text := fmt.Sprintf("tuner %s has no argument %q: %s", tuner, name, allowed(checks))
			faults = append(faults, &argumentError{text: text, takes: slices.Sorted(maps.Keys(checks))})
		} else if err := check(given[name]); err != nil {
			text := fmt.Sprintf("argument %s of tuner %s is %s: %v", name, tuner, given[name], err)
			faults = append(faults, &argumentError{text: text, want: strings.TrimPrefix(err.Error(), "want ")})
		}
	}
	return errors.Join(faults...)
}

func allowed(checks map[string]check) string {
	if len(checks) == 0 {
		return "it takes none"
	}
	return "it takes " + strings.Join(slices.Sorted(maps.Keys(checks)), ", ")
}

// optimizeMode checks optimize_mode, which makes no difference to tuners that do
// not look at results.
func optimizeMode(value json.RawMessage) error {
	var mode string
	if json.Unmarshal(value, &mode) != nil || mode != "maximize" && mode != "minimize" {
		return errors.New(`want "maximize" or "minimize"`)
	}
	return nil
}

// seedInto reads seed, an integer or null.
func seedInto(seed *uint64) check {
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
