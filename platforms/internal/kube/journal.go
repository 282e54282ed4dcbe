package kube

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/perennial-ml/perennial/metrics"
	"github.com/perennial-ml/perennial/runner/rundir"
	"github.com/perennial-ml/perennial/runner/stream"
	"github.com/perennial-ml/perennial/trial"
)

const (
	// again is how soon it is looked again at what only the watches tell.
	again = 250 * time.Millisecond
	// followFor is how long a log is followed before it is opened anew: some
	// kubelets fall silent for good where a log was rotated.
	followFor = 5 * time.Minute
)

// journal follows what a replica of a run reports. It is a cache: all of it can be read anew.
type journal struct {
	key  trial.Key
	stop context.CancelFunc
	done chan struct{} // closed when nobody follows it any more
	// caughtUp is closed once it has what was reported before anybody followed.
	caughtUp chan struct{}
	news     chan struct{} // has one where the pod is not as it was

	mutex    sync.Mutex
	reader   *stream.Reader
	from     int64 // the number before the first of records
	records  []metrics.Record
	complete bool // nothing more will come
	fault    error
	lost     int64 // how many records are gone for good
}

func newJournal(key trial.Key, after int64) *journal {
	return &journal{key: key, done: make(chan struct{}), caughtUp: make(chan struct{}), news: make(chan struct{}, 1), reader: stream.NewReader(key, after), from: after}
}

func (j *journal) feed(data []byte) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	j.records = append(j.records, j.reader.Feed(data)...)
	j.complete = j.reader.Whole()
}

// read copies a log into the journal, to the log's end or until nothing more can come: a
// log that is followed ends a second or more after what it is of.
func (j *journal) read(log io.Reader) error {
	j.mutex.Lock()
	j.reader.Reconnect()
	j.mutex.Unlock()
	buffer := make([]byte, 32<<10)
	for {
		n, err := log.Read(buffer)
		j.feed(buffer[:n])
		if err == io.EOF || j.isComplete() {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// finish takes what the termination message tells beyond the log, which has ended,
// and gives up what is nowhere.
func (j *journal) finish(message *stream.Message) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	if message != nil {
		j.records = append(j.records, j.reader.Told(*message)...)
	}
	for {
		from, to, missing := j.reader.Gap()
		if !missing {
			break
		}
		j.lost += to - from + 1
		j.records = append(j.records, j.reader.Skip()...)
	}
	j.complete = true
}

// gaveUp is how many records are gone for good.
func (j *journal) gaveUp() int64 {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	return j.lost
}

func (j *journal) failed(err error) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	j.fault = err
}

// after returns the records that follow a number and forgets those before it.
func (j *journal) after(number int64) []metrics.Record {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	for len(j.records) > 0 && j.records[0].Number <= number {
		j.from, j.records = j.records[0].Number, j.records[1:]
	}
	return slices.Clone(j.records)
}

// remembers tells whether all that follows a number is still here.
func (j *journal) remembers(number int64) bool {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	return number >= j.from
}

// awaitComplete waits until nothing more can come.
func (j *journal) awaitComplete(ctx context.Context) {
	select {
	case <-j.done:
	case <-ctx.Done():
	}
}

func (j *journal) isComplete() bool {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	return j.complete
}

// follow reads a pod's journal until nothing more can come. pod returns what is
// known of the pod by now, nil where it is gone. A log that breaks off, as all do where a
// node is away, is opened less and less often.
func (j *journal) follow(ctx context.Context, c *cluster, namespace string, pod func() *podState) {
	caughtUp := sync.OnceFunc(func() { close(j.caughtUp) })
	defer caughtUp()
	pace := patience
	for read, interval := false, again; ctx.Err() == nil; j.pause(ctx, interval) {
		interval = again
		seen := pod()
		if seen == nil || !seen.journal.began() {
			caughtUp()
		}
		if seen == nil || seen.gone || !seen.journal.began() && seen.over() {
			j.finish(messageOf(seen))
			return
		}
		if !seen.journal.began() || read && !seen.told() {
			continue
		}
		// A log that is followed does not tell where what was there before ends.
		opened := time.Now()
		err := j.open(ctx, c, namespace, seen.name, j.isCaughtUp() && !seen.journal.over())
		j.failed(err)
		if time.Since(opened) > steady {
			pace = patience
		}
		interval = pace.Step()
		caughtUp()
		if j.isComplete() {
			return
		}
		// The journal's container may end before the trial's: then the trial's message
		// has what was reported since.
		read = seen.journal.over() && (err == nil || isGone(err))
		if read && seen.told() {
			j.finish(messageOf(seen))
			return
		}
	}
}

// told tells whether a pod has said all that it will say of its run.
func (p *podState) told() bool { return p.trial.over() || p.over() }

// isGone tells whether a log is nowhere any more. A node that its cluster does not
// know may come back.
func isGone(err error) bool {
	var status apierrors.APIStatus
	return apierrors.IsNotFound(err) && errors.As(err, &status) && (status.Status().Details == nil || status.Status().Details.Kind != "nodes")
}

func (j *journal) isCaughtUp() bool {
	select {
	case <-j.caughtUp:
		return true
	default:
		return false
	}
}

// awaitCaughtUp waits until it has what was there before anybody followed.
func (j *journal) awaitCaughtUp(ctx context.Context) {
	select {
	case <-j.caughtUp:
	case <-ctx.Done():
	}
}

func (j *journal) open(ctx context.Context, c *cluster, namespace, pod string, follow bool) error {
	limited, cancel := context.WithTimeout(ctx, followFor)
	defer cancel()
	log, err := c.logs(limited, namespace, pod, journalName, follow)
	if err != nil {
		return err
	}
	defer log.Close()
	return j.read(log)
}

// exit is how the command ended, by the journal's own word; nil where it has not come to
// that.
func (j *journal) exit() *rundir.ExitRecord {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	if end := j.reader.End(); j.complete && end != nil {
		return end.Exit
	}
	return nil
}

func messageOf(pod *podState) *stream.Message {
	if pod == nil {
		return nil
	}
	return pod.message
}

// look has what became of the pod seen at once.
func (j *journal) look() {
	select {
	case j.news <- struct{}{}:
	default:
	}
}

func pause(ctx context.Context, interval time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(interval):
	}
}

// pause ends sooner where there is news.
func (j *journal) pause(ctx context.Context, interval time.Duration) {
	select {
	case <-ctx.Done():
	case <-j.news:
	case <-time.After(interval):
	}
}
