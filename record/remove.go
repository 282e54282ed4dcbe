package record

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/perennial-ml/perennial/trial"
)

// condemn notes that an experiment is to be removed.
func (t *transaction) condemn(e *experimentRow, command trial.Command) error {
	var removal trial.Removal
	if len(command.Value) > 0 && json.Unmarshal(command.Value, &removal) != nil {
		return rejected("%s takes an object, not %s", command.Name, command.Value)
	}
	if e.Status.Active() {
		return rejected("it is %s: stop it first", e.Status)
	}
	e.Status, e.Paused, e.Reason = Removing, false, trial.Reason{}
	return nil
}

// Removing returns how the experiments are to be removed that are, by their ids.
func (s *Store) Removing(ctx context.Context) (map[string]trial.Removal, error) {
	ids, err := s.query(ctx).ids("SELECT id FROM experiments WHERE "+s.mine()+" AND status IN (?, ?)", Removing, Removing)
	removals := map[string]trial.Removal{}
	for _, id := range ids {
		removal, wrong := s.removal(ctx, id)
		err = errors.Join(err, wrong)
		removals[id] = removal
	}
	return removals, err
}

// removal is what the last word on an experiment's removal said.
func (s *Store) removal(ctx context.Context, experiment string) (trial.Removal, error) {
	var command trial.Command
	err := s.query(ctx).one(into(encoded{&command}), `SELECT data FROM events WHERE experiment = ? AND command IS NOT NULL
		AND data ->> 'name' = ? ORDER BY number DESC LIMIT 1`, experiment, trial.Remove)
	var removal trial.Removal
	if err == nil && len(command.Value) > 0 {
		err = json.Unmarshal(command.Value, &removal)
	}
	return removal, classify(err)
}

// portion is of how many trials the rows of a table go in one commit: others want to
// write, too. A trial may have thousands of metrics.
type portion struct {
	table  string
	trials int
}

var portions = []portion{{"metrics", 20}, {"decisions", 1000}, {"attempts", 1000}, {"trials", 1000}}

// Remove removes all that is on record of an experiment that is Removing, and gives the
// room back to the disk where it is much. What is gone already is no error, and what was
// interrupted goes on.
func (s *Store) Remove(ctx context.Context, experiment string) error {
	for _, rows := range portions {
		if err := s.removeRows(ctx, experiment, rows); err != nil {
			return err
		}
	}
	if _, err := s.removing(ctx, experiment, func(t *transaction) (int64, error) { return t.removeSelf(experiment) }); err != nil {
		return err
	}
	return s.shrink(ctx)
}

func (s *Store) removeRows(ctx context.Context, experiment string, rows portion) error {
	query := fmt.Sprintf("DELETE FROM %[1]s WHERE experiment = ? AND sequence < (SELECT min(sequence) FROM %[1]s WHERE experiment = ?) + ?", rows.table)
	for {
		removed, err := s.removing(ctx, experiment, func(t *transaction) (int64, error) {
			return t.exec(query, experiment, experiment, rows.trials)
		})
		if err != nil || removed == 0 {
			return err
		}
	}
}

// removing removes something of an experiment unless that is not to go.
func (s *Store) removing(ctx context.Context, experiment string, remove func(*transaction) (int64, error)) (int64, error) {
	return change(ctx, s, func(t *transaction) (int64, error) {
		e, err := t.experiment(experiment)
		switch {
		case errors.Is(err, ErrNotFound):
			return 0, nil
		case err != nil:
			return 0, err
		case e.Status != Removing:
			return 0, rejected("experiment %s is %s, and not to be removed", experiment, e.Status)
		}
		return remove(t)
	})
}

// removeSelf removes what says that an experiment is to be removed, and how.
func (t *transaction) removeSelf(experiment string) (int64, error) {
	t.wakes[experiment] |= wakeRows
	tables := []string{"events", "configurations"}
	if t.shared {
		tables = append(tables, "parcels")
	}
	for _, table := range tables {
		if _, err := t.exec("DELETE FROM "+table+" WHERE experiment = ?", experiment); err != nil {
			return 0, err
		}
	}
	return t.exec("DELETE FROM experiments WHERE id = ?", experiment)
}

// A record is written anew where that gives back this much, and half of its size.
const shrinkBytes = 16 << 20

// shrink gives room back to the disk. Whoever writes waits meanwhile: about a second for
// each 100 MB that stay.
// PostgreSQL gives room to what comes next, by itself.
func (s *Store) shrink(ctx context.Context) error {
	if InPostgres(s.location) {
		return nil
	}
	var free, all, page int64
	err := s.query(ctx).one(into(&free, &all, &page),
		"SELECT f.freelist_count, p.page_count, s.page_size FROM pragma_freelist_count f, pragma_page_count p, pragma_page_size s")
	if err != nil || free*page < shrinkBytes || free < all/2 {
		return classify(err)
	}
	return classify(s.writer.alone(ctx, "VACUUM"))
}
