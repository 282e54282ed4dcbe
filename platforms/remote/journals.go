package remote

import (
	"sync"

	"github.com/perennial-ml/perennial/metrics"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/runner/agent"
	"github.com/perennial-ml/perennial/trial"
)

// journals keeps what came along with Poll until it is collected, once, and how far
// each run's journal was read, so that the next Poll reads on. Whatever is not in
// it is asked for.
type journals struct {
	mutex sync.Mutex
	runs  map[trial.Key]*reading
}

type reading struct {
	after  platforms.Cursor
	pieces []piece // each may be taken once
	over   bool    // the run has ended: nothing comes after the last piece
}

// piece is what a journal held after a cursor.
type piece struct {
	after   platforms.Cursor
	records []metrics.Record
	next    platforms.Cursor
}

func (j *journals) reading(key trial.Key) *reading {
	if j.runs == nil {
		j.runs = map[trial.Key]*reading{}
	}
	if j.runs[key] == nil {
		j.runs[key] = &reading{}
	}
	return j.runs[key]
}

// cursor is from where on the next Poll shall read, nil where nobody knows.
func (j *journals) cursor(key trial.Key) *platforms.Cursor {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	known, found := j.runs[key]
	if !found {
		return nil
	}
	after := known.after
	return &after
}

// reached notes that a journal was read up to a cursor.
func (j *journals) reached(key trial.Key, next platforms.Cursor) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	known := j.reading(key)
	known.after, known.pieces = next, nil
}

// put keeps what came along with a report, in the place of what came before: a run
// that has ended since may have reported more. Whoever takes the last of a run that
// is over makes it forgotten.
func (j *journals) put(key trial.Key, after platforms.Cursor, finding agent.Finding) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	known := j.reading(key)
	known.pieces, known.over = nil, finding.Whole && finding.Report.Phase.Definite()
	if len(finding.Records) > 0 {
		known.pieces = append(known.pieces, piece{after, finding.Records, finding.Next})
		after = finding.Next
	}
	if finding.Whole {
		known.pieces = append(known.pieces, piece{after: after, next: after})
	}
}

// take returns what is known to follow a cursor.
func (j *journals) take(key trial.Key, after platforms.Cursor) (piece, bool) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	known, found := j.runs[key]
	if !found || len(known.pieces) == 0 || known.pieces[0].after != after {
		return piece{}, false
	}
	taken := known.pieces[0]
	known.pieces, known.after = known.pieces[1:], taken.next
	if known.over && len(known.pieces) == 0 {
		delete(j.runs, key)
	}
	return taken, true
}
