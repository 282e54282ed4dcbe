package sshlab

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/testsuite/machine"
)

// One brings up a single sshd of the present user on this very machine, until the
// test ends: no root, and no network, processes or boot id of its own, so it
// cannot be cut off or rebooted. HOME is another directory there. Of the spec only
// Latency and Rate count.
func One(t testing.TB, spec Spec) *Lab {
	t.Helper()
	if missing := missingPrograms("ssh"); missing != "" {
		machine.Lacks(t, "%s", missing)
	}
	lab, err := StartOne(func(err error) { t.Helper(); require.NoError(t, err) }, spec)
	require.NoError(t, err)
	t.Cleanup(func() { lab.close(t.Failed(), t.Logf) })
	return lab
}

// StartOne is One outside a test.
func StartOne(fail func(error), spec Spec) (*Lab, error) {
	slot, err := machine.TakeSlot("sshlab")
	if err != nil {
		return nil, err
	}
	l := &Lab{fail: fail, slot: slot, base: slot.Directory, spawner: newSpawner()}
	if err := l.startOne(spec); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

func (l *Lab) startOne(spec Spec) error {
	if err := l.makeDirectories(); err != nil {
		return err
	}
	h, err := newOnly(l, spec)
	if err != nil {
		return err
	}
	l.Hosts = []*Host{h}
	if err := errors.Join(h.writeOnly(), h.bootOnly(), h.setLink()); err != nil {
		return err
	}
	return l.writeClient()
}

func newOnly(l *Lab, spec Spec) (*Host, error) {
	current, err := user.Current()
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	port := listener.Addr().(*net.TCPAddr).Port
	h := &Host{Spec: spec, Name: "host0", User: current.Username, Address: "127.0.0.1", Port: port, lab: l, address: "127.0.0.1", port: port}
	h.own = filepath.Join(h.directory(), "home")
	return h, listener.Close()
}

func (h *Host) writeOnly() error {
	if err := errors.Join(os.MkdirAll(h.own, 0o700), os.MkdirAll(h.etc(""), 0o755)); err != nil {
		return err
	}
	keys, err := newHostKeys()
	if err != nil {
		return err
	}
	authorizedKeys, err := h.lab.clientKeys()
	if err != nil {
		return err
	}
	return errors.Join(h.writeHostKeys(keys), os.WriteFile(h.etc("authorized_keys"), []byte(authorizedKeys), 0o644), h.writeConfig())
}

func (h *Host) bootOnly() error {
	if os.Getuid() == 0 { // sshd asks root for it
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
			return err
		}
	}
	command := exec.Command(sshd(), "-D", "-f", h.etc("sshd_config"), "-E", h.etc("log"))
	if err := h.lab.spawner.start(command, 0); err != nil {
		return err
	}
	h.init, h.ended = command.Process.Pid, make(chan struct{})
	go func() { _ = command.Wait(); close(h.ended) }()
	return h.awaitListening()
}
