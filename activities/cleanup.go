package activities

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/perennial-ml/perennial/activities/poller"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/record"
)

// workspace is a platforms.Workspace as it is on record.
type workspace struct {
	platforms.Workspace
	State workspaceState `json:"state,omitempty"`
}

type workspaceState string

// The states of workspaces by which the record finds those that are to be removed:
// record.Leftover knows them too.
const (
	lasting  workspaceState = ""         // its platform keeps nothing that could be removed
	prepared workspaceState = "prepared" // it is to be removed when its experiment is over
	removing workspaceState = "removing" // that has begun, and perhaps been interrupted
	removed  workspaceState = "removed"
)

// there tells whether trials can run from it.
func (w workspace) there() bool { return w.State == lasting || w.State == prepared }

// workspaceOn is what the record says of the code of an experiment on one of its
// platforms, nil where nobody has prepared it.
func workspaceOn(row record.Experiment, index int) (*workspace, error) {
	if index >= len(row.Workspaces) || row.Workspaces[index] == nil {
		return nil, nil
	}
	known := &workspace{}
	return known, json.Unmarshal(row.Workspaces[index], known)
}

func note(ctx context.Context, store *record.Store, id string, index int, known workspace) error {
	text, err := json.Marshal(known)
	if err != nil {
		return err
	}
	return store.SetWorkspace(ctx, id, index, text)
}

// preparing keeps a clean-up of an experiment from removing what is prepared anew
// meanwhile, in this process. Any number prepare at once: one platform that takes long
// keeps no other waiting.
var preparing sync.Map // experiment → *sync.RWMutex

func preparingOf(experiment string) *sync.RWMutex {
	lock, _ := preparing.LoadOrStore(experiment, &sync.RWMutex{})
	return lock.(*sync.RWMutex)
}

// cleanUpTimeout bounds a clean-up on one platform: it may have as many machines as an
// upload, and each removes a tree.
const cleanUpTimeout = 10 * time.Minute

// CleanUp has the platforms remove what they keep for an experiment that is over, once
// all of it is on record; until then, and while any of them prepares, it does nothing.
// What is under way is on record before it begins: after a crash it is done again, and
// an experiment that is resumed is prepared anew.
func CleanUp(ctx context.Context, store *record.Store, sections *poller.Sections, id string) error {
	err := cleanUp(ctx, store, sections, id)
	if errors.Is(err, errPreparing) {
		return nil // the next sweep comes again
	}
	return err
}

// errPreparing says that a platform prepares an experiment's code just then.
var errPreparing = errors.New("its code is still being prepared")

func cleanUp(ctx context.Context, store *record.Store, sections *poller.Sections, id string) error {
	lock := preparingOf(id)
	if !lock.TryLock() {
		return errPreparing
	}
	defer lock.Unlock()
	row, err := store.Experiment(ctx, id)
	if err != nil || row.Status.Active() {
		return err
	}
	pending, err := store.Pending(ctx, id)
	if err != nil || pending {
		return err
	}
	var faults []error
	for index := range row.Workspaces {
		faults = append(faults, remove(ctx, store, sections, row, index))
	}
	return errors.Join(faults...)
}

// remove has one platform of an experiment remove what is left there.
func remove(ctx context.Context, store *record.Store, sections *poller.Sections, row record.Experiment, index int) error {
	known, err := workspaceOn(row, index)
	if err != nil || known == nil || known.State == removed || known.State == lasting {
		return err
	}
	section, err := sections.Of(ctx, row.ID, index)
	if err != nil {
		return err
	}
	cleaning, can := poller.Optional[platforms.WithCleanup](section.Platform)
	if !can {
		return nil
	}
	known.State = removing
	if err := note(ctx, store, row.ID, index, *known); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, cleanUpTimeout)
	defer cancel()
	err = poller.Survive(sections.Logger(), "clean up", func() error { return cleaning.CleanUp(limited) })
	if err != nil {
		return err
	}
	known.State = removed
	return note(ctx, store, row.ID, index, *known)
}
