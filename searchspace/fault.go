package searchspace

import (
	"fmt"
	"strings"
)

// Fault is one thing that is wrong with a search space.
type Fault struct {
	Path    string // JSON pointer (RFC 6901) into the space: "/lr/_value/1"; empty for the space itself
	Message string // what is wrong, continuing a sentence that begins with the place
	Want    string // what would be right
}

// String is the fault as one line: where, what, and what would be right.
func (f Fault) String() string {
	place := "search space"
	if f.Path != "" {
		place += " " + f.Path
	}
	return fmt.Sprintf("%s %s: want %s", place, f.Message, f.Want)
}

// Faults are all faults of one search space, in the order of the file. It is the
// type of every error about a space itself; use errors.As to find positions.
type Faults []Fault

// Error gives every fault a line.
func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i, fault := range f {
		lines[i] = fault.String()
	}
	return strings.Join(lines, "\n")
}

var escaper = strings.NewReplacer("~", "~0", "/", "~1")

// below is the JSON pointer of a member or element of what path points to.
func below(path string, step any) string {
	return path + "/" + escaper.Replace(fmt.Sprint(step))
}

// shown is a JSON value short enough for a message.
func shown(raw []byte) string {
	const limit = 40
	text := []rune(string(raw))
	if len(text) > limit {
		return string(text[:limit]) + "…"
	}
	return string(text)
}
