package platforms

import "strings"

// OptionFault is one thing that is wrong with a platform's section of a
// configuration.
type OptionFault struct {
	// Field is where, in canonical spelling, as in "machineList[1].host"; empty for
	// the section as a whole.
	Field   string
	Message string // continues a sentence that begins with the field
	Hint    string // what would be right; empty where the message says it
}

// Error returns "field: message (hint)".
func (f OptionFault) Error() string {
	text := f.Message
	if f.Field != "" {
		text = f.Field + ": " + text
	}
	if f.Hint != "" {
		text += " (" + f.Hint + ")"
	}
	return text
}

// OptionFaults is the error of whoever checks a section. It holds every fault, so
// that all can be mended at once, each where it stands in the user's file.
type OptionFaults []OptionFault

func (f OptionFaults) Error() string {
	var texts []string
	for _, fault := range f {
		texts = append(texts, fault.Error())
	}
	return strings.Join(texts, "; ")
}
