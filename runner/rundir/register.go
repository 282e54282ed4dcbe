package rundir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/perennial-ml/perennial/trial"
)

// Entry is what a Register keeps of an attempt, a JSON object. Its key "format" is
// the number of its form.
type Entry interface {
	// Sound tells whether everything is there that an entry cannot be without.
	Sound() bool
}

// Register keeps a small file for each attempt, in a folder for each experiment.
// The first to enter an attempt wins, for ever.
type Register[E Entry] struct {
	Directory string // absolute
	Suffix    string // of the files' names; others in a folder are left alone
	Format    int    // the newest that can be read
}

// Folder is where an experiment's entries lie.
func (r Register[E]) Folder(experiment string) string {
	return filepath.Join(r.Directory, filepath.Base(experiment))
}

func (r Register[E]) path(key trial.Key) string {
	return filepath.Join(r.Folder(key.Experiment), key.String()+r.Suffix)
}

// Find returns an attempt's entry, os.ErrNotExist where nobody entered it.
func (r Register[E]) Find(key trial.Key) (E, error) { return r.read(r.path(key)) }

// Add enters an attempt, durably, and returns its entry, which another may have
// made before.
func (r Register[E]) Add(key trial.Key, wanted E) (E, error) {
	content, err := json.Marshal(wanted)
	if err == nil {
		err = MakeDirectory(r.Folder(key.Experiment))
	}
	if err == nil {
		err = CreateFile(r.path(key), append(content, '\n'), 0o600)
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return *new(E), err
	}
	return r.Find(key)
}

// Replace enters an attempt anew, durably, in the place of its entry. Only whoever knows
// that nobody acts by the old one may do so.
func (r Register[E]) Replace(key trial.Key, wanted E) error {
	content, err := json.Marshal(wanted)
	if err != nil {
		return err
	}
	return WriteFile(r.path(key), append(content, '\n'), 0o600)
}

// List returns all entries of an experiment; with keys it reads and returns those of
// these attempts alone, where there are any.
func (r Register[E]) List(experiment string, keys ...trial.Key) ([]E, error) {
	if len(keys) > 0 {
		return r.those(keys)
	}
	files, err := os.ReadDir(r.Folder(experiment))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var entries []E
	for _, file := range files {
		if !strings.HasSuffix(file.Name(), r.Suffix) {
			continue
		}
		known, err := r.read(filepath.Join(r.Folder(experiment), file.Name()))
		if err != nil {
			return nil, err
		}
		entries = append(entries, known)
	}
	return entries, err
}

func (r Register[E]) those(keys []trial.Key) (entries []E, err error) {
	for _, key := range keys {
		known, err := r.Find(key)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		entries = append(entries, known)
	}
	return entries, nil
}

// Superseded returns the entries of attempts of which there is a later one. It reads no
// others.
func (r Register[E]) Superseded(experiment string) ([]E, error) {
	files, err := os.ReadDir(r.Folder(experiment))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	latest, attempts := map[string]int{}, map[string][]int{}
	for _, file := range files {
		if of, attempt, ok := r.attemptOf(file.Name()); ok {
			latest[of], attempts[of] = max(latest[of], attempt), append(attempts[of], attempt)
		}
	}
	var entries []E
	for of, all := range attempts {
		for _, attempt := range all {
			if attempt == latest[of] {
				continue
			}
			known, err := r.read(filepath.Join(r.Folder(experiment), of+strconv.Itoa(attempt)+r.Suffix))
			if err != nil {
				return nil, err
			}
			entries = append(entries, known)
		}
	}
	return entries, err
}

// attemptOf splits a file's name, a trial.Key's text, before its attempt's number.
func (r Register[E]) attemptOf(name string) (of string, attempt int, ok bool) {
	stem, found := strings.CutSuffix(name, r.Suffix)
	if !found || strings.HasPrefix(name, ".") {
		return "", 0, false
	}
	at := strings.LastIndexByte(stem, '-') + 1
	attempt, err := strconv.Atoi(stem[at:])
	return stem[:at], attempt, err == nil
}

func (r Register[E]) read(path string) (known E, err error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return known, err
	}
	var written format
	if json.Unmarshal(content, &written) == nil && written.Format > r.Format {
		return known, fmt.Errorf("%s has format %d: use the newer starter that wrote it", path, written.Format)
	}
	if err := json.Unmarshal(content, &known); err != nil || !known.Sound() {
		return known, fmt.Errorf("%s is damaged: remove it if the attempt has ended", path)
	}
	return known, nil
}
