// Package host keeps one host process per state directory: the process that
// holds the embedded Temporal server and the workers.
//
// A state directory is private to its user, lies on a local file system and
// says which format it has. The process that holds the lock on it is its host;
// everybody else finds the host there and never by a fixed port. Should the host
// die, the next Ensure starts another, and trials never notice.
package host

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/perennial-ml/perennial/workers/codec"
)

// Format numbers the layout of the state directory and of the lock file. A
// starter reads every format up to its own and refuses newer ones.
const Format = 1

// Dir is a state directory that was opened: it exists, is writable and local,
// and its format is known.
type Dir struct {
	path string
	id   string
}

// Directory is where the state belongs: $PERENNIAL_HOME, else
// $XDG_STATE_HOME/perennial, else ~/.local/state/perennial.
func Directory(getenv func(string) string) (string, error) {
	if home := getenv("PERENNIAL_HOME"); home != "" {
		return filepath.Abs(home)
	}
	if state := getenv("XDG_STATE_HOME"); filepath.IsAbs(state) {
		return filepath.Join(state, "perennial"), nil
	}
	if home := getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".local", "state", "perennial"), nil
	}
	return "", errors.New("no place for the state directory: neither PERENNIAL_HOME nor HOME is set")
}

// Open creates the state directory with mode 0700 where it is missing, and closes one
// of ours that others may look into. A network file system, a directory that cannot be
// written, one that is open to others and holds other things, and one of a newer format
// are refused with a message that says the way out.
func Open(path string) (Dir, error) { return open(path, filesystemOf) }

func open(path string, identify func(path string) (string, error)) (Dir, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return Dir{}, fmt.Errorf("state directory: %w", err)
	}
	if err := refuseNetwork(path, identify); err != nil {
		return Dir{}, err
	}
	if err := makePrivate(path); err != nil {
		return Dir{}, err
	}
	if err := makeWritable(path); err != nil {
		return Dir{}, fmt.Errorf("state directory %s cannot be written (%w): make it writable, "+
			"or set PERENNIAL_HOME to a directory that is", path, err)
	}
	return describe(Dir{path: path})
}

// makePrivate closes a directory to others. What is not ours alone to close, such as
// somebody's home directory or /tmp, is refused.
func makePrivate(path string) error {
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() || info.Mode().Perm()&0o077 == 0 || unix.Access(path, unix.W_OK) != nil {
		return nil // private, or made so or refused later on
	}
	if !ours(path) {
		return fmt.Errorf("state directory %s is open to others (mode %04o) and holds other things: "+
			"set PERENNIAL_HOME to a directory of its own, such as %s", path, info.Mode().Perm(), filepath.Join(path, "perennial"))
	}
	if err := os.Chmod(path, 0o700); err != nil {
		return fmt.Errorf("state directory %s is open to others (mode %04o) and cannot be closed (%w): "+
			"set PERENNIAL_HOME to one below it, such as %s", path, info.Mode().Perm(), reason(err), filepath.Join(path, "perennial"))
	}
	return nil
}

// ours tells whether a directory is a state directory already, or empty.
func ours(path string) bool {
	if _, err := os.Lstat(filepath.Join(path, "format")); err == nil {
		return true
	}
	entries, err := os.ReadDir(path)
	return err == nil && len(entries) == 0
}

// reason is the cause of a file system error without the path.
func reason(err error) error {
	var failed *fs.PathError
	if errors.As(err, &failed) {
		return failed.Err
	}
	return err
}

func makeWritable(path string) error {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	for _, room := range []string{"temporal", "log"} {
		if err := os.MkdirAll(filepath.Join(path, room), 0o700); err != nil {
			return err
		}
	}
	probe, err := os.CreateTemp(path, ".writable-*")
	if err != nil {
		return err
	}
	return errors.Join(probe.Close(), os.Remove(probe.Name()))
}

// describe checks the format, writing it where there is none, and reads the id.
func describe(d Dir) (Dir, error) {
	content, err := d.once("format", formatLine)
	if err != nil {
		return Dir{}, err
	}
	var written struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(content, &written); err != nil || written.Format < 1 {
		return Dir{}, fmt.Errorf("state directory %s: its format file says %q: set PERENNIAL_HOME to another directory, "+
			"or restore that file", d.path, bytes.TrimSpace(content))
	}
	if written.Format > Format {
		return Dir{}, fmt.Errorf("state directory %s was written by a newer starter (format %d, this one reads up to %d): "+
			"update starter, or set PERENNIAL_HOME to another directory", d.path, written.Format, Format)
	}
	id, err := d.once("id", randomLetters)
	d.id = string(bytes.TrimSpace(id))
	return d, err
}

func formatLine() string { return fmt.Sprintf("{\"format\":%d}\n", Format) }

// randomLetters draws eight lower-case letters.
func randomLetters() string {
	letters := []byte(rand.Text()[:8])
	for i, letter := range letters {
		letters[i] = 'a' + letter%26
	}
	return string(letters) + "\n"
}

// once returns the content of a file of mode 0600 that is written when it is
// missing. Of several processes that write it at once, all get what one wrote.
func (d Dir) once(name string, content func() string) ([]byte, error) {
	path := filepath.Join(d.path, name)
	written, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := writeOnce(path, content()); err != nil {
			return nil, fmt.Errorf("state directory: %w", err)
		}
		written, err = os.ReadFile(path)
	}
	if err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	return written, nil
}

// writeOnce makes the file appear complete or not at all.
func writeOnce(path, content string) error {
	file, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	_, err = file.WriteString(content)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	if err := os.Link(file.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
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

// Path is the absolute path of the directory.
func (d Dir) Path() string { return d.path }

// StateID is the eight letters that name this directory for ever; workers carry
// them in their identity.
func (d Dir) StateID() string { return d.id }

// IDOf is the StateID of a directory, empty where there is no state directory yet.
func IDOf(path string) string {
	id, _ := os.ReadFile(filepath.Join(path, "id")) // what cannot be read names nothing
	return string(bytes.TrimSpace(id))
}

// TokenFile is the path of the file, mode 0600, that holds the token of the
// embedded server.
func (d Dir) TokenFile() string { return filepath.Join(d.path, "token") }

// Token returns the token, which is drawn when there is none yet.
func (d Dir) Token() (string, error) { return d.token("token") }

// MetricsToken returns the token that opens the metrics and nothing else, in the file
// metrics-token: monitoring need not hold what drives experiments.
func (d Dir) MetricsToken() (string, error) { return d.token("metrics-token") }

func (d Dir) token(file string) (string, error) {
	token, err := d.once(file, func() string { return rand.Text() + rand.Text() + "\n" })
	if err != nil {
		return "", err
	}
	return string(bytes.TrimSpace(token)), nil
}

// LogFile is the path of the host's log.
func (d Dir) LogFile() string { return filepath.Join(d.path, "log", "host.log") }

// Keys says where the keys are that encrypt what the embedded server keeps.
func (d Dir) Keys() codec.Files {
	return codec.In(d.path)
}

func (d Dir) lockFile() string { return filepath.Join(d.path, "host.lock") }

func (d Dir) temporal() string { return filepath.Join(d.path, "temporal") }
