package jobs

import (
	"slices"

	"github.com/perennial-ml/perennial/runner/mailbox"
)

// board is a mailbox.Board with questions about it.
type board struct{ mailbox.Board }

// Places of a ticket that are no index of Board.Environments.
const (
	nowhere   = -1
	queued    = -2
	withdrawn = -3
)

// place is where a ticket is: the environment that has it, or one of the above.
func (b board) place(name string) int {
	if slices.Contains(b.Queued, name) {
		return queued
	}
	for i, one := range b.Environments {
		if slices.Contains(one.Leases, name) || slices.Contains(one.Died, name) {
			return i
		}
	}
	if b.Withdrawn[name] {
		return withdrawn
	}
	return nowhere
}

// died tells whether the runner of a run is known to have died.
func (b board) died(place int, name string) bool {
	return slices.Contains(b.Environments[place].Died, name)
}

// free is how many environments will take a run from the queue.
func (b board) free() (number int) {
	for _, one := range b.Environments {
		if one.Started && takes(one) {
			number++
		}
	}
	return number
}

// takes tells whether an environment will take a run.
func takes(one mailbox.Environment) bool {
	return !one.Over && !one.Left && len(one.Leases) == 0
}

// unanswered is an environment of which it is not known whether its job was accepted;
// empty: there is none.
func (b board) unanswered() string {
	for _, one := range b.Environments {
		if !one.Over && !one.Started {
			return one.Name
		}
	}
	return ""
}

// answered notes that an environment's job was accepted.
func (b *board) answered(name string) {
	for i := range b.Environments {
		if b.Environments[i].Name == name {
			b.Environments[i].Started = true
		}
	}
}
