package record

import (
	"context"
	"encoding/json"
	"time"
)

// forgotten is how long nothing was heard of a worker that is no longer told of.
const forgotten = 24 * time.Hour

// Presence is what a worker tells of itself to all who share the record.
type Presence struct {
	Identity  string    `json:"identity"` // of its Temporal clients
	Directory string    `json:"directory"`
	Machine   string    `json:"machine"`
	Process   int       `json:"process"`
	Version   string    `json:"version"`
	Platforms []string  `json:"platforms,omitempty"` // it works for; none means all
	Keys      []string  `json:"keys,omitempty"`      // ids of those it can open sealed parcels with, the one it seals with last
	Shares    []string  `json:"shares,omitempty"`    // whose experiments it drives, its own first
	Since     time.Time `json:"since"`
}

// Worker is who works on a record or waits to, when it was last heard of.
type Worker struct {
	Presence
	Waits  bool      // another one has the place that it waits for
	Heard  time.Time // by this machine's clock
	Silent bool      // nothing was heard of it for as long as a lease lasts
}

// Workers are all that were heard of within a day: who works comes first, then who waits,
// each the longest first. A record in a file tells of none.
func (s *Store) Workers(ctx context.Context) (all []Worker, err error) {
	if !s.Shared() {
		return nil, nil
	}
	now := time.Now()
	err = s.query(ctx).each(func(row scanner) error {
		var w Worker
		var about string
		var quiet float64
		if err := row.Scan(&about, &w.Waits, &quiet); err != nil {
			return err
		}
		silence := time.Duration(quiet * float64(time.Second))
		w.Heard, w.Silent = now.Add(-silence), silence > leaseLasts
		err := json.Unmarshal([]byte(about), &w.Presence)
		all = append(all, w)
		return err
	}, `SELECT about, waits_for <> '', EXTRACT(EPOCH FROM clock_timestamp() - heard)::float8 FROM workers
		WHERE heard > clock_timestamp() - ?::interval ORDER BY heard < clock_timestamp() - ?::interval, waits_for <> '', about::json ->> 'since'`,
		forgotten.String(), leaseLasts.String())
	return all, classify(err)
}

// appear has a worker heard of; one whose record moves, or that is refused, is no worker.
func (t *transaction) appear(as Leader, waitsFor string) error {
	if as.Present == nil {
		return nil
	}
	about, err := json.Marshal(as.Present())
	if err != nil {
		return err
	}
	_, err = t.exec(`INSERT INTO workers (place, about, waits_for, heard) VALUES (?, ?, ?, clock_timestamp())
		ON CONFLICT (place) DO UPDATE SET about = excluded.about, waits_for = excluded.waits_for, heard = excluded.heard`,
		as.place(), string(about), waitsFor)
	return err
}

// Appear tells the others anew of who leads, before it does so by itself.
func (s *Store) Appear(ctx context.Context) error {
	if s.lease == nil {
		return nil
	}
	return s.update(ctx, func(t *transaction) error { return t.appear(s.lease.as, "") })
}

// leave has those who are gone no longer told of: this one, and who was silent for a day.
func (t *transaction) leave(as Leader) error {
	if as.Present == nil {
		return nil
	}
	_, err := t.exec("DELETE FROM workers WHERE place = ? OR heard < clock_timestamp() - ?::interval", as.place(), forgotten.String())
	return err
}

// withdraw is leave for who has nothing to give back.
func (s *Store) withdraw(as Leader) {
	if as.Present == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaseRenew)
	defer cancel()
	_ = s.update(ctx, func(t *transaction) error { return t.leave(as) })
}
