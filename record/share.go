package record

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"time"
)

// todo is whether a share, once before each of its experiments and once before their
// attempts, has anything to do.
const todo = `(EXISTS (SELECT 1 FROM experiments JOIN configurations ON experiment = id WHERE share = ? AND (status IN ('RUNNING', 'STOPPING', 'REMOVING')
		OR workspaces LIKE '%"state":"prepared"%' OR workspaces LIKE '%"state":"removing"%'))
	OR EXISTS (SELECT 1 FROM attempts JOIN experiments ON experiment = id WHERE share = ? AND (outcome = '' OR drained = 0)))`

// mine is the condition that an experiment is one of those that the store is to tell of: of the
// share that this process leads, else any.
func (s *Store) mine() string {
	if s.lease == nil {
		return "TRUE"
	}
	return "share = '" + s.lease.share + "'" // named by wished
}

// ofMine is the same condition on rows of experiments.
func (s *Store) ofMine() string {
	if s.lease == nil {
		return "TRUE"
	}
	return "experiment IN (SELECT id FROM experiments WHERE " + s.mine() + ")"
}

// ShareOf returns the share that an experiment belongs to, or ErrNotFound.
func (s *Store) ShareOf(ctx context.Context, experiment string) (share string, err error) {
	err = s.query(ctx).one(into(&share), "SELECT share FROM experiments WHERE id = ?", experiment)
	return share, found(err, "experiment %s", experiment)
}

// wished names the share that somebody wants to lead.
func (t *transaction) wished(as Leader) (share string, err error) {
	if !as.Wants.Own {
		return as.Wants.Share, nil
	}
	var name string
	err = t.one(into(&name), "SELECT name FROM leases WHERE home = ? ORDER BY name LIMIT 1", as.place())
	if errors.Is(err, sql.ErrNoRows) {
		return t.unused()
	}
	if err != nil {
		return "", err
	}
	return shareOf(name), nil
}

// justLeft is for how long a share is led after its own worker has left it, though there is nothing
// to do: what was submitted to that one may not be on record yet.
const justLeft = time.Hour

// shareState is how the lease of a share is.
type shareState struct {
	name  string
	until time.Time
	free  bool // it has run out, and nobody has just come back for it
	left  bool // by its own worker, within justLeft
	given bool // back, by whoever had it
}

// busy tells whether a share has anything to do.
func (q querier) busy(share string) (busy bool, err error) {
	err = q.one(into(&busy), "SELECT "+todo, share, share)
	return busy, classify(err)
}

// unused names a share that somebody has given back and that has nothing to do, a new one
// where there is none.
func (t *transaction) unused() (share string, err error) {
	all, err := t.shares()
	for _, share := range all {
		// One that fell silent may live, where the record was away; its experiments come first.
		if !share.free || !share.given && time.Since(share.until) < forgotten {
			continue
		}
		if busy, err := t.busy(share.name); err != nil || !busy {
			return share.name, err
		}
	}
	if len(all) == 0 {
		return "", err
	}
	return fmt.Sprint(len(all) + 1), err
}

// shares are all that there are.
func (q querier) shares() (all []shareState, err error) {
	err = q.each(func(row scanner) error {
		var share shareState
		err := row.Scan(&share.name, &share.until, &share.free, &share.left, &share.given)
		share.name = shareOf(share.name)
		all = append(all, share)
		return err
	}, `SELECT name, until, until < clock_timestamp() AND coalesce(wanted < clock_timestamp() - ?::interval, TRUE),
		directory = home AND until > clock_timestamp() - ?::interval, holder = '' FROM leases ORDER BY name`, leaseLasts.String(), justLeft.String())
	return all, classify(err)
}

// Vigil is what somebody has seen who looks again and again at the leases of a record. When one
// comes back that was away for a while all of them have run out, and those who live renew theirs
// within moments: only a lease that stood still before somebody's eyes is that of one who is gone.
type Vigil struct {
	looked time.Time
	stood  map[string]stand
}

// stand is since when a lease has been seen to be as it is.
type stand struct{ until, since time.Time }

// vigilBreaks is how long nobody may look. In that time no lease runs out of one who lives.
const vigilBreaks = leaseLasts - leaseRenew

// left are the shares that somebody gave back, or whose holders are gone.
func (v *Vigil) left(now time.Time, all []shareState) (left []shareState) {
	if now.Sub(v.looked) > vigilBreaks {
		v.stood = nil
	}
	stood := map[string]stand{}
	for _, share := range all {
		seen, known := v.stood[share.name]
		if !known || !seen.until.Equal(share.until) {
			seen = stand{share.until, now}
		}
		stood[share.name] = seen
		if share.free && (share.given || now.Sub(seen.since) >= leaseLasts) {
			left = append(left, share)
		}
	}
	v.looked, v.stood = now, stood
	return left
}

