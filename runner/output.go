package runner

import (
	"bytes"
	"io"
	"sync"
	"time"
)

const (
	// longestShown is what of a line is shown at once that does not end.
	longestShown = 64 << 10
	// showPatience is how long the end of a run waits for a log that takes nothing.
	showPatience = 10 * time.Second
)

// lines is a log that several write whole lines to.
type lines struct {
	mutex sync.Mutex
	to    io.Writer
}

func (l *lines) Write(text []byte) (int, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.to.Write(text)
}

// output passes on what the command prints, line by line, while its files stay what
// metrics are read from.
type output struct {
	stdout, stderr io.Writer
	sources        []*shown
	log            *log
	ended, done    chan struct{}
}

func newOutput(stdout, stderr io.Writer, log *log) *output {
	return &output{stdout: stdout, stderr: stderr, log: log, ended: make(chan struct{}), done: make(chan struct{})}
}

// begin passes on what stands in the files and what will.
func (o *output) begin(files *logFiles) {
	if o == nil {
		return
	}
	o.sources = []*shown{newShown(&files.stdout, o.stdout), newShown(&files.stderr, o.stderr)}
	go o.follow()
}

func (o *output) follow() {
	defer close(o.done)
	for last := false; !last; {
		select {
		case <-o.ended:
			last = true
		case <-time.After(untilBeat(beat)):
		}
		o.pass(last)
	}
}

// pass passes on what is new of each file.
func (o *output) pass(last bool) {
	for _, source := range o.sources {
		if err := source.pass(last); err != nil {
			o.log.sayOnce("cannot show what the command prints: %v", err)
		}
	}
}

// finish returns when everything was passed on, or nobody takes it.
func (o *output) finish() {
	if o == nil {
		return
	}
	close(o.ended)
	select {
	case <-o.done:
	case <-time.After(showPatience):
		o.log.say("the log takes nothing more: what the command printed last is in its files")
	}
}

// shown is one file and how far it was passed on.
type shown struct {
	file   *logFile
	tail   tail
	to     io.Writer
	buffer []byte
	line   []byte // without its end
}

func newShown(file *logFile, to io.Writer) *shown {
	file.shown.Store(0)
	return &shown{file: file, tail: tail{path: file.path, file: file.file, pinned: true}, to: to, buffer: make([]byte, longestShown)}
}

// pass passes on what is new, at last also a line without its end.
func (s *shown) pass(last bool) error {
	for {
		data, _, err := s.tail.next(s.buffer)
		if err != nil || len(data) == 0 && !(last && len(s.line) > 0) {
			return err
		}
		s.line = append(s.line, data...)
		whole := bytes.LastIndexByte(s.line, '\n') + 1
		if whole == 0 && (len(data) == 0 || len(s.line) > longestShown) {
			s.line = append(s.line, '\n')
			whole = len(s.line)
		}
		_, err = s.to.Write(s.line[:whole])
		s.line = append(s.line[:0], s.line[whole:]...)
		s.file.shown.Store(s.tail.needed())
		if err != nil {
			return err
		}
	}
}
