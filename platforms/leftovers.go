package platforms

import (
	"context"
	"strings"
	"time"
)

// WithLeftovers is a Platform that marks all that it makes with the experiment and the
// home it is made for, and can find it by that when its record is gone.
type WithLeftovers interface {
	// Leftovers lists what there is of any experiment, whosever it is, where the section
	// has its runs.
	Leftovers(ctx context.Context) (Leftovers, error)
	// RemoveLeftover ends and removes all there is of an experiment. It is harmless
	// where there is nothing left.
	RemoveLeftover(ctx context.Context, experiment string) error
}

// Leftovers are what a place has of experiments.
type Leftovers struct {
	Place    string     `json:"place"` // in words, such as "namespace default of https://10.0.0.1:6443"
	Found    []Leftover `json:"found"`
	Unlisted []string   `json:"unlisted,omitempty"` // what the section's rights do not let it list
}

// Leftover is what a place has of one experiment.
type Leftover struct {
	Experiment string         `json:"experiment"`
	Home       string         `json:"home"` // Home of whoever made it; empty: older than the mark
	Things     map[string]int `json:"things"`
	Since      time.Time      `json:"since"` // when the oldest of it was made
}

// nameLimit is how much of a machine's name is in a home's: the whole has to be a label
// of Kubernetes, 63 characters of letters, digits, "-", "_" and ".".
const nameLimit = 50

// Home is what others see of a state directory: the machine's name and the id that the
// directory has for ever.
func Home(machine, id string) string {
	name := strings.Trim(strings.Map(func(r rune) rune {
		if strings.ContainsRune("-_.", r) || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '-'
	}, machine), "-_.")
	if name = strings.TrimRight(name[:min(len(name), nameLimit)], "-_."); name == "" {
		return id
	}
	return name + "." + id
}

// SameHome tells whether two homes are one, whatever its machine is called by now.
func SameHome(one, other string) bool {
	id := func(home string) string { return home[strings.LastIndex(home, ".")+1:] }
	return one != "" && id(one) == id(other)
}
