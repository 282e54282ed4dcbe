package record

import (
	"context"
	"time"
)

// blob is an argument that is no text.
type blob []byte

// LargestParcel is the most that a record takes of one file.
const LargestParcel = 64 << 20

// KeepParcel keeps, beside an experiment, what a file of its state directory holds, by
// its path in there, so that a host on another machine has it too. A record in a file
// keeps none: whoever can read it has the directory.
func (s *Store) KeepParcel(ctx context.Context, experiment, path string, content []byte) error {
	if !s.Shared() {
		return nil
	}
	return s.update(ctx, func(t *transaction) error {
		if _, err := t.experiment(experiment); err != nil {
			return err
		}
		return t.putParcel(experiment, path, content)
	})
}

// unclaimed is how long parcels are kept of which no experiment was made.
const unclaimed = time.Hour

// Deposit is KeepParcel for an experiment that nobody has accepted yet. Parcels of which
// no experiment was made go with a later deposit.
func (s *Store) Deposit(ctx context.Context, experiment, path string, content []byte) error {
	return s.update(ctx, func(t *transaction) error {
		_, err := t.exec("DELETE FROM parcels WHERE kept BETWEEN 1 AND ? AND NOT EXISTS (SELECT 1 FROM experiments WHERE id = parcels.experiment)",
			t.now.Add(-unclaimed).UnixNano())
		if err != nil {
			return err
		}
		return t.putParcel(experiment, path, content)
	})
}

func (t *transaction) putParcel(experiment, path string, content []byte) error {
	_, err := t.exec(`INSERT INTO parcels (experiment, path, content, kept) VALUES (?, ?, ?, ?)
		ON CONFLICT (experiment, path) DO UPDATE SET content = excluded.content, kept = excluded.kept`,
		experiment, path, blob(content), t.now.UnixNano())
	return err
}

// Parcels are the paths of what is kept beside an experiment.
func (s *Store) Parcels(ctx context.Context, experiment string) (paths []string, err error) {
	if !s.Shared() {
		return nil, nil
	}
	err = s.query(ctx).each(func(row scanner) error {
		var path string
		err := row.Scan(&path)
		paths = append(paths, path)
		return err
	}, "SELECT path FROM parcels WHERE experiment = ? ORDER BY path", experiment)
	return paths, classify(err)
}

// Parcel is what was kept under a path, or ErrNotFound.
func (s *Store) Parcel(ctx context.Context, experiment, path string) (content []byte, err error) {
	err = s.query(ctx).one(into(&content), "SELECT content FROM parcels WHERE experiment = ? AND path = ?", experiment, path)
	return content, found(err, "%s of experiment %s", path, experiment)
}
