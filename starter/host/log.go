package host

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// logLimit is the size in bytes at which the log is put aside as host.log.1,
// replacing the last one.
const logLimit = 8 << 20

// Log is the host's log file. It keeps at most two files of 8 MiB.
type Log struct {
	mu       sync.Mutex
	path     string
	limit    int64
	file     *os.File
	size     int64
	captured bool
}

// OpenLog opens the log for appending.
func (d Dir) OpenLog() (*Log, error) { return openLog(d.LogFile(), logLimit) }

func openLog(path string, limit int64) (*Log, error) {
	log := &Log{path: path, limit: limit}
	return log, log.open()
}

func (l *Log) open() error {
	file, err := os.OpenFile(l.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("host log: %w", err)
	}
	info, err := file.Stat()
	if err != nil {
		return errors.Join(err, file.Close())
	}
	l.file, l.size = file, info.Size()
	return l.redirect()
}

// Capture sends what this process prints, a panic above all, to the log.
func (l *Log) Capture() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.captured = true
	return l.redirect()
}

func (l *Log) redirect() error {
	if !l.captured {
		return nil
	}
	for _, standard := range []int{1, 2} {
		if err := unix.Dup3(int(l.file.Fd()), standard, 0); err != nil {
			return fmt.Errorf("host log: %w", err)
		}
	}
	return nil
}

// Write implements io.Writer; what is written at once stays in one file.
func (l *Log) Write(entry []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size > 0 && l.size+int64(len(entry)) > l.limit {
		if err := l.rotate(); err != nil {
			return 0, err
		}
	}
	n, err := l.file.Write(entry)
	l.size += int64(n)
	return n, err
}

func (l *Log) rotate() error {
	if err := os.Rename(l.path, l.path+".1"); err != nil {
		return fmt.Errorf("host log: %w", err)
	}
	return errors.Join(l.file.Close(), l.open())
}

// Close implements io.Closer.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.file.Close()
}

const (
	tailLines = 20
	tailBytes = 8 << 10
)

// logTail returns the last lines that were written to the log after an offset,
// each indented on a line of its own, or nothing.
func logTail(path string, since int64) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return ""
	}
	if info.Size() < since {
		since = 0
	}
	since = max(since, info.Size()-tailBytes)
	content, err := io.ReadAll(io.NewSectionReader(file, since, tailBytes))
	text := strings.TrimSpace(string(content))
	if err != nil || text == "" {
		return ""
	}
	lines := strings.Split(text, "\n")
	lines = lines[max(0, len(lines)-tailLines):]
	return ":\n    " + strings.Join(lines, "\n    ")
}