// solitary refuses a record that others work on, whichever of its experiments: a HeldError.
func (s *Store) solitary(ctx context.Context) error {
	if !s.Shared() {
		return nil
	}
	var holder string
	err := s.query(ctx).one(into(&holder), "SELECT holder FROM leases WHERE name <> ? AND until > clock_timestamp() LIMIT 1", firstLease)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err == nil {
		err = &HeldError{holder}
	}
	return classify(err)
}

// Divided tells whether experiments are under way that somebody who leads the first share alone
// would not drive.
func (s *Store) Divided(ctx context.Context) (divided bool, err error) {
	err = s.query(ctx).one(into(&divided), "SELECT EXISTS (SELECT 1 FROM experiments WHERE "+inOthers+")")
	return divided, classify(err)
}

// homes are the leases of all shares, each with the place of its own worker.
func (s *Store) homes(ctx context.Context) (map[string]string, error) {
	homes := map[string]string{}
	if !s.Shared() {
		return homes, nil
	}
	err := s.query(ctx).each(func(row scanner) error {
		var name, home string
		err := row.Scan(&name, &home)
		homes[name] = home
		return err
	}, "SELECT name, home FROM leases")
	return homes, classify(err)
}

// keepShares has their own workers find the shares that came with experiments; a file has one
// share.
func (s *Store) keepShares(ctx context.Context, homes map[string]string) error {
	return s.update(ctx, func(t *transaction) (err error) {
		if !s.Shared() {
			_, err = t.exec("UPDATE experiments SET share = ''")
			return err
		}
		for name, home := range homes {
			_, failed := t.exec(`INSERT INTO leases (name, holder, directory, fence, until, seen, home)
				VALUES (?, '', '', 0, clock_timestamp(), clock_timestamp(), ?) ON CONFLICT (name) DO UPDATE SET home = excluded.home`, name, home)
			err = errors.Join(err, failed)
		}
		return err
	})
}

// Orphaned returns the shares that nobody leads although there is something to do, or their own
// workers left them within the last hour.
func (s *Store) Orphaned(ctx context.Context, vigil *Vigil) (orphaned []string, err error) {
	all, err := s.query(ctx).shares()
	if err != nil {
		return nil, err
	}
	for _, share := range vigil.left(time.Now(), all) {
		busy, err := s.query(ctx).busy(share.name)
		if err != nil {
			return nil, err
		}
		if busy || share.left {
			orphaned = append(orphaned, share.name)
		}
	}
	return orphaned, err
}

// Wanted tells whether whose own share it is that this process leads has come back and
// waits for it.
func (s *Store) Wanted(ctx context.Context) (wanted bool, err error) {
	err = s.query(ctx).one(into(&wanted), "SELECT coalesce(wanted > clock_timestamp() - ?::interval, false) FROM leases WHERE name = ?",
		leaseLasts.String(), leaseOf(s.Share()))
	return wanted, classify(err)
}

// deserted is for how long a share's own worker is not heard of until it is gone for good.
const deserted = 24 * time.Hour

// Deserted tells whether a share's own worker is this one, or was not heard of for a day: then
// whoever leads the share may take it for its own.
func (s *Store) Deserted(ctx context.Context, share string) (is bool, err error) {
	err = s.query(ctx).one(into(&is), "SELECT home = ? OR coalesce(seen < clock_timestamp() - ?::interval, TRUE) FROM leases WHERE name = ?",
		s.lease.as.place(), deserted.String(), leaseOf(share))
	return is, classify(err)
}

// Load is what there is to do.
type Load struct {
	Experiments int            // unfinished ones
	Runs        map[string]int // under way, by platform
}

// Loads returns what there is to do in each share that has anything.
func (s *Store) Loads(ctx context.Context) (map[string]Load, error) {
	loads := map[string]Load{}
	err := s.query(ctx).each(func(row scanner) error {
		var share string
		var load Load
		err := row.Scan(&share, &load.Experiments)
		loads[share] = load
		return err
	}, "SELECT share, COUNT(*) FROM experiments WHERE status IN (?, ?) GROUP BY share", string(Running), string(Stopping))
	if err != nil {
		return nil, classify(err)
	}
	err = s.query(ctx).each(func(row scanner) error {
		var share, platform string
		var count int
		err := row.Scan(&share, &platform, &count)
		load := loads[share]
		load.Runs = maps.Collect(maps.All(load.Runs))
		load.Runs[platform] = count
		loads[share] = load
		return err
	}, "SELECT share, platform, COUNT(*) FROM attempts JOIN experiments ON id = experiment WHERE outcome = '' OR drained = 0 GROUP BY share, platform")
	return loads, classify(err)
}
