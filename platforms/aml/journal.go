package aml

import (
	"context"
	"maps"
	"strconv"
	"sync"
	"time"

	"github.com/perennial-ml/perennial/metrics"
	"github.com/perennial-ml/perennial/runner/rundir"
	"github.com/perennial-ml/perennial/runner/stream"
	"github.com/perennial-ml/perennial/trial"
)

// journal is what a run's log told so far. It is a cache: all of it can be read anew.
type journal struct {
	mutex   sync.Mutex
	reader  *stream.Reader
	offset  int64     // in the log
	from    int64     // the number before the first of records
	over    time.Time // when its job was first seen to be over
	asked   time.Time // when it was last asked for
	records []metrics.Record
	studio  studio
}

func newJournal(key trial.Key, after int64) *journal {
	return &journal{reader: stream.NewReader(key, after), from: after}
}

// read takes what the log has gained. What is shorter than was asked for was the last.
func (j *journal) read(more func(from int64) ([]byte, error)) error {
	for {
		content, err := more(j.offset)
		if err != nil || len(content) == 0 {
			return err
		}
		j.offset += int64(len(content))
		j.add(j.reader.Feed(content))
		if len(content) < chunk {
			return nil
		}
	}
}

func (j *journal) add(records []metrics.Record) {
	j.records = append(j.records, records...)
	j.studio.add(records)
}

// complete tells of a job that is over whether its log will tell nothing more: it has
// told of the run's end, or had all the time for which logs are behind. That goes by this
// machine's clock alone.
func (j *journal) complete(behind time.Duration) bool {
	if j.over.IsZero() {
		j.over = time.Now()
	}
	return j.exit() != nil || time.Since(j.over) >= behind
}

// giveUp takes what there is behind records that never will be.
func (j *journal) giveUp() {
	for {
		if _, _, missing := j.reader.Gap(); !missing {
			return
		}
		j.add(j.reader.Skip())
	}
}

// after returns the records that follow a cursor, and forgets those before it.
func (j *journal) after(cursor int64) ([]metrics.Record, int64) {
	for len(j.records) > 0 && j.records[0].Number <= cursor {
		j.from, j.records = j.records[0].Number, j.records[1:]
	}
	if last := len(j.records); last > 0 {
		cursor = j.records[last-1].Number
	}
	return append([]metrics.Record(nil), j.records...), cursor
}

// exit is how the run ended, nil while that is not known.
func (j *journal) exit() *rundir.ExitRecord {
	if end := j.reader.End(); end != nil {
		return end.Exit
	}
	return nil
}

// journals are those of a section's runs.
type journals struct {
	mutex sync.Mutex
	of    map[trial.Key]*journal
}

// from returns a run's journal that has all that follows a cursor.
func (all *journals) from(key trial.Key, after int64) *journal {
	all.mutex.Lock()
	defer all.mutex.Unlock()
	known := all.of[key]
	if known == nil || after < known.from {
		known = newJournal(key, after)
		all.of[key] = known
	}
	known.asked = time.Now()
	return known
}

// forgetOld forgets the journals that nobody has asked for in a long time: their runs are
// over, however they ended.
func (all *journals) forgetOld(now time.Time) {
	all.mutex.Lock()
	defer all.mutex.Unlock()
	maps.DeleteFunc(all.of, func(_ trial.Key, j *journal) bool { return now.Sub(j.asked) > unasked })
}

func (all *journals) forget(key trial.Key) {
	all.mutex.Lock()
	defer all.mutex.Unlock()
	delete(all.of, key)
}

func (c *client) readLog(ctx context.Context, told *details, j *journal) error {
	address := told.Logs[logFile]
	if address == "" {
		return nil
	}
	return j.read(func(from int64) ([]byte, error) { return c.log(ctx, address, from) })
}

func cursorOf(number int64) string {
	if number == 0 {
		return ""
	}
	return strconv.FormatInt(number, 10)
}
