package metrics

import (
	"bytes"
	"encoding/json"

	"github.com/perennial-ml/perennial/trial"
)

const (
	stdoutMark = "NNISDK_MEb'"
	// longestLine bounds what is kept of a line once a mark was seen in it: twice
	// the largest metric, so that text around one does no harm.
	longestLine = 2 * MaxBytes
)

var (
	nniMark          = []byte(stdoutMark)
	intermediateMark = []byte(trial.IntermediatePrefix)
	finalMark        = []byte(trial.FinalPrefix)
)

// Lines reads metrics from a trial's standard output: NNI's stdout marker and
// our own two lines, wherever in a line they begin, so that a progress bar before
// them does no harm. A line without a mark costs no memory however long it is.
// The zero value is ready. The records it returns have no Number and no Time;
// intermediates of our own protocol are counted from step 0.
type Lines struct {
	// Step is that of the next intermediate of our own protocol.
	Step int64

	pending []byte // from the first mark of a line that has not ended, or the end of one that may become a mark
	marked  bool   // pending begins with a mark
}

// Feed takes the next bytes of the output, in pieces of any size, and returns the
// metrics of the lines they complete.
func (l *Lines) Feed(data []byte) []Record {
	l.pending = append(l.pending, data...)
	var records []Record
	rest := l.pending
	for {
		rest = l.fromMark(rest)
		end := bytes.IndexByte(rest, '\n')
		if !l.marked || end < 0 && len(rest) <= longestLine {
			break
		}
		if end < 0 {
			end = len(rest) // too long to wait: read as far as it is known
		}
		records = append(records, l.line(rest[:end])...)
		rest, l.marked = rest[end:], false
	}
	l.pending = append(l.pending[:0], rest...)
	return records
}

// Pending is how many of the bytes fed last may still become a metric. Fed once
// more, to a Lines of the same Step, they lose nothing.
func (l *Lines) Pending() int { return len(l.pending) }

// End returns the metrics of a last line that has no newline.
func (l *Lines) End() []Record {
	line, marked := l.pending, l.marked
	l.pending, l.marked = nil, false
	if !marked {
		return nil
	}
	return l.line(line)
}

// fromMark leaves out what precedes the first mark. Where there is none, as much
// remains as may be the beginning of one.
func (l *Lines) fromMark(data []byte) []byte {
	if l.marked {
		return data
	}
	at, _ := firstMark(data)
	l.marked = at >= 0
	if !l.marked {
		at = max(0, len(data)-len(intermediateMark))
	}
	return data[at:]
}

// line returns the metrics of one whole line.
func (l *Lines) line(line []byte) []Record {
	var records []Record
	for {
		at, mark := firstMark(line)
		if at < 0 {
			return records
		}
		line = line[at:]
		record, size := l.marking(line, mark)
		if record != nil {
			records = append(records, *record)
		}
		line = line[size:]
	}
}

// marking reads the metric that line begins with, and how much of the line it is.
func (l *Lines) marking(line, mark []byte) (*Record, int) {
	if string(mark) == stdoutMark {
		return nniMarking(line)
	}
	end := bytes.IndexByte(line, '\r')
	if end < 0 {
		end = len(line)
	}
	return l.own(line[:end], mark), end
}

// own reads a line of our own protocol.
func (l *Lines) own(line, mark []byte) *Record {
	value := bytes.TrimSpace(line[len(mark):])
	if len(value) < MaxBytes {
		value = spelled(value)
	}
	if len(value) >= MaxBytes || !valid(value) {
		record := unreadable(line)
		return &record
	}
	if string(mark) == trial.FinalPrefix {
		return &Record{Kind: Final, Value: text(value)}
	}
	l.Step++
	return &Record{Kind: Periodical, Step: l.Step - 1, Value: text(value)}
}

// nniMarking reads NNI's stdout marker, whose JSON stands between quotes without
// any escaping and may hold quotes itself. A JSON object knows its own end, so of
// all pieces that end before a quote at most one is an object: reading one object
// finds what trying the last quote, then shorter pieces, would find.
func nniMarking(line []byte) (*Record, int) {
	rest := line[len(stdoutMark):]
	decoder := json.NewDecoder(bytes.NewReader(rest))
	var object json.RawMessage
	if decoder.Decode(&object) == nil {
		size := int(decoder.InputOffset())
		record, err := nniRecord(object)
		if err == nil && bytes.HasPrefix(bytes.TrimLeft(rest[size:], " \t\r"), []byte("'")) {
			return record, len(stdoutMark) + size
		}
	}
	next, _ := firstMark(rest)
	if next < 0 {
		next = len(rest)
	}
	record := unreadable(line[:len(stdoutMark)+next])
	return &record, len(stdoutMark) + next
}

// firstMark returns where the first mark in data begins, and which it is; -1
// where there is none.
func firstMark(data []byte) (at int, mark []byte) {
	at = -1
	for _, candidate := range [][]byte{nniMark, intermediateMark, finalMark} {
		found := bytes.Index(data, candidate)
		if found >= 0 && (at < 0 || found < at) {
			at, mark = found, candidate
		}
	}
	return at, mark
}
