package metrics

import (
	"bytes"
	"strconv"
)

const (
	frameMark   = "ME"
	frameDigits = 6
	frameHeader = len(frameMark) + frameDigits
)

// Frames reads NNI's file channel: "ME", six digits, then that many bytes of
// JSON that end in a newline. Several processes may write to one file, so a frame
// can lie in the middle of another one: what does not fit is reported as
// Unreadable and reading goes on at the next frame. The zero value is ready. The
// records it returns have no Number and no Time.
type Frames struct {
	pending []byte
}

// Feed takes the next bytes of the file, in pieces of any size, and returns the
// metrics they complete.
func (f *Frames) Feed(data []byte) []Record {
	f.pending = append(f.pending, data...)
	return f.records(false)
}

// Pending is how many of the bytes fed last may still become a metric. Fed to
// another Frames they lose nothing.
func (f *Frames) Pending() int { return len(f.pending) }

// End returns what can still be read when nothing more will come, and forgets
// the rest: the next Feed begins a new file.
func (f *Frames) End() []Record {
	records := f.records(true)
	f.pending = nil
	return records
}

func (f *Frames) records(ended bool) []Record {
	var records []Record
	rest := f.pending
	for len(rest) > 0 {
		record, size := nextFrame(rest, ended)
		if size == 0 {
			break
		}
		if record != nil {
			records = append(records, *record)
		}
		rest = rest[size:]
	}
	f.pending = append(f.pending[:0], rest...)
	return records
}

// nextFrame reads what data begins with: a frame, or garbage up to where the
// next frame may begin. A size of 0 means that more bytes are needed.
func nextFrame(data []byte, ended bool) (*Record, int) {
	size, ok := frameSize(data)
	if !ok {
		if !ended && len(data) < frameHeader && headerPrefix(data) {
			return nil, 0
		}
		return garbage(data, 1)
	}
	payload := data[frameHeader:]
	// The SDK's JSON holds no newline, so one that stands too early is another
	// frame's: there is no point in waiting for the rest.
	newline := bytes.IndexByte(payload[:min(len(payload), size)], '\n')
	if newline < 0 && len(payload) < size && !ended {
		return nil, 0
	}
	if newline == size-1 {
		if record, err := nniRecord(payload[:size]); err == nil {
			return record, frameHeader + size
		}
	}
	return garbage(data, frameHeader)
}

// garbage reports what stands before the next header, which is sought from the
// given place. Blanks are nobody's loss, nor are the zeros that a file has which
// was truncated under its writer (NNI 1.9).
func garbage(data []byte, from int) (*Record, int) {
	end := from + frameStart(data[from:])
	piece := bytes.Trim(data[:end], "\x00 \r\n\t")
	if len(piece) == 0 {
		return nil, end
	}
	record := unreadable(piece)
	return &record, end
}

// frameSize reads a frame's header.
func frameSize(data []byte) (int, bool) {
	if len(data) < frameHeader || string(data[:len(frameMark)]) != frameMark {
		return 0, false
	}
	size, err := strconv.ParseUint(string(data[len(frameMark):frameHeader]), 10, 32)
	return int(size), err == nil && size > 0
}

// frameStart returns where the first header in data begins, a header cut off by
// the end of data included; len(data) where there is none.
func frameStart(data []byte) int {
	for at := 0; at < len(data); {
		found := bytes.IndexByte(data[at:], frameMark[0])
		if found < 0 {
			return len(data)
		}
		at += found
		if headerPrefix(data[at:]) {
			return at
		}
		at++
	}
	return len(data)
}

func headerPrefix(data []byte) bool {
	for i, c := range data[:min(len(data), frameHeader)] {
		if i < len(frameMark) && c != frameMark[i] {
			return false
		}
		if i >= len(frameMark) && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}
