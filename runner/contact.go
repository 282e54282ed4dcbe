package runner

import (
	"time"

	"github.com/perennial-ml/perennial/runner/rundir"
)

// contact notices that nobody asks about an attempt any more. It compares what
// the file's time was, never that time with this machine's, so that a clock that
// is set ends nobody.
type contact struct {
	run   rundir.Run
	limit time.Duration // 0: nobody need ask
	last  time.Time     // of the file
	since time.Time     // when it was first seen so, by the monotonic clock
}

func newContact(run rundir.Run, limit time.Duration) contact {
	return contact{run: run, limit: limit, since: time.Now()}
}

// lost tells whether nobody has asked for as long as the limit. A file that cannot
// be read is no sign of anything.
func (c *contact) lost() bool {
	if c.limit <= 0 {
		return false
	}
	seen, err := c.run.LastContact()
	if err != nil || seen.IsZero() || !seen.Equal(c.last) {
		c.last, c.since = seen, time.Now()
		return false
	}
	return time.Since(c.since) >= c.limit
}
