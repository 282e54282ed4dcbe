// Package mailbox is a directory through which environments, jobs that live long, take
// runs: for the runner that serves one, and for whoever puts runs in and looks at them
// from another machine. Both see it by a shared, perhaps slow file system.
//
// A run is a ticket, a small file. It is in one place at a time and moves by rename, of
// which one alone can succeed:
//
//	queue/TICKET                     nobody has it
//	withdrawn/TICKET                 nobody will have it
//	environments/NAME/leases/TICKET  NAME has it: runs it, or is about to
//	environments/NAME/died/TICKET    NAME's runner of it died and left no exit record
//	over/NAME/…                      the same of an environment that is no more
//
// A ticket that is gone belongs to a run that has its exit record.
package mailbox

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/perennial-ml/perennial/runner/rundir"
)

// Names in a mailbox and in an environment's directory.
const (
	queue        = "queue"
	withdrawn    = "withdrawn"
	environments = "environments"
	over         = "over"
	leases       = "leases"
	died         = "died"
	left         = "left"    // a file: the environment takes no more
	served       = "served"  // a file: the environment has taken a run
	started      = "started" // a file: the service has accepted the environment's job
	job          = "job"     // a file: which of the jobs of the environment's name serves it
	end          = "end"     // a file in the mailbox: every environment ends
)

// Mailbox is where it lies on this machine.
type Mailbox struct {
	Directory string // absolute
}

// Ticket is a run as environments find it.
type Ticket struct {
	Directory string `json:"directory"` // of the run, where it runs
	Runner    string `json:"runner"`    // the runner's path there
	GPUs      *int   `json:"gpus,omitempty"`
}

// ServeCommand is the command line of an environment, whose runner ends when it had
// nothing to do for so many seconds. Where a service may make two jobs of one name each
// start has a job of its own to name, of which one alone serves.
func ServeCommand(runner, mailbox, name, seconds string, job ...string) []string {
	return append([]string{runner, "serve", mailbox, name, seconds}, job...)
}

func (m Mailbox) path(names ...string) string {
	return filepath.Join(append([]string{m.Directory}, names...)...)
}

// Offer puts a run into the queue. Whoever calls it knows that it is nowhere.
func (m Mailbox) Offer(name string, ticket Ticket) error {
	content, err := json.Marshal(ticket)
	if err == nil {
		err = errors.Join(rundir.MakeDirectory(m.path(queue)), rundir.MakeDirectory(m.path(withdrawn)), rundir.MakeDirectory(m.path(environments)), rundir.MakeDirectory(m.path(over)))
	}
	if err == nil {
		err = rundir.CreateFile(m.path(queue, name), content, 0o644)
	}
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// Read returns a ticket from the queue.
func (m Mailbox) Read(name string) (Ticket, error) { return read(m.path(queue, name)) }

func read(path string) (ticket Ticket, err error) {
	content, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(content, &ticket)
	}
	return ticket, err
}

// Withdraw takes a run out of the queue, for ever, if it is there.
func (m Mailbox) Withdraw(name string) error {
	err := os.Rename(m.path(queue, name), m.path(withdrawn, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Board is what is where.
type Board struct {
	Queued       []string // in their order
	Withdrawn    map[string]bool
	Environments []Environment // those that are no more, too
}

// Environment is one as it is seen from outside.
type Environment struct {
	Name    string
	Over    bool // it is known to be no more
	Left    bool // it takes no more runs
	Started bool // its job was accepted
	Served  bool // it has taken a run
	Leases  []string
	Died    []string
}

// Look reads what is where. Tickets are looked for where they come from before they are
// looked for where they go to, so that none is missed on its way.
func (m Mailbox) Look() (board Board, err error) {
	if board.Queued, err = names(m.path(queue)); err != nil {
		return board, err
	}
	gone, err := names(m.path(withdrawn))
	board.Withdrawn = map[string]bool{}
	for _, name := range gone {
		board.Withdrawn[name] = true
	}
	for _, place := range []string{environments, over} {
		all, also := names(m.path(place))
		err = errors.Join(err, also)
		for _, name := range all {
			one, also := m.environment(place, name)
			err = errors.Join(err, also)
			board.Environments = append(board.Environments, one)
		}
	}
	return board, err
}

func (m Mailbox) environment(place, name string) (one Environment, err error) {
	one.Name, one.Over = name, place == over
	var faults [2]error
	one.Leases, faults[0] = names(m.path(place, name, leases))
	one.Died, faults[1] = names(m.path(place, name, died))
	one.Left, one.Started, one.Served = exists(m.path(place, name, left)), exists(m.path(place, name, started)), exists(m.path(place, name, served))
	return one, errors.Join(faults[:]...)
}

// names lists a directory, but for what is being written.
func names(path string) (found []string, err error) {
	entries, err := os.ReadDir(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), ".") {
			found = append(found, entry.Name())
		}
	}
	return found, err
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Expect makes room for an environment, before its job is started.
func (m Mailbox) Expect(name string) error {
	return errors.Join(rundir.MakeDirectory(m.path(environments, name, leases)), rundir.MakeDirectory(m.path(environments, name, died)))
}

// Started notes that an environment's job was accepted.
func (m Mailbox) Started(name string) error {
	return rundir.WriteFile(m.path(environments, name, started), nil, 0o644)
}

// Bury notes that an environment is no more. What it had and had not begun is in the
// queue again; begun tells that of a ticket.
func (m Mailbox) Bury(one Environment, begun func(ticket string) bool) error {
	for _, name := range one.Leases {
		if begun(name) {
			continue
		}
		if err := os.Rename(m.path(environments, one.Name, leases, name), m.path(queue, name)); err != nil {
			return err
		}
	}
	return os.Rename(m.path(environments, one.Name), m.path(over, one.Name))
}

// End has every environment take no more runs and end; Reopen takes that back.
func (m Mailbox) End() error {
	if !exists(m.Directory) {
		return nil
	}
	return rundir.WriteFile(m.path(end), nil, 0o644)
}

// Reopen takes back an End.
func (m Mailbox) Reopen() error {
	err := os.Remove(m.path(end))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Refresh has a network file system look at the mailbox anew, of which it may show what
// was there a minute ago: it asks its server when we write.
func (m Mailbox) Refresh(environmentsToo ...string) {
	rundir.Refresh(m.path(queue))
	for _, name := range environmentsToo {
		rundir.Refresh(m.path(environments, name, leases))
	}
}
