package codec

import (
	"crypto/cipher"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// Ring is the keys by their id. The newest on the ledger encrypts, all decrypt.
// A ring notices when another process has added a key. It is safe for
// concurrent use.
type Ring struct {
	files Files

	mu     sync.Mutex
	keys   map[string]cipher.AEAD
	newest string
	pinned bool      // newest was chosen
	ledger time.Time // when the ledger that was read was written
	looked time.Time
}

// MissingError says that keys are gone which the Temporal database may need.
type MissingError struct {
	Files Files
	IDs   []string
}

// Error says what to do about it.
func (e *MissingError) Error() string {
	database := filepath.Dir(e.Files.Ledger)
	return fmt.Sprintf("the Temporal database in %s is encrypted, and its key %s is missing from %s: "+
		"put that file back from a backup; if it is lost for good, run \"mv '%s' '%s.lost'\" and then the command again: "+
		"experiments continue from the record, only the pages of finished workflows are lost",
		database, strings.Join(e.IDs, ", "), e.Files.Keys, database, database)
}

// Open reads the ring, and makes the first key of a database that needs none yet: where
// keys are there without, such as those of another machine, the newest of them is it.
// A key that the ledger names, or without a ledger the database itself, and that
// is not there is a MissingError; it is never made anew.
func Open(files Files) (*Ring, error) {
	ring, err := Read(files)
	if err != nil || ring.newest != "" {
		return ring, err
	}
	if err := ring.restoreLedger(); err != nil {
		return nil, err
	}
	if ring, err = Read(files); err != nil || ring.newest != "" {
		return ring, err
	}
	if _, err = Rotate(files); err != nil {
		return nil, err
	}
	return Read(files)
}

// restoreLedger writes a lost ledger again, from what the database says of the keys
// it needs. One that an older starter wrote, without keys, needs none.
func (r *Ring) restoreLedger() error {
	ids, err := idsIn(filepath.Dir(r.files.Ledger))
	if err != nil {
		return fmt.Errorf("look for the keys that the Temporal database needs: %w", err)
	}
	missing := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return r.keys[id] != nil })
	if len(missing) > 0 {
		return &MissingError{Files: r.files, IDs: missing}
	}
	if len(ids) == 0 {
		ids = slices.Collect(maps.Keys(r.keys))
		if err := r.files.oldestFirst(ids); err != nil {
			return err
		}
	}
	if len(ids) == 0 {
		return nil
	}
	return r.files.enter(ids...)
}

// Read is Open for those who use a ring that a host keeps: it makes no key.
func Read(files Files) (*Ring, error) {
	r := &Ring{files: files}
	return r, r.reload()
}

// reload reads every key, and which of them is the newest.
func (r *Ring) reload() error {
	written := modified(r.files.Ledger) // before it is read, so that no later word is missed
	ids, err := r.files.IDs()
	if err != nil {
		return err
	}
	keys, err := readKeys(r.files.Keys)
	if err != nil {
		return err
	}
	missing := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return keys[id] != nil })
	if len(missing) > 0 {
		return &MissingError{Files: r.files, IDs: slices.Compact(missing)}
	}
	r.keys, r.ledger, r.looked = keys, written, time.Now()
	if len(ids) > 0 && !r.pinned {
		r.newest = ids[len(ids)-1]
	}
	return nil
}

func modified(path string) time.Time {
	info, err := os.Stat(path)
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// lookEvery bounds how long a key made by another process is not used.
const lookEvery = time.Second

// current returns the newest key and its id.
func (r *Ring) current() (string, cipher.AEAD, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.looked) > lookEvery {
		r.looked = time.Now()
		if !modified(r.files.Ledger).Equal(r.ledger) {
			// What is in memory goes on working, also while files are moved about.
			_ = r.reload()
		}
	}
	if r.newest == "" {
		return "", nil, fmt.Errorf("there is no key in %s to encrypt with: a host makes the first one", r.files.Keys)
	}
	return r.newest, r.keys[r.newest], nil
}

// IDs are the ids of all keys that decrypt, the one that encrypts last.
func (r *Ring) IDs() []string {
	newest, _, err := r.current()
	r.mu.Lock()
	defer r.mu.Unlock()
	ids := slices.DeleteFunc(slices.Sorted(maps.Keys(r.keys)), func(id string) bool { return id == newest })
	if err == nil {
		ids = append(ids, newest)
	}
	return ids
}

// With reads a ring that encrypts with one of its keys, for somebody who has that one too.
func With(files Files, id string) (*Ring, error) {
	r := &Ring{files: files, newest: id, pinned: true}
	if err := r.reload(); err != nil {
		return nil, err
	}
	_, err := r.named(id)
	return r, err
}

// named returns a key by its id, looking again for one that is not known.
func (r *Ring) named(id string) (cipher.AEAD, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.keys[id] == nil {
		if err := r.reload(); err != nil {
			return nil, err
		}
	}
	if key := r.keys[id]; key != nil {
		return key, nil
	}
	return nil, &MissingError{Files: r.files, IDs: []string{id}}
}
