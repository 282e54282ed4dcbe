package views

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/record"
)

// OpenLog opens a log of an attempt at the byte that is wanted, and returns which that is:
// a negative one counts from the end where the log is a file of this machine's, and is the
// first elsewhere. elsewhere opens what only the platform has. As long as there is none it
// is fs.ErrNotExist.
func OpenLog(ctx context.Context, attempt record.Attempt, wanted platforms.Log,
	elsewhere func(context.Context, platforms.Handle, platforms.Log) (io.ReadCloser, error)) (io.ReadCloser, int64, error) {
	if attempt.Output != "" && wanted.Replica == "" {
		return openAt(filepath.Join(attempt.Output, wanted.Stream), wanted.From)
	}
	if attempt.Handle == nil {
		return nil, 0, os.ErrNotExist
	}
	var handle platforms.Handle
	if err := json.Unmarshal(attempt.Handle, &handle); err != nil {
		return nil, 0, err
	}
	wanted.From = max(wanted.From, 0)
	log, err := elsewhere(ctx, handle, wanted)
	return log, wanted.From, err
}

func openAt(path string, from int64) (io.ReadCloser, int64, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	info, err := file.Stat()
	if err == nil && from < 0 {
		from = max(info.Size()+from, 0)
	}
	if err == nil {
		_, err = file.Seek(from, io.SeekStart)
	}
	if err != nil {
		file.Close()
		return nil, 0, err
	}
	return file, from, nil
}
