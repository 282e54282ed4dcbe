package stream

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/perennial-ml/perennial/metrics"
	"github.com/perennial-ml/perennial/trial"
)

const (
	// longestLine is what is kept of a line: a piece, its head and what a log puts
	// before it.
	longestLine = pieceBytes + 4<<10
	// mostPieces is far above what the largest metric has.
	mostPieces = 4096
)

// Reader finds an attempt's records in a log, each once and in their order,
// wherever reading begins and however often it begins anew.
type Reader struct {
	key    trial.Key
	after  int64 // the number of the last record returned
	line   []byte
	pieces map[string][][]byte      // of what is not whole yet, by NUMBER
	ahead  map[int64]metrics.Record // whole, and behind a gap
	known  int64                    // how many records there are at least
	end    *End
}

// NewReader returns a reader that leaves out the records up to a number: those are
// known already.
func NewReader(key trial.Key, after int64) *Reader {
	return &Reader{key: key, after: after, pieces: map[string][][]byte{}, ahead: map[int64]metrics.Record{}}
}

// Feed takes the next bytes of the log, in pieces of any size, and returns the
// records that follow the last one. What comes behind a gap waits for it.
func (r *Reader) Feed(data []byte) []metrics.Record {
	for len(data) > 0 {
		end := bytes.IndexByte(data, '\n')
		if end < 0 {
			r.keep(data)
			break
		}
		r.keep(data[:end])
		r.take(r.line)
		r.line, data = r.line[:0], data[end+1:]
	}
	return r.next()
}

// Reconnect forgets the beginning of a line: what is fed next comes from another
// place of the log, or from another log of the same attempt.
func (r *Reader) Reconnect() { r.line = r.line[:0] }

// Told takes what a termination message holds of the journal, and returns what
// follows the last record. Of another attempt's message it takes nothing.
func (r *Reader) Told(message Message) []metrics.Record {
	if message.Run != r.key.String() {
		return nil
	}
	for _, record := range message.Last {
		r.put(record)
	}
	r.known = max(r.known, message.Records)
	if message.Exit != nil {
		r.end = &End{Records: message.Records, Exit: message.Exit}
	}
	return r.next()
}

// After is the number of the last record returned: a place to go on from, with
// NewReader.
func (r *Reader) After() int64 { return r.after }

// End is the end of the attempt, nil while none was read.
func (r *Reader) End() *End { return r.end }

// Whole tells whether the end was read and every record before it returned.
func (r *Reader) Whole() bool { return r.end != nil && r.after >= r.end.Records }

// Gap is the first run of records that are missing although later ones, the end or
// a termination message were read; ok is false where there is none. To feed the log
// once more, from further back, may close it.
func (r *Reader) Gap() (from, to int64, ok bool) {
	later := int64(0)
	for number := range r.ahead {
		if later == 0 || number < later {
			later = number
		}
	}
	if later == 0 && r.after < r.known {
		later = r.known + 1
	}
	return r.after + 1, later - 1, later > 0
}

// Skip gives up the records of the gap, and returns those that waited behind it.
func (r *Reader) Skip() []metrics.Record {
	if _, to, missing := r.Gap(); missing {
		r.after = to
	}
	return r.next()
}

// keep adds to the line that is being read, and forgets what can be no line of
// ours.
func (r *Reader) keep(data []byte) {
	room := max(0, longestLine+1-len(r.line))
	r.line = append(r.line, data[:min(len(data), room)]...)
}

func (r *Reader) take(line []byte) {
	at := bytes.Index(line, []byte(mark))
	if at < 0 || len(line) > longestLine {
		return
	}
	words := strings.SplitN(strings.TrimSuffix(string(line[at+len(mark):]), "\r"), " ", 4)
	if len(words) < 4 {
		return
	}
	number, place, text := words[0], words[0]+" "+words[1], []byte(words[3])
	var part, parts int
	_, err := fmt.Sscanf(words[1], "%d/%d", &part, &parts)
	if err != nil || part < 1 || part > parts || parts > mostPieces || words[2] != fmt.Sprintf("%08x", checksum(r.key, place, text)) {
		return
	}
	r.piece(number, part, parts, text)
}

// piece takes one piece of a record or of the end, and the whole where that was
// the last one.
func (r *Reader) piece(number string, part, parts int, text []byte) {
	pieces := r.pieces[number]
	if len(pieces) != parts {
		pieces = make([][]byte, parts)
	}
	pieces[part-1] = text
	r.pieces[number] = pieces
	for _, piece := range pieces {
		if piece == nil {
			return
		}
	}
	delete(r.pieces, number)
	r.whole(number, bytes.Join(pieces, nil))
}

func (r *Reader) whole(number string, text []byte) {
	if number == endWord {
		var end End
		if json.Unmarshal(text, &end) == nil {
			r.end, r.known = &end, max(r.known, end.Records)
		}
		return
	}
	var record metrics.Record
	if json.Unmarshal(text, &record) == nil && fmt.Sprint(record.Number) == number {
		r.put(record)
	}
}

func (r *Reader) put(record metrics.Record) {
	if record.Number > r.after {
		r.ahead[record.Number] = record
	}
}

func (r *Reader) next() (records []metrics.Record) {
	for {
		record, found := r.ahead[r.after+1]
		if !found {
			break
		}
		delete(r.ahead, record.Number)
		records, r.after = append(records, record), record.Number
	}
	for number := range r.ahead {
		if number <= r.after {
			delete(r.ahead, number)
		}
	}
	return records
}

// Output is a log without the journal's lines.
func Output(lines []string) string {
	var text strings.Builder
	for _, line := range lines {
		if !strings.Contains(line, mark) {
			text.WriteString(line + "\n")
		}
	}
	return text.String()
}
