package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// walSyncEvery bounds what a power cut takes from Temporal: synchronous
	// NORMAL alone once lost the last 25 seconds.
	walSyncEvery = 250 * time.Millisecond
	// A log that has been still for calm is looked at every calmSyncEvery: what comes
	// first after that is at risk for so long, and an idle host wakes up less.
	calm          = 10 * time.Second
	calmSyncEvery = time.Second
	// timestampGrain is more than the coarsest step of a file's modification
	// time: a write this close to the last one seen may not have moved it.
	timestampGrain = 100 * time.Millisecond
)

// walSync flushes SQLite's write-ahead log to disk whenever it changed.
type walSync struct {
	path     string
	log      *slog.Logger
	flushed  time.Time // when the log was written that is on disk
	ending   chan struct{}
	ended    chan struct{}
	syncFile func(path string) error
}

func startWALSync(database string, log *slog.Logger) *walSync {
	w := newWALSync(database, log)
	go w.run()
	return w
}

func newWALSync(database string, log *slog.Logger) *walSync {
	return &walSync{
		path:     database + "-wal",
		log:      log,
		ending:   make(chan struct{}),
		ended:    make(chan struct{}),
		syncFile: syncFile,
	}
}

func (w *walSync) run() {
	defer close(w.ended)
	for {
		select {
		case <-w.ending:
			return
		case <-time.After(w.pause(time.Now())):
		}
		if err := w.flush(time.Now()); err != nil {
			w.log.Error("a power cut may lose what Temporal did last", "error", err)
		}
	}
}

// pause is how long until the log is looked at again.
func (w *walSync) pause(now time.Time) time.Duration {
	if !w.flushed.IsZero() && now.Sub(w.flushed) > calm {
		return calmSyncEvery
	}
	return walSyncEvery
}

// flush syncs the log if it was written since it was last seen at rest.
func (w *walSync) flush(now time.Time) error {
	info, err := os.Stat(w.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("write-ahead log: %w", err)
	}
	modified := info.ModTime()
	if modified.Equal(w.flushed) {
		return nil
	}
	if err := w.syncFile(w.path); err != nil {
		return err
	}
	if now.Sub(modified) > timestampGrain {
		w.flushed = modified
	}
	return nil
}

func (w *walSync) stop() error {
	close(w.ending)
	<-w.ended
	w.flushed = time.Time{}
	return w.flush(time.Now())
}

func syncFile(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := unix.Fdatasync(int(file.Fd())); err != nil {
		return fmt.Errorf("sync %s: %w", filepath.Base(path), err)
	}
	return nil
}

func syncDirectory(path string) error {
	directory, err := os.Open(path)
	if err != nil {
		return err
	}
	defer directory.Close()
	return directory.Sync()
}
