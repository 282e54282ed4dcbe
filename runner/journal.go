package runner

import (
	"io"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"

	"github.com/perennial-ml/perennial/metrics"
	"github.com/perennial-ml/perennial/runner/rundir"
	"github.com/perennial-ml/perennial/runner/stream"
	"github.com/perennial-ml/perennial/trial"
)

// PrintJournal prints the journal of the run in directory, in the form of package
// stream, and returns when the run is over and its end is printed. It waits for a
// run that has not begun. It is for a container beside the run's own, which share
// the directory and nothing else. TERM, which both get where a pod is deleted, does
// not end it: the command may have something to report still.
func PrintJournal(directory string, to io.Writer) error {
	signal.Ignore(unix.SIGTERM)
	run, err := runIn(directory)
	if err != nil {
		return err
	}
	seen, err := awaitBegun(run)
	if err != nil {
		return err
	}
	spec, err := run.ReadSpec()
	if err != nil && seen.Exit != nil {
		return nil // it never knew whose run it is
	}
	if err != nil {
		return err
	}
	p := newPrinter(run, spec.Key, to)
	for !concluded(seen) {
		if err := p.step(); err != nil {
			return err
		}
		time.Sleep(untilBeat(beat))
		if seen, err = run.Reconcile(spec.Key); err != nil {
			return err
		}
	}
	return p.last(seen.Exit)
}

// concluded tells whether a run is over and nothing more can come into its journal.
func concluded(seen rundir.Observation) bool {
	return seen.Over() && (!seen.Ending() || seen.Process != nil && seen.Process.Elsewhere())
}

func awaitBegun(run rundir.Run) (rundir.Observation, error) {
	for {
		seen, err := run.Observe()
		if err != nil || seen.Begun() {
			return seen, err
		}
		time.Sleep(beat)
	}
}

// printer prints a run's journal as it grows.
type printer struct {
	run     rundir.Run
	key     trial.Key
	to      io.Writer
	cursor  int64
	count   int64
	message string // where the termination message is kept meanwhile; empty: nowhere
	teller  *stream.Teller
	exit    chan *rundir.ExitRecord
	done    chan struct{}
}

func newPrinter(run rundir.Run, key trial.Key, to io.Writer) *printer {
	return &printer{run: run, key: key, to: to, teller: stream.NewTeller(key),
		exit: make(chan *rundir.ExitRecord, 1), done: make(chan struct{})}
}

// begin prints until finish is called.
func (p *printer) begin() {
	// Of a runner that is killed before the first metric it tells that there was one.
	_ = p.tell()
	go func() {
		defer close(p.done)
		for {
			select {
			case exit := <-p.exit:
				_ = p.last(exit)
				return
			case <-time.After(untilBeat(beat)):
				_ = p.step() // a log that takes nothing now takes it later, or never
			}
		}
	}()
}

// finish returns when everything is printed, or nobody takes it.
func (p *printer) finish(exit *rundir.ExitRecord) {
	p.exit <- exit
	select {
	case <-p.done:
	case <-time.After(showPatience):
	}
}

// step prints what is new.
func (p *printer) step() error {
	for {
		records, after, err := metrics.ReadJournal(p.run.Path(rundir.JournalFile), p.cursor)
		if err != nil || len(records) == 0 {
			return err
		}
		p.teller.Add(records)
		_ = p.tell() // the last one tells what is wrong
		if err := p.print(records); err != nil {
			return err
		}
		p.cursor, p.count = after, records[len(records)-1].Number
	}
}

// tell keeps the termination message, where there is one.
func (p *printer) tell() error {
	if p.message == "" {
		return nil
	}
	return p.teller.Write(p.message, nil)
}

func (p *printer) print(records []metrics.Record) error {
	var text []byte
	var err error
	for _, record := range records {
		if text, err = stream.AppendRecord(text, p.key, record); err != nil {
			return err
		}
	}
	_, err = p.to.Write(text)
	return err
}

// last prints what is left and the end.
func (p *printer) last(exit *rundir.ExitRecord) error {
	if err := p.step(); err != nil {
		return err
	}
	text, err := stream.AppendEnd(nil, p.key, stream.End{Records: p.count, Exit: exit})
	if err == nil {
		_, err = p.to.Write(text)
	}
	return err
}

// tellerOf knows the whole journal of a run.
func tellerOf(run rundir.Run, key trial.Key) (*stream.Teller, error) {
	teller := stream.NewTeller(key)
	for cursor := int64(0); ; {
		records, after, err := metrics.ReadJournal(run.Path(rundir.JournalFile), cursor)
		if err != nil || len(records) == 0 {
			return teller, err
		}
		teller.Add(records)
		cursor = after
	}
}
