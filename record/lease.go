package record

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"time"
)

// A lease that nobody renews for leaseLasts is free. Its holder renews it that often.
const (
	leaseLasts = 6 * time.Second
	leaseRenew = 1500 * time.Millisecond
)

// HeldError says that another host works on the record.
type HeldError struct{ Holder string }

// Error names that host.
func (e *HeldError) Error() string {
	return fmt.Sprintf("the host on %s works on this record: end it there with \"starter serve --stop\", "+
		"or wait until it is gone; its place is free %v after its last word", e.Holder, leaseLasts)
}

// lease is what a store holds of the record.
type lease struct {
	name   string
	holder string // where, in words, and unlike any other
	as     Leader
	fence  int64
	end    func()
}

// Leader is who wants to work on a record.
type Leader struct {
	Directory string // the id of its state directory, whose lock it has
	Machine   string // the name of where that is: a directory may be a copy of another's
	// Lost is told once when another has taken its place; it may be nil.
	Lost func(error)
	// Waiting, if not nil, is told each time that a host is found to live whose place
	// it waits for; else Lead returns.
	Waiting func(*HeldError)
	// Present, if not nil, is asked each time that others are told of this worker: while
	// it leads, and while it waits.
	Present func() Presence
}

// place is where nobody else of the record can be while this process is there.
func (l Leader) place() string { return l.Directory + " on " + l.Machine }

func (l Leader) holder() string {
	return fmt.Sprintf("%s, process %d, %s", l.Machine, os.Getpid(), rand.Text()[:8])
}

// Lead makes this process the one that works on the record: from then on it alone
// writes, until it closes the store or another takes its place. A host that died keeps
// its place for some seconds, unless it had the same state directory of the same machine,
// whose lock has proved it dead: Lead waits for that, and returns a HeldError where the other one lives
// and nobody is told of Waiting. A file needs none of this: it is in one state directory.
func (s *Store) Lead(ctx context.Context, as Leader) error {
	if s.wire == nil {
		return nil
	}
	wanted := &lease{name: "record", holder: as.holder(), as: as}
	for {
		other, err := s.take(ctx, wanted, as)
		if err == nil && other == nil {
			return s.keep(wanted, as.Lost)
		}
		if err == nil {
			err = s.outwait(ctx, wanted.name, *other)
		}
		if err := as.goesOn(ctx, err); err != nil {
			s.withdraw(as)
			return err
		}
	}
}

// goesOn tells whether to go on after an error: who waits for a place outlives a record
// that is away for a while.
func (l Leader) goesOn(ctx context.Context, err error) error {
	var living *HeldError
	switch {
	case l.Waiting == nil || err == nil:
		return err
	case errors.As(err, &living):
		l.Waiting(living)
		return nil
	case errors.Is(err, ErrUnreachable):
		return pause(ctx, leaseRenew)
	}
	return err
}

// Led tells whether this process holds the place of whoever works on the record, which
// proves every other host out of it.
func (s *Store) Led() bool { return s.lease != nil }

// Seat is the state directory under whose id what only one host can do is queued: that of
// whoever led first, so that who takes a place, or has the record moved to it, finds what
// was begun there; the given one where nobody did.
func (s *Store) Seat(ctx context.Context, directory string) (string, error) {
	var seat string
	err := s.query(ctx).one(into(&seat), "SELECT seat FROM identity")
	return cmp.Or(seat, directory), classify(err)
}

// sit has the record keep the seat that another one had.
func (s *Store) sit(ctx context.Context, seat string) error {
	return s.update(ctx, func(t *transaction) error {
		_, err := t.exec("UPDATE identity SET seat = ?", seat)
		return err
	})
}

// held is a lease that somebody else has.
type held struct {
	holder    string
	directory string
	until     time.Time
	free      bool
}

// take takes a lease, or returns who has it.
func (s *Store) take(ctx context.Context, wanted *lease, as Leader) (*held, error) {
	return change(ctx, s, func(t *transaction) (*held, error) {
		var other held
		var fence int64
		err := t.one(into(&other.holder, &other.directory, &other.until, &fence, &other.free),
			"SELECT holder, directory, until, fence, until < clock_timestamp() FROM leases WHERE name = ?", wanted.name)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return nil, err
		}
		if err == nil && !other.free && other.directory != as.place() {
			if as.Waiting != nil {
				return &other, t.appear(as, other.holder)
			}
			return &other, nil
		}
		wanted.fence = fence + 1
		_, err = t.exec(`INSERT INTO leases (name, holder, directory, fence, until)
			VALUES (?, ?, ?, ?, clock_timestamp() + ?::interval)
			ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, directory = excluded.directory,
				fence = excluded.fence, until = excluded.until`, wanted.name, wanted.holder, as.place(), wanted.fence, leaseLasts.String())
		if err == nil {
			_, err = t.exec("UPDATE identity SET seat = ? WHERE seat = ''", as.Directory)
		}
		return nil, errors.Join(err, t.appear(as, ""))
	})
}

// outwait waits until a lease has run out or been given back; a HeldError where it was
// renewed instead.
func (s *Store) outwait(ctx context.Context, name string, other held) error {
	for {
		var now held
		err := s.query(ctx).one(into(&now.holder, &now.until, &now.free),
			"SELECT holder, until, until < clock_timestamp() FROM leases WHERE name = ?", name)
		switch {
		case err != nil:
			return classify(err)
		case now.free:
			return nil
		case now.holder != other.holder, now.until.After(other.until):
			return &HeldError{now.holder}
		}
		if err := pause(ctx, leaseRenew/5); err != nil {
			return err
		}
	}
}

// pause waits that long, unless the context ends first.
func pause(ctx context.Context, long time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(long):
		return nil
	}
}

// keep has every transaction from now on require the lease, and renews it.
func (s *Store) keep(taken *lease, lost func(error)) error {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	taken.end = func() { cancel(); <-ended }
	fence := fmt.Sprintf("; SELECT require_lease('%s', %d)", taken.name, taken.fence)
	if err := s.update(ctx, func(*transaction) error { s.writer.fence = fence; return nil }); err != nil {
		cancel()
		return err
	}
	s.lease = taken
	go func() {
		defer close(ended)
		if err := s.renew(ctx, taken); errors.Is(err, ErrFenced) && lost != nil {
			lost(err)
		}
	}()
	return nil
}

// renew returns once the lease is lost or given up. That the record is away for a while
// is no reason: only who has taken the place has it.
func (s *Store) renew(ctx context.Context, taken *lease) error {
	for {
		if err := pause(ctx, leaseRenew); err != nil {
			return err
		}
		err := s.update(ctx, func(t *transaction) error {
			_, err := t.exec("UPDATE leases SET until = clock_timestamp() + ?::interval WHERE name = ?", leaseLasts.String(), taken.name)
			return errors.Join(err, t.appear(taken.as, ""))
		})
		if errors.Is(err, ErrFenced) {
			return err
		}
	}
}

// giveBack frees what the store holds, so that nobody waits for it.
func (s *Store) giveBack() {
	if s.lease == nil {
		return
	}
	s.lease.end()
	ctx, cancel := context.WithTimeout(context.Background(), leaseRenew)
	defer cancel()
	_ = s.update(ctx, func(t *transaction) error {
		_, err := t.exec("UPDATE leases SET until = clock_timestamp() WHERE name = ?", s.lease.name)
		return errors.Join(err, t.leave(s.lease.as))
	})
}
