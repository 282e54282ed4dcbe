package machine

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/perennial-ml/perennial/runner/rundir"
	"github.com/perennial-ml/perennial/trial"
)

// enoughDisk is the free space below which Probe warns: the logs of two trials at
// their default limit.
const enoughDisk = 1 << 30

// Probe returns a reason for every thing that is not as it should be.
func (m *Machine) Probe() []trial.Reason {
	var reasons []trial.Reason
	for _, probe := range []func() trial.Reason{m.probeRunner, m.probeState, m.probeDisk, m.probeLogout, m.probeMark} {
		if reason := probe(); !reason.Zero() {
			reasons = append(reasons, reason)
		}
	}
	return reasons
}

func (m *Machine) probeRunner() trial.Reason {
	if m.Runner == "" {
		return trial.Reason{Code: "runner-missing", Text: "this program was built without a runner: build it with `make build`"}
	}
	info, err := os.Stat(m.Runner)
	if err != nil || !info.Mode().IsRegular() || unix.Access(m.Runner, unix.X_OK) != nil {
		return trial.Reason{Code: "runner-missing", Text: fmt.Sprintf("the runner %s cannot be executed: build it or install starter again", m.Runner)}
	}
	return trial.Reason{}
}

func (m *Machine) probeState() trial.Reason {
	err := rundir.MakeDirectory(m.Index)
	if err == nil {
		err = unix.Access(m.Index, unix.W_OK|unix.X_OK)
	}
	if err != nil {
		return trial.Reason{Code: "state-not-writable", Text: fmt.Sprintf("the state directory %s cannot be written: %v", m.Index, err)}
	}
	return trial.Reason{}
}

func (m *Machine) probeDisk() trial.Reason {
	var disk unix.Statfs_t
	if unix.Statfs(m.Index, &disk) != nil {
		return trial.Reason{} // probeState says what is wrong
	}
	free := disk.Bavail * uint64(disk.Bsize)
	if free >= enoughDisk {
		return trial.Reason{}
	}
	return trial.Reason{Code: "disk-low", Text: fmt.Sprintf("only %d MiB are free in %s", free>>20, m.Index)}
}

// probeLogout warns where systemd kills what a logout leaves behind.
func (m *Machine) probeLogout() trial.Reason {
	if _, err := os.Stat("/run/systemd/system"); err != nil || os.Geteuid() == 0 || m.scopes() {
		return trial.Reason{}
	}
	return trial.Reason{Code: "logout-kills", Text: "a logout may kill trials: run loginctl enable-linger once"}
}

// probeMark warns where a trial's processes can shed every trace of it.
func (m *Machine) probeMark() trial.Reason {
	err := rundir.CanMark()
	if err == nil {
		return trial.Reason{}
	}
	return trial.Reason{Code: "unmarked", Text: fmt.Sprintf("processes that wipe their environment and leave their session can outlive a killed runner: %v", err)}
}
