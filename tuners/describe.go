package tuners

import (
	"encoding/json"
	"errors"
)

// Argument is one that a tuner of this build takes in classArgs.
type Argument struct {
	Name  string
	Takes string // what it may be, such as "an integer from 1 to 99999"
}

// argumentError says which argument is wrong and what would be right.
type argumentError struct {
	text  string
	takes []string // where there is no such argument: those there are, sorted
	want  string   // where its value is wrong
}

// Error implements error.
func (e *argumentError) Error() string { return e.text }

// Describe returns the arguments of a tuner of this build, sorted by name. They are
// what its constructor checks: it is asked by arguments that none takes.
func Describe(name string) []Argument {
	var unknown *argumentError
	if _, err := New(Spec{Name: name, Arguments: json.RawMessage(`{"": {}}`)}); !errors.As(err, &unknown) {
		return nil
	}
	var arguments []Argument
	for _, argument := range unknown.takes {
		arguments = append(arguments, Argument{argument, takes(name, argument)})
	}
	return arguments
}

func takes(tuner, argument string) string {
	given, err := json.Marshal(map[string]any{argument: []any{[]any{}}})
	if err != nil {
		return ""
	}
	var wrong *argumentError
	if _, err := New(Spec{Name: tuner, Arguments: given}); errors.As(err, &wrong) {
		return wrong.want
	}
	return ""
}
