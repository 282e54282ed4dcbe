package runner

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/perennial-ml/perennial/runner/rundir"
)

const retryInterval = time.Second // between two tries to write on a full disk

// log is what the runner says for people. It is safe for concurrent use. That a
// line cannot be written is nobody's concern.
type log struct {
	file atomic.Pointer[os.File]
	said sync.Map
}

func openLog(run rundir.Run) *log {
	l := &log{}
	l.file.Store(os.Stderr)
	l.open(run)
	return l
}

// open has what is said from now on go to the run's log, where it can be had.
func (l *log) open(run rundir.Run) {
	file, err := os.OpenFile(run.Path(rundir.RunnerLog), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err == nil {
		l.file.Store(file)
	}
}

func (l *log) say(format string, arguments ...any) {
	line := fmt.Sprintf(format, arguments...)
	fmt.Fprintf(l.file.Load(), "%s %s\n", time.Now().UTC().Format(time.RFC3339), line)
}

// sayOnce is say for what would be said again and again: one line for each format.
func (l *log) sayOnce(format string, arguments ...any) {
	if _, before := l.said.LoadOrStore(format, true); !before {
		l.say(format, arguments...)
	}
}

// until tries an action until it succeeds, and says so when it does not at once.
func (l *log) until(what string, action func() error) {
	err := action()
	if err == nil {
		return
	}
	l.say("cannot %s, trying again: %v", what, err)
	for err != nil {
		time.Sleep(retryInterval)
		err = action()
	}
	l.say("could %s at last", what)
}
