package mailbox

import (
	"errors"
	"io/fs"
	"os"

	"github.com/perennial-ml/perennial/runner/rundir"
)

// Taker is an environment that takes runs, as it sees the mailbox.
type Taker struct {
	Mailbox
	Name string
}

// Begin makes room, also where whoever expected the environment has not yet.
func (t Taker) Begin() error { return t.Expect(t.Name) }

// Claim tells whether this job serves the environment, and no other of the same name, now
// or before.
func (t Taker) Claim(name string) (bool, error) {
	if exists(t.path(over, t.Name)) {
		return false, nil
	}
	if err := t.Begin(); err != nil {
		return false, err
	}
	path := t.path(environments, t.Name, job)
	err := rundir.CreateFile(path, []byte(name), 0o644)
	if !errors.Is(err, fs.ErrExist) {
		return err == nil, err
	}
	first, err := os.ReadFile(path)
	return string(first) == name, err
}

// Leases are the runs that an earlier process of the environment's had.
func (t Taker) Leases() ([]string, error) { return names(t.path(environments, t.Name, leases)) }

// Read returns what is on a ticket that the environment has.
func (t Taker) Read(name string) (Ticket, error) {
	return read(t.path(environments, t.Name, leases, name))
}

// Take takes the first run of the queue that nobody else takes; empty: there is none.
func (t Taker) Take() (name string, err error) {
	rundir.Refresh(t.path(queue))
	all, err := names(t.path(queue))
	for _, name := range all {
		rundir.CrashPoint("mailbox.before-lease")
		err := os.Rename(t.path(queue, name), t.path(environments, t.Name, leases, name))
		if err == nil {
			rundir.CrashPoint("mailbox.leased-before-start")
			return name, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		if exists(t.path(environments, t.Name, leases, name)) { // the answer to a rename was lost
			return name, nil
		}
	}
	return "", err
}

// Serves notes that the environment has taken a run.
func (t Taker) Serves() error {
	return rundir.WriteFile(t.path(environments, t.Name, served), nil, 0o644)
}

// Finish gives a run's ticket up: by its exit record, or without one for ever.
func (t Taker) Finish(name string, recorded bool) error {
	if recorded {
		return os.Remove(t.path(environments, t.Name, leases, name))
	}
	return os.Rename(t.path(environments, t.Name, leases, name), t.path(environments, t.Name, died, name))
}

// Leave says that the environment takes no more; Stay takes that back.
func (t Taker) Leave() error {
	return rundir.WriteFile(t.path(environments, t.Name, left), nil, 0o644)
}

// Stay takes back a Leave.
func (t Taker) Stay() error { return os.Remove(t.path(environments, t.Name, left)) }

// Ended tells whether every environment shall end.
func (t Taker) Ended() bool { return exists(t.path(end)) || !exists(t.path(environments, t.Name)) }
