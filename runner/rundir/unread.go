package rundir

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/perennial-ml/perennial/metrics"
	"github.com/perennial-ml/perennial/trial"
)

// finish ends what a command left whose runner died meanwhile. The claim keeps
// others from doing so at the same time.
func (r Run) finish(key trial.Key, seen Observation) (Observation, error) {
	if age := time.Since(seen.Exit.Ended); age >= 0 && age < LeftoverGrace {
		return seen, nil
	}
	claim, err := r.Acquire()
	if errors.Is(err, ErrHeld) {
		return seen, nil
	}
	if err != nil {
		return seen, err
	}
	defer claim.Close()
	if again, err := r.ReadExit(); err != nil || again == nil || again.Unread == nil {
		seen.Exit = again
		return seen, err
	}
	if r.sweepBriefly(key) != nil {
		return seen, nil // tried again at the next look
	}
	if err := r.readUnread(*seen.Exit.Unread); err != nil {
		return seen, err
	}
	whole := *seen.Exit
	whole.Unread = nil
	seen.Exit = &whole
	return seen, r.WriteExit(whole)
}

// readUnread brings what leftovers reported into the journal, which may have some
// of it already.
func (r Run) readUnread(unread Unread) error {
	spec, err := r.ReadSpec()
	if err != nil {
		return err
	}
	found, err := readParsed(filepath.Join(spec.Directories.System, MetricsFile), unread.Frames, &metrics.Frames{})
	if err != nil {
		return err
	}
	lines, err := readParsed(r.Path(Stdout), unread.Stdout, &metrics.Lines{Step: unread.Step})
	if err != nil {
		return err
	}
	known, err := r.recordsFrom(unread.Next)
	if err != nil {
		return err
	}
	return r.appendRecords(without(append(found, lines...), known))
}

type parser interface {
	Feed(data []byte) []metrics.Record
	End() []metrics.Record
}

// readParsed reads a file from an offset, and from its beginning where it has been
// truncated since.
func readParsed(path string, offset int64, parser parser) ([]metrics.Record, error) {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil && info.Size() < offset {
		offset = 0
	}
	var records []metrics.Record
	buffer := make([]byte, 256<<10)
	for {
		n, err := file.ReadAt(buffer, offset)
		records = append(records, parser.Feed(buffer[:n])...)
		offset += int64(n)
		if errors.Is(err, io.EOF) {
			return append(records, parser.End()...), nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// recordsFrom returns the journal's records from a number on.
func (r Run) recordsFrom(number int64) ([]metrics.Record, error) {
	var later []metrics.Record
	var cursor int64
	for {
		records, after, err := metrics.ReadJournal(r.Path(JournalFile), cursor)
		if err != nil || len(records) == 0 {
			return later, err
		}
		later = append(later, slices.DeleteFunc(records, func(record metrics.Record) bool { return record.Number < number })...)
		cursor = after
	}
}

// without returns the records that are not among the known ones, each of which
// stands for one.
func without(records, known []metrics.Record) []metrics.Record {
	count := map[metrics.Record]int{}
	for _, record := range known {
		count[identity(record)]++
	}
	return slices.DeleteFunc(records, func(record metrics.Record) bool {
		count[identity(record)]--
		return count[identity(record)] >= 0
	})
}

// identity is a record without what its way into the journal gave it.
func identity(record metrics.Record) metrics.Record {
	record.Number, record.Time = 0, time.Time{}
	return record
}

func (r Run) appendRecords(records []metrics.Record) error {
	if len(records) == 0 {
		return nil
	}
	for i := range records {
		records[i].Time = time.Now()
	}
	journal, err := metrics.OpenJournal(r.Path(JournalFile))
	if err != nil {
		return err
	}
	return errors.Join(journal.Append(records), journal.Close())
}
