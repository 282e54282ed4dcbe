package runner

import (
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/perennial-ml/perennial/metrics"
	"github.com/perennial-ml/perennial/runner/rundir"
)

const (
	shortestLook = 5 * time.Millisecond // between two looks at a busy trial's files, beat at an idle one's
	syncInterval = 5 * time.Second      // what a power cut may take of a trial that it kills anyway
	readBytes    = 256 << 10
	// catchUpPatience is how long the end of what a command left waits for the
	// journal to have all that the command itself reported.
	catchUpPatience = 2 * time.Second
	// restoreDelay is far more than it takes to remove a directory, most times.
	restoreDelay = 500 * time.Millisecond
	// waitingBytes is how much is read ahead of a journal that a full disk
	// stopped: so that a trial that only prints does not keep the disk full.
	waitingBytes = 4 << 20
)

// parser is one of the ways in which metrics come.
type parser interface {
	Feed(data []byte) []metrics.Record
	End() []metrics.Record
	Pending() int
}

// source is one file that metrics come from.
type source struct {
	tail   tail
	parser parser
	fresh  func() parser
}

func newSource(path string, fresh func() parser) *source {
	return &source{tail: tail{path: path}, parser: fresh(), fresh: fresh}
}

// unparsed is where that begins in the file which no parser has understood yet.
func (s *source) unparsed() int64 { return s.tail.offset - int64(s.parser.Pending()) }

// collector brings the trial's metrics into the journal and keeps its logs within
// their limit, beside whoever watches over the processes: nothing that goes wrong
// or slow here touches them.
type collector struct {
	run     rundir.Run
	log     *log
	journal *metrics.Journal
	frames  *source
	stdout  *source
	logs    *logFiles
	buffer  []byte
	waiting []metrics.Record // read, and not in the journal yet
	synced  time.Time
	dirty   bool
	asked   chan chan<- caughtUp
	ended   chan struct{} // closed when the trial writes no more
	done    chan struct{} // closed when everything is in the journal
	final   atomic.Bool   // a FINAL was read
	missed  time.Time     // when the journal was first seen to be removed
	removed atomic.Bool   // the trial removed the journal: all else is to be brought back
}

func newCollector(run rundir.Run, spec rundir.Spec, log *log) (*collector, error) {
	journal, err := metrics.OpenJournal(run.Path(rundir.JournalFile))
	if err != nil {
		return nil, err
	}
	logs, err := newLogFiles(run, spec, log)
	if err != nil {
		return nil, errors.Join(err, journal.Close())
	}
	stdout := newSource(run.Path(rundir.Stdout), func() parser { return &metrics.Lines{} })
	stdout.tail.file, stdout.tail.pinned = logs.stdout.file, true
	frames := filepath.Join(spec.Directories.System, rundir.MetricsFile)
	return &collector{
		run: run, log: log, journal: journal, buffer: make([]byte, readBytes),
		frames: newSource(frames, func() parser { return &metrics.Frames{} }),
		stdout: stdout,
		logs:   logs,
		asked:  make(chan chan<- caughtUp), ended: make(chan struct{}), done: make(chan struct{}),
	}, nil
}

// finish returns when every metric is durable and the logs are within their
// limit. It tells whether there was a FINAL. The trial must write no more.
func (c *collector) finish() (final bool) {
	close(c.ended)
	<-c.done
	return c.final.Load()
}

// collect works until finish is called and everything is safe.
func (c *collector) collect() {
	defer close(c.done)
	limited := make(chan struct{})
	go func() {
		defer close(limited)
		c.logs.keep(c.ended)
	}()
	c.readAll()
	c.drain()
	<-limited
	c.logs.compact()
}

// readAll reads until finish is called and nothing is left to read.
func (c *collector) readAll() {
	look := shortestLook
	for {
		select {
		case answer := <-c.asked:
			answer <- c.caughtUp()
		default:
		}
		// Asked before reading: what was written before is read, unless too much
		// waited for the journal.
		ended := c.hasEnded() && len(c.waiting) == 0
		read := c.step()
		if ended && read == 0 && len(c.waiting) == 0 {
			break
		}
		look = min(look*3/2, beat)
		if read > 0 {
			look = shortestLook
		}
		if read < readBytes {
			c.rest(look)
		}
	}
}

func (c *collector) hasEnded() bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}

func (c *collector) rest(look time.Duration) {
	ended := c.ended
	if c.hasEnded() && len(c.waiting) > 0 {
		ended = nil // the journal refused: the end is no reason for haste
	}
	timer := time.NewTimer(min(look, untilBeat(beat)))
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
	case answer := <-c.asked:
		answer <- c.caughtUp()
	}
}

// caughtUp is an answer to catchUp.
type caughtUp struct {
	unread rundir.Unread
	final  bool
	err    error
}

var errBehind = errors.New("what it reported is not in the journal yet")

