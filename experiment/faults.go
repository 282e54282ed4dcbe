package experiment

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/perennial-ml/perennial/searchspace"
)

// Fault is one thing that is wrong, or with a warning one thing worth knowing,
// and where it stands.
type Fault struct {
	File    string // as the user would write it
	Line    int    // from 1; 0 where the fault has no place in the file
	Column  int    // from 1, in characters
	Field   string // as the file spells it, such as "trial.codeDir" or "machineList[0].port"
	Message string
	Hint    string // what would be right, empty where the message says it
	Source  string // the line of the file, secrets masked
	caret   int    // the column's place in Source
	besides int    // how many more there are, where the fault stands for those
}

// String returns "file:line:column: field: message" and, where there are any, the
// source line, a caret below the place, and the hint, each on a line of its own.
func (f Fault) String() string {
	text := f.place() + ": "
	if f.Field != "" {
		text += f.Field + ": "
	}
	text += f.Message
	if f.Source != "" {
		text += "\n" + excerpt(f.Source, f.caret)
	}
	if f.Hint != "" {
		text += "\n    hint: " + f.Hint
	}
	return visible(text)
}

// visible replaces control characters, with which a file could steer a terminal.
func visible(text string) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsControl(c) && c != '\n' && c != '\t' {
			return unicode.ReplacementChar
		}
		return c
	}, text)
}

func (f Fault) place() string {
	if f.Line == 0 {
		return f.File
	}
	return fmt.Sprintf("%s:%d:%d", f.File, f.Line, f.Column)
}

// where is the same for faults of the same place.
func (f Fault) where() [3]any { return [3]any{f.File, f.Line, f.Column} }

// Faults is what is wrong with a configuration, in the order of the file: every
// fault, or of very many some hundred, followed by one without a place that says
// how many there are besides. It is the error that Load and Parse return.
type Faults []Fault

// mostKept bounds the faults that are kept, and mostPrinted those of them that are
// printed: a program may read more than a person.
const (
	mostKept    = 200
	mostPrinted = 50
)

// Error prints the faults one after another, the first fifty in full.
func (f Faults) Error() string {
	var texts []string
	for _, fault := range f[:min(len(f), mostPrinted)] {
		texts = append(texts, fault.String())
	}
	if len(f) > mostPrinted {
		texts = append(texts, fmt.Sprintf("and %d more", f.Count()-mostPrinted))
	}
	return strings.Join(texts, "\n")
}

// Count is how many faults there are, kept or not.
func (f Faults) Count() int {
	count := len(f)
	if count > 0 && f[count-1].besides > 0 {
		count += f[count-1].besides - 1
	}
	return count
}

// findings are the first faults, or warnings, that were found, and how many there
// were.
type findings struct {
	first []Fault
	count int
}

func (f *findings) full() bool { return len(f.first) >= mostKept }

// add adds what place makes of a fault, if it is one of the first.
func (f *findings) add(place func() Fault) {
	f.count++
	if !f.full() {
		f.first = append(f.first, place())
	}
}

// take adds what was found elsewhere.
func (f *findings) take(others findings) {
	f.first = append(f.first, others.first[:min(len(others.first), mostKept-len(f.first))]...)
	f.count += others.count
}

// inOrder are the findings as people read them, those of a file first, with how many
// were found besides.
func (f *findings) inOrder(file, called string) []Fault {
	shown := slices.Compact(sorted(f.first, file))
	if besides := f.count - len(f.first); besides > 0 {
		text := fmt.Sprintf("%d more %s are not shown", besides, called)
		shown = append(shown, Fault{File: file, Message: text, besides: besides})
	}
	return shown
}

func inFileOrder(a, b Fault) int {
	return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
}

// sorted puts the faults of the experiment's own file first.
func sorted(faults []Fault, file string) []Fault {
	slices.SortStableFunc(faults, func(a, b Fault) int {
		if (a.File == file) != (b.File == file) {
			return cmp.Compare(foreign(a, file), foreign(b, file))
		}
		return cmp.Or(cmp.Compare(a.File, b.File), inFileOrder(a, b))
	})
	return faults
}

func foreign(f Fault, file string) int {
	if f.File == file {
		return 0
	}
	return 1
}

// Widths of an excerpt, in characters: a line of a million is cut around its place.
const (
	before = 60
	after  = 60
)

func excerpt(line string, column int) string {
	characters := []rune(line)
	at := min(max(column-1, 0), len(characters))
	start, end := max(at-before, 0), min(at+after, len(characters))
	shown := characters[start:end]
	left, right := "", ""
	if start > 0 {
		left = "…"
	}
	if end < len(characters) {
		right = "…"
	}
	pad := blank(append([]rune(left), shown[:at-start]...))
	return "    " + left + string(shown) + right + "\n    " + pad + "^"
}

// blank keeps tabs, so that the caret stands below its character.
func blank(characters []rune) string {
	for i, c := range characters {
		if c != '\t' {
			characters[i] = ' '
		}
	}
	return string(characters)
}

// nearest returns the name that was probably meant, or "" where none is near.
func nearest(written string, names []string) string {
	if len(written) > 64 {
		return ""
	}
	return searchspace.Nearest(strings.ReplaceAll(written, "_", ""), names)
}

// meant asks whether the nearest name was meant; it is empty where none is near.
func meant(written string, names []string) string {
	if name := nearest(written, names); name != "" {
		return fmt.Sprintf("did you mean %s?", name)
	}
	return ""
}

// meantAmong is meant, or all names where none is near.
func meantAmong(written string, names []string) string {
	return cmp.Or(meant(written, names), "valid: "+strings.Join(names, ", "))
}

// fold is how v2 compares keys: case and underscores do not matter.
func fold(key string) string {
	return strings.ToLower(strings.ReplaceAll(key, "_", ""))
}
