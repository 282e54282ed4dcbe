package gpu

import (
	"fmt"
	"regexp"
	"strconv"
	"time"
)

// Slot is one of the places for a trial on a GPU.
type Slot struct {
	UUID   string `json:"uuid"`
	Number int    `json:"slot"`  // from 0
	Index  int    `json:"index"` // of the GPU, for people
	Vendor string `json:"vendor"`
}

// Identity names one process of one boot for ever.
type Identity struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // clock ticks after boot
}

// Lease is a slot that a trial has: the content of a file of the ledger, which
// every user of the host can read.
type Lease struct {
	Format int `json:"format"`
	Slot
	Share      int       `json:"share"` // trials on the GPU that the holder puts up with, itself included
	Experiment string    `json:"experiment"`
	Trial      string    `json:"trial"`
	Sequence   int       `json:"sequence"`
	Attempt    int       `json:"attempt"`
	Since      time.Time `json:"since"`
	User       string    `json:"user"` // of whoever runs the trial

	// Where the run's own user finds it, and what others can still see of it when
	// its runner is dead.
	Directory    string     `json:"directory"`
	Claim        string     `json:"claim,omitempty"`
	BootID       string     `json:"bootId"`
	PIDNamespace string     `json:"pidNamespace"`
	Runner       Identity   `json:"runner"`
	Child        Identity   `json:"child,omitzero"`
	Tree         []Identity `json:"tree,omitempty"` // outside Child's session

	// What an observer adds; it is not in the file.
	UID  int  `json:"uid"`  // the file's owner
	Held bool `json:"held"` // the kernel says that its runner lives
}

// Holder names who has the lease, for people.
func (l Lease) Holder() string {
	if l.Experiment == "" {
		return "a process that says nothing of itself in the GPU ledger"
	}
	if l.Runner.PID == 0 { // proposed, and not taken yet
		return fmt.Sprintf("trial %d (%s) of experiment %s, which is starting", l.Sequence, l.Trial, l.Experiment)
	}
	return fmt.Sprintf("trial %d (%s) of experiment %s (pid %d, user %s)", l.Sequence, l.Trial, l.Experiment, l.Runner.PID, l.User)
}

// odd is what a file's name shall not hold.
var odd = regexp.MustCompile(`[^A-Za-z0-9-]`)

// Files of the ledger: a lock for every slot, beside it a lease for every user
// who had it last, and one guard.
const (
	guardFile   = "guard"
	leaseSuffix = ".lease"
)

func (s Slot) lockFile() string {
	return odd.ReplaceAllString(s.UUID, "_") + "." + strconv.Itoa(s.Number)
}

func (s Slot) leaseFile(uid int) string {
	return s.lockFile() + "." + strconv.Itoa(uid) + leaseSuffix
}

var (
	lockName  = regexp.MustCompile(`^([A-Za-z0-9_-]+)\.([0-9]{1,4})$`)
	leaseName = regexp.MustCompile(`^([A-Za-z0-9_-]+)\.([0-9]{1,4})\.([0-9]{1,10})\.lease$`)
)