// catchUp returns when what the trial wrote before is durable in the journal, and
// where the rest begins. It gives up where that takes long.
func (c *collector) catchUp() (unread rundir.Unread, final bool, err error) {
	answer := make(chan caughtUp, 1)
	timer := time.NewTimer(catchUpPatience)
	defer timer.Stop()
	select {
	case c.asked <- answer:
	case <-timer.C:
		return unread, false, errBehind
	}
	select {
	case now := <-answer:
		return now.unread, now.final, now.err
	case <-timer.C:
		return unread, false, errBehind
	}
}

func (c *collector) caughtUp() caughtUp {
	for deadline := time.Now().Add(catchUpPatience); c.step() > 0; {
		if time.Now().After(deadline) {
			return caughtUp{err: errBehind}
		}
	}
	if len(c.waiting) > 0 {
		return caughtUp{err: errBehind}
	}
	err := c.journal.Sync()
	c.dirty, c.synced = false, time.Now()
	return caughtUp{final: c.final.Load(), err: err, unread: rundir.Unread{
		Stdout: c.stdout.unparsed(), Frames: c.frames.unparsed(), Next: c.journal.Next(),
		Step: c.stdout.parser.(*metrics.Lines).Step,
	}}
}

// step moves on by one piece of each file, and returns the larger piece's size.
func (c *collector) step() (size int) {
	if c.waitingSize() < waitingBytes {
		size = max(c.read(c.frames), c.read(c.stdout))
	}
	if err := c.restoreSoon(); err != nil {
		c.log.sayOnce("cannot bring back the journal, which was removed: %v", err)
	}
	if err := c.append(); err != nil {
		c.log.sayOnce("cannot write the journal, keeping the place: %v", err)
	}
	c.sync()
	c.logs.stdout.read.Store(c.stdout.tail.needed())
	return size
}

// read reads one piece of a file. A fault of a parser costs that piece.
func (c *collector) read(s *source) (size int) {
	defer func() {
		if fault := recover(); fault != nil {
			c.log.say("cannot understand %s before byte %d: %v", s.tail.path, s.tail.offset, fault)
			s.parser = s.fresh()
		}
	}()
	data, anew, err := s.tail.next(c.buffer)
	if err != nil {
		c.log.sayOnce("cannot read %s: %v", s.tail.path, err)
	}
	size = len(data)
	if anew {
		c.took(s.parser.End())
	}
	c.took(s.parser.Feed(data))
	return size
}

func (c *collector) took(records []metrics.Record) {
	now := time.Now()
	for _, record := range records {
		record.Time = now
		c.waiting = append(c.waiting, record)
		if record.Kind == metrics.Final {
			c.final.Store(true)
		}
	}
}

func (c *collector) waitingSize() (size int) {
	for _, record := range c.waiting {
		size += len(record.Value)
	}
	return size
}

// restoreSoon is restore, a moment later: who removes a directory fails where
// something appears in it meanwhile.
func (c *collector) restoreSoon() error {
	if !c.journal.Removed() {
		c.missed = time.Time{}
		return nil
	}
	if c.missed.IsZero() {
		c.missed = time.Now()
	}
	if time.Since(c.missed) < restoreDelay {
		return nil
	}
	// Whoever finds a directory without it takes the run for one that only starts.
	if _, err := os.Stat(c.run.Path(rundir.ProcessFile)); err != nil {
		c.removed.Store(true)
		return nil
	}
	return c.restore()
}

// restore brings back a journal that the trial removed, where others look for it.
func (c *collector) restore() error {
	if !c.journal.Removed() {
		return nil
	}
	if err := c.run.MakeDirectory(); err != nil {
		return err
	}
	err := c.journal.Restore(c.run.Path(rundir.JournalFile))
	if err == nil {
		c.removed.Store(true)
	}
	return err
}

func (c *collector) append() error {
	if len(c.waiting) == 0 {
		return nil
	}
	rundir.CrashPoint("runner.read-before-journal-append")
	if err := c.journal.Append(c.waiting); err != nil {
		return err
	}
	c.waiting, c.dirty = nil, true
	return nil
}

func (c *collector) sync() {
	if !c.dirty || time.Since(c.synced) < syncInterval {
		return
	}
	if err := c.journal.Sync(); err != nil {
		c.log.sayOnce("cannot make the journal durable: %v", err)
	}
	c.dirty, c.synced = false, time.Now()
}

// drain takes in what has no end of its own, and does not give up before it is
// safe.
func (c *collector) drain() {
	for _, s := range []*source{c.frames, c.stdout} {
		c.end(s)
	}
	c.log.until("bring back the journal", c.restore)
	c.log.until("write the journal", c.append)
	c.log.until("make the journal durable", c.journal.Sync)
	if err := c.journal.Close(); err != nil {
		c.log.say("cannot close the journal: %v", err)
	}
}

func (c *collector) end(s *source) {
	defer func() {
		if fault := recover(); fault != nil {
			c.log.say("cannot understand the end of %s: %v", s.tail.path, fault)
		}
	}()
	c.took(s.parser.End())
}
