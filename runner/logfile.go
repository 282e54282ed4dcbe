package runner

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/perennial-ml/perennial/runner/rundir"
)

const (
	pageBytes    = 4096
	largestSlack = 16 << 20
	// limitInterval is how often the size of the logs is looked at.
	limitInterval = 5 * beat
)

// logFile keeps what the trial prints within a limit: the first half of it and
// the last. The trial appends to the file by itself, so while it runs the middle
// is given back to the disk as a hole.
type logFile struct {
	path  string
	file  *os.File     // what the command writes to, whatever becomes of path; nil: by path
	limit int64        // 0: none
	read  atomic.Int64 // up to where metrics were read
	shown atomic.Int64 // up to where it was passed on, see output
	hole  int64        // the hole's end
}

// logFiles are the command's stdout and stderr, and trial.log, to which NNI's SDK
// redirects what Python prints. Making a hole can wait for the disk, so it is done
// beside the reading of metrics.
type logFiles struct {
	stdout, stderr, trial logFile
	log                   *log
}

func newLogFiles(run rundir.Run, spec rundir.Spec, log *log) (*logFiles, error) {
	l := &logFiles{log: log}
	l.stdout.path = run.Path(rundir.Stdout)
	l.stderr.path = run.Path(rundir.Stderr)
	l.trial.path = filepath.Join(spec.Directories.Output, rundir.TrialLog)
	for _, file := range l.all() {
		file.limit = spec.LogLimit
		file.read.Store(math.MaxInt64)
		file.shown.Store(math.MaxInt64)
	}
	l.stdout.read.Store(0)
	var faults [2]error
	l.stdout.file, faults[0] = openLogFile(l.stdout.path)
	l.stderr.file, faults[1] = openLogFile(l.stderr.path)
	return l, errors.Join(faults[:]...)
}

func openLogFile(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
}

func (l *logFiles) all() []*logFile { return []*logFile{&l.stdout, &l.stderr, &l.trial} }

// keep keeps the files within their limit until ended is closed.
func (l *logFiles) keep(ended <-chan struct{}) {
	if l.stdout.limit == 0 {
		return
	}
	for {
		select {
		case <-ended:
			return
		case <-time.After(untilBeat(limitInterval)):
		}
		for _, file := range l.all() {
			if err := file.punch(); err != nil {
				l.log.sayOnce("cannot limit %s while the trial runs: %v", file.path, err)
			}
		}
	}
}

// compact shortens the files for good.
func (l *logFiles) compact() {
	for _, file := range l.all() {
		if err := file.compact(); err != nil {
			l.log.say("%s stays as long as it is: %v", file.path, err)
		}
	}
}

// punch gives back the middle as far as it was read.
func (l *logFile) punch() error {
	file, err := l.open()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer l.close(file)
	info, err := file.Stat()
	if err != nil || l.limit == 0 || info.Size() <= l.limit {
		return err
	}
	from := max(roundUp(l.limit/2), l.hole)
	to := min(info.Size()-l.limit/2, l.read.Load(), l.shown.Load()) / pageBytes * pageBytes
	if to-from < min(l.limit/8, largestSlack) || to <= from {
		return nil
	}
	l.hole = to
	return unix.Fallocate(int(file.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, from, to-from)
}

func (l *logFile) open() (*os.File, error) {
	if l.file != nil {
		return l.file, nil
	}
	return os.OpenFile(l.path, os.O_RDWR, 0)
}

func (l *logFile) close(file *os.File) {
	if file != l.file {
		file.Close()
	}
}

func roundUp(size int64) int64 { return (size + pageBytes - 1) / pageBytes * pageBytes }

// compact replaces the file, which nobody writes any more, by its head, a line
// that says how much was left out, and its tail; one that was removed it brings
// back.
func (l *logFile) compact() error {
	from, err := l.open()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer l.close(from)
	info, err := from.Stat()
	if err != nil || !l.tooLong(info) && !removed(info) {
		return err
	}
	to, err := os.OpenFile(l.path+".compact", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, info.Mode().Perm())
	if err != nil {
		return err
	}
	err = errors.Join(l.copy(to, from, info), to.Close())
	if err == nil {
		return os.Rename(to.Name(), l.path)
	}
	return errors.Join(err, os.Remove(to.Name()))
}

func (l *logFile) tooLong(info fs.FileInfo) bool { return l.limit != 0 && info.Size() > l.limit }

// removed tells whether a file that is open has no name any more.
func removed(info fs.FileInfo) bool {
	system, ok := info.Sys().(*syscall.Stat_t)
	return ok && system.Nlink == 0
}

func (l *logFile) copy(to, from *os.File, info fs.FileInfo) error {
	if !l.tooLong(info) {
		_, err := io.Copy(to, io.NewSectionReader(from, 0, info.Size()))
		return errors.Join(err, to.Sync())
	}
	half, size := l.limit/2, info.Size()
	if _, err := io.Copy(to, io.NewSectionReader(from, 0, half)); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(to, "\n[perennial: %d bytes left out]\n", size-2*half); err != nil {
		return err
	}
	_, err := io.Copy(to, io.NewSectionReader(from, size-half, half))
	return errors.Join(err, to.Sync())
}
