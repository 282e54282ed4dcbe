// Package stream is how a run tells what became of it where nobody can read its
// directory: in a container. The runner prints the journal as lines on a stream of
// text, usually a container's log, and puts how the command ended into a
// termination message. Whoever reads both knows every metric once, and what is
// missing.
//
// A line stands anywhere in a log, among the trial's own output, behind
// timestamps, twice or in another order:
//
//	perennial-journal/1 NUMBER PART/PARTS CRC32C TEXT
//
// TEXT is the JSON of a metrics.Record, in pieces that no log breaks; the checksum
// covers the attempt's key, the numbers and TEXT. The last line has the word "end"
// for NUMBER and the JSON of an End.
package stream

import (
	"encoding/json"
	"fmt"
	"hash/crc32"
	"unicode/utf8"

	"github.com/perennial-ml/perennial/metrics"
	"github.com/perennial-ml/perennial/runner/rundir"
	"github.com/perennial-ml/perennial/trial"
)

const (
	mark = "perennial-journal/1 "
	// pieceBytes is the longest TEXT: container engines cut lines at 16 KiB.
	pieceBytes = 8 << 10
	endWord    = "end"
)

// End is the last thing that a stream tells.
type End struct {
	Records int64              `json:"records"`        // how many the journal has
	Exit    *rundir.ExitRecord `json:"exit,omitempty"` // nil: the runner died before it knew
}

// AppendRecord appends a record of an attempt's journal to b, as lines.
func AppendRecord(b []byte, key trial.Key, record metrics.Record) ([]byte, error) {
	return appendLines(b, key, fmt.Sprint(record.Number), record)
}

// AppendEnd appends the end of an attempt's stream to b, as lines.
func AppendEnd(b []byte, key trial.Key, end End) ([]byte, error) {
	return appendLines(b, key, endWord, end)
}

func appendLines(b []byte, key trial.Key, number string, value any) ([]byte, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return b, err
	}
	pieces := split(text)
	for i, piece := range pieces {
		place := fmt.Sprintf("%s %d/%d", number, i+1, len(pieces))
		b = fmt.Appendf(b, "%s%s %08x %s\n", mark, place, checksum(key, place, piece), piece)
	}
	return b, nil
}

// split cuts text into pieces between characters.
func split(text []byte) (pieces [][]byte) {
	for len(text) > pieceBytes {
		at := pieceBytes
		for !utf8.RuneStart(text[at]) {
			at--
		}
		pieces, text = append(pieces, text[:at]), text[at:]
	}
	return append(pieces, text)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(key trial.Key, place string, piece []byte) uint32 {
	sum := crc32.Checksum([]byte(key.String()+" "+place+" "), castagnoli)
	return crc32.Update(sum, castagnoli, piece)
}
