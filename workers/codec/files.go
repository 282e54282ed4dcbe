package codec

import (
	"cmp"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Format numbers the layout of a key file. All older ones are read.
const Format = 1

const keySize = 32 // AES-256

// Files say where a ring is kept. Both belong to the user alone.
type Files struct {
	// Keys is the directory with one file of mode 0600 for each key, named by
	// the key's id. It is what a backup must hold.
	Keys string `json:"keys"`
	// Ledger is a file that lies with the Temporal database and names, one a
	// line and the newest last, the keys that the database may need. It holds
	// no secret. What goes with the database is no longer missed.
	Ledger string `json:"ledger"`
}

// In are the files of a state directory whose Temporal lies in it.
func In(state string) Files {
	return Files{Keys: filepath.Join(state, "keys"), Ledger: filepath.Join(state, "temporal", "keys")}
}

// IDs are the ids on the ledger, the newest last.
func (f Files) IDs() ([]string, error) {
	content, err := os.ReadFile(f.Ledger)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("ledger of keys: %w", err)
	}
	return strings.Fields(string(content)), nil
}

// keyFile is the content of a key's file.
type keyFile struct {
	Format  int       `json:"format"`
	Key     []byte    `json:"key"`
	Created time.Time `json:"created"`
}

func readKeys(directory string) (map[string]cipher.AEAD, error) {
	files, err := os.ReadDir(directory)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("keys: %w", err)
	}
	keys := map[string]cipher.AEAD{}
	for _, file := range files {
		if strings.HasPrefix(file.Name(), ".") || file.IsDir() {
			continue
		}
		key, err := readKey(filepath.Join(directory, file.Name()))
		if err != nil {
			return nil, err
		}
		keys[file.Name()] = key
	}
	return keys, nil
}

func readKey(path string) (cipher.AEAD, error) {
	read, err := readKeyFile(path)
	if err != nil {
		return nil, err
	}
	return newAEAD(read.Key)
}

func readKeyFile(path string) (read keyFile, err error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return read, fmt.Errorf("key: %w", err)
	}
	if err := json.Unmarshal(content, &read); err != nil || len(read.Key) != keySize || read.Format < 1 {
		return read, fmt.Errorf("%s is no key: put the file back from a backup, or, if it was never a key, move it away", path)
	}
	if read.Format > Format {
		return read, fmt.Errorf("the key %s was written by a newer starter (format %d): update starter", path, read.Format)
	}
	return read, nil
}

// oldestFirst orders keys by when they were made.
func (f Files) oldestFirst(ids []string) error {
	made := map[string]time.Time{}
	for _, id := range ids {
		read, err := readKeyFile(filepath.Join(f.Keys, id))
		if err != nil {
			return err
		}
		made[id] = read.Created
	}
	slices.SortFunc(ids, func(a, b string) int { return cmp.Or(made[a].Compare(made[b]), cmp.Compare(a, b)) })
	return nil
}

func newAEAD(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// Rotate makes a key that encrypts from now on, and returns its id. The others
// go on decrypting what they encrypted.
func Rotate(files Files) (string, error) {
	if _, err := Read(files); err != nil {
		return "", err
	}
	lock, err := files.lock()
	if err != nil {
		return "", fmt.Errorf("keys: %w", err)
	}
	defer lock.Close()
	id := newID()
	if err := files.writeKey(id); err != nil {
		return "", fmt.Errorf("write a key: %w", err)
	}
	// The key is durable before anything says that it is in use.
	if err := files.enter(id); err != nil {
		return "", fmt.Errorf("ledger of keys: %w", err)
	}
	return id, nil
}

// lock keeps two processes from changing the ledger at once, until it is closed.
func (f Files) lock() (*os.File, error) {
	if err := os.MkdirAll(f.Keys, 0o700); err != nil {
		return nil, err
	}
	directory, err := os.Open(f.Keys)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(directory.Fd()), unix.LOCK_EX); err != nil {
		return nil, errors.Join(err, directory.Close())
	}
	return directory, nil
}

func (f Files) writeKey(id string) error {
	content, err := json.Marshal(keyFile{Format: Format, Key: newKey(), Created: time.Now().UTC()})
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(f.Keys, id), append(content, '\n'))
}

// enter adds ids to the ledger.
func (f Files) enter(more ...string) error {
	ids, err := f.IDs()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(f.Ledger), 0o700); err != nil {
		return err
	}
	return writeFile(f.Ledger, []byte(strings.Join(append(ids, more...), "\n")+"\n"))
}

// newID is a date for people and eight letters and digits that do not repeat.
func newID() string {
	return time.Now().UTC().Format("20060102") + "-" + strings.ToLower(rand.Text()[:8])
}

func newKey() []byte {
	key := make([]byte, keySize)
	rand.Read(key) // never fails
	return key
}

// writeFile makes a file of mode 0600 appear, whole and durable.
func writeFile(path string, content []byte) error {
	file, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	_, err = file.Write(content)
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	if err := os.Rename(file.Name(), path); err != nil {
		return err
	}
	return syncDirectory(filepath.Dir(path))
}

func syncDirectory(path string) error {
	directory, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(directory.Sync(), directory.Close())
}

// State is one key of a ring, without its secret.
type State struct {
	ID string `json:"id"`
	// Encrypts is set for the key that new payloads are encrypted with.
	Encrypts bool `json:"encrypts"`
	// Needed is set where the Temporal database may hold what it encrypted.
	Needed bool `json:"needed"`
}

// States lists the keys, the one that encrypts last.
func (f Files) States() ([]State, error) {
	ring, err := Read(f)
	if err != nil {
		return nil, err
	}
	needed, err := f.IDs()
	if err != nil {
		return nil, err
	}
	states := []State{}
	for _, id := range slices.Sorted(maps.Keys(ring.keys)) {
		if !slices.Contains(needed, id) {
			states = append(states, State{ID: id})
		}
	}
	for _, id := range needed {
		states = append(states, State{ID: id, Needed: true, Encrypts: id == ring.newest})
	}
	return states, nil
}
