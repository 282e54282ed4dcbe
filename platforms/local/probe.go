package local

import (
	"context"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/perennial-ml/perennial/runner/rundir"
	"github.com/perennial-ml/perennial/trial"
)

// enoughDisk is the free space below which Probe warns: the logs of two trials at
// their default limit.
const enoughDisk = 1 << 30

// Probe implements platforms.WithProbe.
func (p *platform) Probe(context.Context) []trial.Reason {
	var reasons []trial.Reason
	for _, probe := range []func() trial.Reason{p.probeRunner, p.probeState, p.probeDisk, p.probeLogout} {
		if reason := probe(); !reason.Zero() {
			reasons = append(reasons, reason)
		}
	}
	return reasons
}

func (p *platform) probeRunner() trial.Reason {
	if p.Runner == "" {
		return trial.Reason{Code: "runner-missing", Text: "this program was built without a runner: build it with `make build`"}
	}
	info, err := os.Stat(p.Runner)
	if err != nil || !info.Mode().IsRegular() || unix.Access(p.Runner, unix.X_OK) != nil {
		return trial.Reason{Code: "runner-missing", Text: fmt.Sprintf("the runner %s cannot be executed: build it or install starter again", p.Runner)}
	}
	return trial.Reason{}
}

func (p *platform) probeState() trial.Reason {
	err := rundir.MakeDirectory(p.index.directory)
	if err == nil {
		err = unix.Access(p.index.directory, unix.W_OK|unix.X_OK)
	}
	if err != nil {
		return trial.Reason{Code: "state-not-writable", Text: fmt.Sprintf("the state directory %s cannot be written: %v", p.StateDirectory, err)}
	}
	return trial.Reason{}
}

func (p *platform) probeDisk() trial.Reason {
	var disk unix.Statfs_t
	if unix.Statfs(p.StateDirectory, &disk) != nil {
		return trial.Reason{} // probeState says what is wrong
	}
	free := disk.Bavail * uint64(disk.Bsize)
	if free >= enoughDisk {
		return trial.Reason{}
	}
	return trial.Reason{Code: "disk-low", Text: fmt.Sprintf("only %d MiB are free in %s", free>>20, p.StateDirectory)}
}

// probeLogout warns where systemd kills what a logout leaves behind.
func (p *platform) probeLogout() trial.Reason {
	if _, err := os.Stat("/run/systemd/system"); err != nil || os.Geteuid() == 0 || p.scopes() {
		return trial.Reason{}
	}
	return trial.Reason{Code: "logout-kills", Text: "a logout may kill trials: run loginctl enable-linger once"}
}
