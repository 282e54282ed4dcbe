// Package sshlab is a laboratory of SSH hosts for tests: each a real sshd of
// Debian's with network, processes, home and boot id of its own, on links that
// are cut and healed.
//
// A host is a set of Linux namespaces whose first process is its sshd. Everything
// in them ends with that process, and it ends with the test's, even a killed one:
// the kernel sees to both. What may be left is a directory below the temporary
// one; the next lab that gets the same number removes it.
//
// Root and Debian's openssh-server and iproute2 are needed; One needs no root and
// offers one host without a network of its own.
package sshlab

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/testsuite/machine"
)

const (
	// User is the one account of every host in a lab.
	User = "lab"
	// Passphrase opens the key EncryptedKey.
	Passphrase = "a long phrase"
	uid        = 52000
	patience   = 30 * time.Second
	glance     = 10 * time.Millisecond
)

// Spec says what kind of host is wanted; the zero value is an ordinary one.
type Spec struct {
	Behind   string            // name of the only host from which this one is reached
	Password string            // User may log in with it too; empty: by key only
	Shell    string            // login shell; empty: /bin/sh
	Disk     string            // size of the file system of the home, such as "8m"; lost at Reboot
	ReadOnly bool              // the home cannot be written to
	Without  []string          // programs of /usr/bin that are missing, such as "tar"
	Programs map[string]string // scripts that are in /usr/bin, by name
	Latency  time.Duration     // each way
	Rate     int               // KB/s each way, 0: unlimited
}

// Lab is some hosts and the files with which a controller reaches them.
type Lab struct {
	Hosts []*Host
	// Home is the controller's home directory: .ssh in it has keys, known_hosts
	// and a config that knows every host by its name.
	Home string
	// Evidence is a directory that everybody may write to and that has the same
	// path on every host as here: for what trials write down about themselves.
	Evidence string

	fail    func(error)
	base    string
	slot    *machine.Slot
	spawner *spawner
	router  int // pid that holds the router's network
}

// New brings up one host for each spec, host0, host1 …, until the test ends. Without
// root, or the programs it needs, the test is left out; in CI it fails.
func New(t testing.TB, specs ...Spec) *Lab {
	t.Helper()
	if missing := Missing(); missing != "" {
		machine.Lacks(t, "%s", missing)
	}
	lab, err := Start(func(err error) { t.Helper(); require.NoError(t, err) }, specs...)
	require.NoError(t, err)
	t.Cleanup(func() { lab.close(t.Failed(), t.Logf) })
	return lab
}

// Missing says what this machine lacks for a lab, empty if nothing.
func Missing() string {
	if os.Getuid() != 0 {
		return "several SSH hosts need root, who may make namespaces"
	}
	return missingPrograms("ip", "nsenter", "mount", "ssh")
}

func missingPrograms(names ...string) string {
	for _, name := range names {
		if _, err := exec.LookPath(name); err != nil {
			return name + " is missing: apt-get install openssh-server openssh-client iproute2"
		}
	}
	if sshd() == "" {
		return "sshd is missing: apt-get install openssh-server"
	}
	return ""
}

// sshd returns its absolute path, without which it refuses to start. It is often
// not in the PATH of ordinary users.
func sshd() string {
	for _, path := range []string{"/usr/sbin/sshd", "/usr/local/sbin/sshd"} {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return ""
}

// Start brings a lab up outside a test; fail is told of all later faults.
func Start(fail func(error), specs ...Spec) (*Lab, error) {
	slot, err := machine.TakeSlot("sshlab")
	if err != nil {
		return nil, err
	}
	l := &Lab{fail: fail, slot: slot, base: slot.Directory, spawner: newSpawner()}
	if err := l.start(specs); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

func (l *Lab) start(specs []Spec) error {
	if err := l.makeDirectories(); err != nil {
		return err
	}
	if err := l.startRouter(); err != nil {
		return err
	}
	for i, spec := range specs {
		if err := l.addHost(i, spec); err != nil {
			return err
		}
	}
	return l.writeClient()
}

func (l *Lab) addHost(number int, spec Spec) error {
	h := newHost(l, number, spec)
	l.Hosts = append(l.Hosts, h)
	if err := h.makeDirectories(); err != nil {
		return err
	}
	if err := h.boot(); err != nil {
		return err
	}
	return h.setLink()
}

// Close ends every host and removes what there was.
func (l *Lab) Close() { l.close(false, nil) }

func (l *Lab) close(failed bool, logf func(string, ...any)) {
	for _, h := range l.Hosts {
		h.unlink()
		h.PowerOff()
		if failed {
			logf("sshd of %s:\n  %s", h.Name, h.logTail())
		}
	}
	l.spawner.close()
	l.slot.Release()
}

func (l *Lab) must(err error) {
	if err != nil {
		l.fail(err)
	}
}

// Host returns the host of that name, nil if there is none.
func (l *Lab) Host(name string) *Host {
	i := slices.IndexFunc(l.Hosts, func(h *Host) bool { return h.Name == name })
	if i < 0 {
		return nil
	}
	return l.Hosts[i]
}

// run runs a command of this machine to its end.
func run(name string, arguments ...string) error {
	out, err := exec.Command(name, arguments...).CombinedOutput()
	if err != nil {
		return errors.New(name + " " + strings.Join(arguments, " ") + ": " + err.Error() + ": " + strings.TrimSpace(string(out)))
	}
	return nil
}

func (l *Lab) makeDirectories() error {
	l.Home, l.Evidence = filepath.Join(l.base, "controller"), filepath.Join(l.base, "evidence")
	// What is below is entered by every account of the hosts.
	if err := errors.Join(os.Chmod(l.base, 0o755), os.MkdirAll(l.Evidence, 0o755), os.MkdirAll(filepath.Join(l.Home, ".ssh"), 0o700)); err != nil {
		return err
	}
	return os.Chmod(l.Evidence, 0o777|os.ModeSticky)
}
