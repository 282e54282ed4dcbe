package host

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.temporal.io/sdk/client"
	"golang.org/x/sys/unix"

	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/workers/codec"
)

// Info is what a host tells about itself in the lock file. It is about a living
// host only while the lock is held.
type Info struct {
	Format int `json:"format"`
	PID    int `json:"pid"`
	// Nonce is random and new for each host process.
	Nonce string `json:"nonce"`
	// Version is that of the host's starter.
	Version string `json:"version"`
	// Record is the record.Format that it writes, 0 of one that did not tell yet.
	Record int `json:"record,omitempty"`
	// Address is the host:port of Temporal's frontend; it is empty until the
	// host is ready.
	Address   string `json:"address,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	// WebUI is the address without the one-time token; see embedded.Link.
	WebUI string `json:"webUI,omitempty"`
	// Dashboard is the address of the dashboard without the one-time token; see door.Link.
	Dashboard string `json:"dashboard,omitempty"`
	// TokenFile is empty where the host uses a Temporal that is not its own.
	TokenFile string `json:"tokenFile,omitempty"`
	// Keys is where the keys are that payloads are encrypted with; it is zero
	// where they are not.
	Keys    codec.Files `json:"keys,omitzero"`
	Started time.Time   `json:"started"`
}

// Ready reports whether the host has published its address.
func (i Info) Ready() bool { return i.Address != "" }

// Embedded reports whether the host's Temporal is its own.
func (i Info) Embedded() bool { return i.TokenFile != "" }

// ClientOptions are those of a Temporal client of the embedded server. It reads
// and writes what is encrypted; one without the keys can still describe, signal,
// cancel and terminate.
func (i Info) ClientOptions() (client.Options, error) {
	token, err := os.ReadFile(i.TokenFile)
	if err != nil {
		return client.Options{}, fmt.Errorf("token of the host: %w", err)
	}
	options := clientOptions(i.Address, i.Namespace, string(bytes.TrimSpace(token)))
	if i.Keys == (codec.Files{}) {
		return options, nil
	}
	ring, err := codec.Read(i.Keys)
	if err != nil {
		return client.Options{}, err
	}
	return ring.Protect(options), nil
}

func clientOptions(address, namespace, token string) client.Options {
	// Within one machine compression costs more than it saves.
	connection := client.ConnectionOptions{TLSDisabled: true, GrpcCompression: &client.GrpcCompressionNone{}}
	return client.Options{
		HostPort: address, Namespace: namespace,
		Credentials: client.NewAPIKeyStaticCredentials(token), ConnectionOptions: connection,
	}
}

// HeldError says that another process is the host.
type HeldError struct {
	Path string
	Info Info
}

// Error names the process.
func (e *HeldError) Error() string {
	return fmt.Sprintf("another host (process %d) already serves the state directory %s: "+
		"use it, or end it with \"starter serve --stop\"", e.Info.PID, e.Path)
}

// Lock makes this process the host until it is released or the process ends.
type Lock struct {
	file *os.File
	info Info
}

// Acquire takes the lock or returns a HeldError. The lock is an open file
// description lock: it ends with this process, is not inherited by what the
// process starts, and others can see it without taking it for a moment.
func Acquire(dir Dir, version string) (*Lock, error) {
	file, err := os.OpenFile(dir.lockFile(), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("host lock: %w", err)
	}
	err = unix.FcntlFlock(file.Fd(), unix.F_OFD_SETLK, wholeFile())
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		info, _ := readInfo(file)
		return nil, errors.Join(&HeldError{Path: dir.path, Info: info}, file.Close())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("host lock: %w", err), file.Close())
	}
	lock := &Lock{file: file}
	return lock, lock.Publish(Info{Version: version, Nonce: strings.ToLower(rand.Text()[:16]), Started: time.Now().UTC()})
}

func wholeFile() *unix.Flock_t {
	return &unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
}

// Info is what was published last.
func (l *Lock) Info() Info { return l.info }

// Publish tells others about this host; formats and pid are filled in.
func (l *Lock) Publish(info Info) error {
	info.Format, info.Record, info.PID = Format, record.Format, os.Getpid()
	content, err := json.Marshal(info)
	if err != nil {
		return fmt.Errorf("host lock: %w", err)
	}
	content = append(content, '\n')
	// A reader takes the first JSON value: what an earlier, longer one leaves
	// behind it does no harm until it is cut off.
	if _, err := l.file.WriteAt(content, 0); err != nil {
		return fmt.Errorf("host lock: %w", err)
	}
	if err := l.file.Truncate(int64(len(content))); err != nil {
		return fmt.Errorf("host lock: %w", err)
	}
	l.info = info
	return nil
}

// GoneError says that the state directory was deleted, or another put in its place,
// while a host served it: nobody could find that host any more.
type GoneError struct{ Path string }

// Error says what became of it.
func (e *GoneError) Error() string {
	return fmt.Sprintf("the state directory %s was deleted or replaced: its host ends, trials are left alone", e.Path)
}

// watchEvery is how often a host looks whether its directory is still there. It takes
// two looks to believe that it is not: one may fall into somebody's exchange of files.
const watchEvery = 2 * time.Second

// watch calls gone once the lock is not the state directory's any more, if that
// happens before ctx ends.
func (l *Lock) watch(ctx context.Context, gone func(error)) {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	for missed := 0; missed < 2; {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		missed++
		if l.stands() {
			missed = 0
		}
	}
	gone(&GoneError{Path: filepath.Dir(l.file.Name())})
}

// stands tells whether the lock's file is where others look for it. A disk that
// cannot be asked has not lost it.
func (l *Lock) stands() bool {
	mine, err := l.file.Stat()
	if err != nil {
		return true
	}
	found, err := os.Stat(l.file.Name())
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	return os.SameFile(mine, found)
}

// Release gives the lock up; another process may be the host at once.
func (l *Lock) Release() error {
	return errors.Join(l.file.Truncate(0), l.file.Close())
}

// Find returns what the lock file says and whether a host holds the lock. Only
// then is it about a living host, which may still be starting (Ready is false).
func Find(dir Dir) (info Info, alive bool, err error) {
	file, err := os.Open(dir.lockFile())
	if errors.Is(err, fs.ErrNotExist) {
		return Info{}, false, nil
	}
	if err != nil {
		return Info{}, false, fmt.Errorf("host lock: %w", err)
	}
	defer file.Close()
	if alive, err = isHeld(file); err != nil {
		return Info{}, false, err
	}
	info, err = readInfo(file)
	if err != nil && alive {
		return Info{}, true, nil
	}
	return info, alive, nil
}

func isHeld(file *os.File) (bool, error) {
	lock := wholeFile()
	if err := unix.FcntlFlock(file.Fd(), unix.F_OFD_GETLK, lock); err != nil {
		return false, fmt.Errorf("host lock: %w", err)
	}
	return lock.Type != unix.F_UNLCK, nil
}

// infoLimit is far above what any host writes, in bytes.
const infoLimit = 1 << 16

func readInfo(file *os.File) (info Info, err error) {
	err = json.NewDecoder(io.NewSectionReader(file, 0, infoLimit)).Decode(&info)
	return info, err
}
