package record

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
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

// lease is what a store holds of the record: a share of its experiments.
type lease struct {
	share  string
	holder string // where, in words, and unlike any other
	as     Leader
	fence  int64
	end    func()
}

// name is the lease's in the database.
func (l *lease) name() string { return leaseOf(l.share) }

func leaseOf(share string) string {
	if share == "" {
		return firstLease
	}
	return firstLease + "/" + share
}

// shareOf is the share whose lease it is.
func shareOf(lease string) string { return strings.TrimPrefix(lease[len(firstLease):], "/") }

// firstLease is the lease of the first share, whose name is empty.
const firstLease = "record"

// Leader is who wants to work on a record.
type Leader struct {
	Directory string // the id of its state directory, whose lock it has
	Machine   string // the name of where that is: a directory may be a copy of another's
	// Wants is which share it leads.
	Wants Wish
	// Lost is told once when another has taken its place; it may be nil.
	Lost func(error)
	// Waiting, if not nil, is told each time that a host is found to live whose place
	// it waits for; else Lead returns.
	Waiting func(*HeldError)
	// Present, if not nil, is asked each time that others are told of this worker: while
	// it leads, and while it waits.
	Present func() Presence
}

// Wish is which share of a record's experiments somebody wants to lead.
type Wish struct {
	// Own asks for a share beside those of others: the one that was led from there before,
	// else one that has nothing to do and nobody leads, else a new one.
	Own bool
	// Share is the name of the share where it is not Own.
	Share string
	// Meanwhile leads it only until it is Wanted by whose own it is.
	Meanwhile bool
}

// place is where nobody else of the record can be while this process is there.
func (l Leader) place() string { return l.Directory + " on " + l.Machine }

func (l Leader) holder() string {
	return fmt.Sprintf("%s, process %d, %s", l.Machine, os.Getpid(), rand.Text()[:8])
}

// Lead makes this process the one that works on a share of the record's experiments: what
// the store tells of what is to be done is of that share, what is accepted belongs to it, and
// it writes until it closes the store or another takes its place. A host that died keeps
// its place for some seconds, unless it had the same state directory of the same machine,
// whose lock has proved it dead: Lead waits for that, and returns a HeldError where the other one lives
// and nobody is told of Waiting. A file needs none of this: it is in one state directory.
func (s *Store) Lead(ctx context.Context, as Leader) error {
	if s.wire == nil {
		return nil
	}
	wanted := &lease{holder: as.holder(), as: as}
	for {
		other, err := s.take(ctx, wanted)
		if err == nil && other == nil {
			return s.keep(wanted, as.Lost)
		}
		if err == nil {
			err = s.outwait(ctx, wanted.name(), *other)
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

// Led tells whether this process holds the place of whoever works on its share, which
// proves every other host out of it.
func (s *Store) Led() bool { return s.lease != nil }

// Leader is who leads here, as Lead was told.
func (s *Store) Leader() Leader { return s.lease.as }

// Share is the share that this process leads, empty for the first one, and where it leads none.
func (s *Store) Share() string {
	if s.lease == nil {
		return ""
	}
	return s.lease.share
}

// Seat is the name under which what only one host can do is queued. For the first share it is
// the id of the state directory of whoever led first, so that who takes a place, or has the record
// moved to it, finds what was begun there, and the given one where nobody did; another
// share's is the share's own.
func (s *Store) Seat(ctx context.Context, share, directory string) (string, error) {
	if share != "" {
		return share, nil
	}
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

// take takes the lease of the share that is wanted, or returns who has it.
func (s *Store) take(ctx context.Context, wanted *lease) (*held, error) {
	return change(ctx, s, func(t *transaction) (_ *held, err error) {
		as := wanted.as
		if wanted.share, err = t.wished(as); err != nil {
			return nil, err
		}
		var other held
		err = t.one(into(&other.holder, &other.directory, &other.until, &wanted.fence, &other.free),
			"SELECT holder, directory, until, fence, until < clock_timestamp() FROM leases WHERE name = ?", wanted.name())
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return nil, err
		}
		if err == nil && !other.free && other.directory != as.place() {
			return &other, t.waitFor(other, wanted)
		}
		wanted.fence++
		return nil, t.sitDown(wanted)
	})
}

// sitDown makes a lease that of whoever wants it.
func (t *transaction) sitDown(wanted *lease) error {
	as := wanted.as
	_, err := t.exec(`INSERT INTO leases (name, holder, directory, fence, until)
		VALUES (?, ?, ?, ?, clock_timestamp() + ?::interval)
		ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, directory = excluded.directory,
			fence = excluded.fence, until = excluded.until`, wanted.name(), wanted.holder, as.place(), wanted.fence, leaseLasts.String())
	if err == nil && !as.Wants.Meanwhile {
		_, err = t.exec("UPDATE leases SET home = ?, seen = clock_timestamp(), wanted = NULL WHERE name = ?", as.place(), wanted.name())
	}
	if err == nil {
		_, err = t.exec("UPDATE identity SET seat = ? WHERE seat = ''", as.Directory)
	}
	return errors.Join(err, t.appear(as, ""))
}

// waitFor has the others know who waits, and for what.
func (t *transaction) waitFor(other held, wanted *lease) error {
	as := wanted.as
	if as.Waiting == nil {
		return nil
	}
	var err error
	if as.Wants.Own {
		_, err = t.exec("UPDATE leases SET wanted = clock_timestamp() WHERE name = ?", wanted.name())
	}
	return errors.Join(err, t.appear(as, other.holder))
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
	fence := fmt.Sprintf("; SELECT require_lease('%s', %d)", taken.name(), taken.fence)
	if err := s.update(ctx, func(*transaction) error { s.writer.fence, s.writer.share = fence, taken.share; return nil }); err != nil {
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
			_, err := t.exec(`UPDATE leases SET until = clock_timestamp() + ?::interval,
				seen = CASE WHEN directory = home THEN clock_timestamp() ELSE seen END WHERE name = ?`, leaseLasts.String(), taken.name())
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
		_, err := t.exec("UPDATE leases SET until = clock_timestamp(), holder = '' WHERE name = ?", s.lease.name())
		return errors.Join(err, t.leave(s.lease.as))
	})
}
