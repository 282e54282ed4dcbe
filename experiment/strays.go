package experiment

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/perennial-ml/perennial/searchspace"
)

// Strays says of parameters for a trial which do not lie in a search space, and what would.
// What a tuner of the user's own takes, only that one knows; Batch's space has parameters
// in it, not ranges.
func Strays(tuner Algorithm, space, parameters json.RawMessage) []string {
	parsed, err := searchspace.Parse(space)
	if err != nil || tuner.Name == "" || tuner.Name == "Batch" {
		return nil
	}
	var lines []string
	for _, fault := range parsed.Strays(parameters) {
		lines = append(lines, fmt.Sprintf("%s %s: want %s", strings.TrimPrefix(fault.Path, "/"), fault.Message, fault.Want))
	}
	return lines
}
