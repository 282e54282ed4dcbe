package bridge

import (
	"io"
	"strings"
)

// Breakdown is an error of an algorithm's own, or of the process that it runs in,
// with what is known of where. Error is one line.
type Breakdown struct {
	Message string
	// Traceback are the last lines of the traceback, or else of what the process
	// wrote to its log: a few, and cut short.
	Traceback []string
	Log       string // the file with all of it
}

// Error implements error.
func (b *Breakdown) Error() string { return b.Message }

const (
	// lastWords bounds how much of a log is looked at for an error.
	lastWords = 16 << 10
	// tracebackLines bounds what is shown of it: the innermost calls and the error.
	tracebackLines = 12
)

// beginning is how Python begins a traceback.
const beginning = "Traceback (most recent call last):"

// traceback is the end of a text: the last traceback in it, as far as it has room.
func traceback(text string) []string {
	if at := strings.LastIndex(text, beginning); at >= 0 {
		text = text[at:]
	}
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimRight(line, " \r\n"); line != "" {
			lines = append(lines, shortened(line, lineLength))
		}
	}
	return lines[max(0, len(lines)-tracebackLines):]
}

// broken is the failure of a process that is told by a traceback.
func (c *child) broken(text string) error {
	return &Breakdown{Message: lastLine(text), Traceback: traceback(text), Log: c.log.Name()}
}

// died is the failure of a process that ended.
func (c *child) died(how string) error {
	words := c.words()
	if last := lastLine(words); last != "" {
		how += ": " + last
	}
	return &Breakdown{Message: how, Traceback: traceback(words), Log: c.log.Name()}
}

// words are the end of what the process wrote to its log.
func (c *child) words() string {
	size, err := c.log.Seek(0, io.SeekEnd)
	if err != nil {
		return ""
	}
	from := max(c.before, size-lastWords)
	if size < c.before { // the log was emptied since
		from = max(0, size-lastWords)
	}
	text := make([]byte, size-from)
	if _, err := c.log.ReadAt(text, from); err != nil {
		return ""
	}
	return strings.ToValidUTF8(string(text), "")
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return cut(strings.TrimSpace(lines[len(lines)-1]))
}

// lineLength is how many bytes of a line are shown.
const lineLength = 200

func cut(text string) string { return shortened(text, 300) }

func shortened(text string, most int) string {
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}
