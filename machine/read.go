package machine

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"

	"github.com/perennial-ml/perennial/metrics"
	"github.com/perennial-ml/perennial/runner/rundir"
	"github.com/perennial-ml/perennial/trial"
)

// Collect returns journal records that follow the cursor, a byte offset of the
// journal, and the cursor after them. None means that there is nothing more at
// present.
func (m *Machine) Collect(ref Ref, after Cursor) ([]metrics.Record, Cursor, error) {
	run, err := m.find(ref)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, after, nil
	}
	if err != nil {
		return nil, after, fault("collect", err)
	}
	offset, err := offsetOf(after)
	if err != nil {
		return nil, after, err
	}
	records, next, err := metrics.ReadJournal(run.Path(rundir.JournalFile), offset)
	if errors.Is(err, metrics.ErrNoJournal) {
		// Whatever spoiled it, such as a power cut: trying again mends nothing.
		return nil, after, Errorf(NotFound, "collect", "%w", err)
	}
	if err != nil || len(records) == 0 {
		return nil, after, fault("collect", err)
	}
	return records, Cursor(strconv.FormatInt(next, 10)), nil
}

func offsetOf(cursor Cursor) (int64, error) {
	if cursor == "" {
		return 0, nil
	}
	offset, err := strconv.ParseInt(string(cursor), 10, 64)
	if err != nil || offset < 0 {
		return 0, Errorf(Invalid, "collect", "%q is no cursor of a journal", cursor)
	}
	return offset, nil
}

var streams = []string{rundir.Stdout, rundir.Stderr, rundir.TrialLog}

// Logs opens what a run printed, one of "stdout", "stderr" and "trial.log", or
// trial.ParameterFile, what it was given, at a byte. A stream that does not exist yet
// is empty.
func (m *Machine) Logs(ref Ref, stream string, from int64) (io.ReadCloser, error) {
	if stream != trial.ParameterFile && !slices.Contains(streams, stream) {
		return nil, Errorf(NotFound, "logs", "there is no stream %q, only %v", stream, streams)
	}
	run, err := m.find(ref)
	if err == nil {
		var file *os.File
		if file, err = os.Open(run.Path(stream)); err == nil {
			_, err = file.Seek(from, io.SeekStart)
			return file, err
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return io.NopCloser(eof{}), nil
	}
	return nil, fault("logs", err)
}

type eof struct{}

func (eof) Read([]byte) (int, error) { return 0, io.EOF }
