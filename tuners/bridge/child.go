package bridge

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// logFile is where the process's own words go, below Home.Log; NNI writes there too.
// An assessor that runs alone has a file of its own, lest its words be taken for the
// tuner's.
func (s Spec) logFile() string {
	if s.Tuner == nil {
		return "assessor.log"
	}
	return "dispatcher.log"
}

// largestLog is how much of a log the next process adds to.
const largestLog = 64 << 20

// openLog opens the log at its end. One that has grown large is kept as its name and
// ".1", in place of what had that name.
func (s Spec) openLog() (*os.File, error) {
	path := filepath.Join(s.Home.Log, s.logFile())
	if info, err := os.Stat(path); err == nil && info.Size() > largestLog {
		if err := os.Rename(path, path+".1"); err != nil {
			return nil, err
		}
	}
	return os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
}

// tag is the variable that marks every process of an algorithm, for the sweep. Its
// value names the experiment's log directory and the role.
const tag = "PERENNIAL_ALGORITHM"

// child is a process in a group of its own that dies with this one.
type child struct {
	command *exec.Cmd
	log     *os.File // nil where it has none
	before  int64    // how much the log held when it started
	exited  chan struct{}
	err     error // of Wait, once exited
}

// start runs a command whose standard error goes to the log. What an earlier
// process of the same tag left behind is ended first.
func (s Spec) start(command *exec.Cmd) (*child, error) {
	if err := errors.Join(os.MkdirAll(s.Home.Log, 0o700), os.MkdirAll(s.Home.Checkpoint, 0o700)); err != nil {
		return nil, fmt.Errorf("make the directory of the experiment's log: %w", err)
	}
	mark := tag + "=" + s.Home.Log + " " + s.role()
	sweep(mark)
	log, err := s.openLog()
	if err != nil {
		return nil, fmt.Errorf("open the log of the %s: %w", s.role(), err)
	}
	before, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	command.Env = append(command.Env, mark)
	command.Stderr = log
	if command.Stdout == nil {
		command.Stdout = log
	}
	c := &child{command: command, log: log, before: before, exited: make(chan struct{})}
	return c, c.begin()
}

// begin starts the process.
func (c *child) begin() error {
	c.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error, 1)
	go c.live(started)
	return <-started
}

// live starts the process and waits for its end on one thread, whose death is what
// Pdeathsig means.
func (c *child) live(started chan<- error) {
	runtime.LockOSThread()
	if err := c.command.Start(); err != nil {
		c.log.Close()
		close(c.exited)
		started <- err
		return
	}
	started <- nil
	c.err = c.command.Wait()
	_ = syscall.Kill(-c.command.Process.Pid, syscall.SIGKILL) // what it left in its group
	close(c.exited)
}

// end gives the process a moment to end by itself, and then ends its group.
func (c *child) end(moment time.Duration) {
	defer c.log.Close()
	select {
	case <-c.exited: // or never began: then there is no group to be ended
		return
	default:
	}
	select {
	case <-c.exited:
		return
	case <-time.After(moment):
	}
	_ = syscall.Kill(-c.command.Process.Pid, syscall.SIGKILL)
	<-c.exited
}

// death tells how the process ended, which it has or is about to.
func (c *child) death() error {
	select {
	case <-c.exited:
	case <-time.After(5 * time.Second):
		return errors.New("it closed its connection")
	}
	var exit *exec.ExitError
	if errors.As(c.err, &exit) {
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			return c.died("it was killed by " + signalName(status.Signal()))
		}
		return c.died(fmt.Sprintf("it exited with code %d", exit.ExitCode()))
	}
	return c.died("it exited")
}

func signalName(signal syscall.Signal) string {
	if signal == syscall.SIGKILL {
		return "SIGKILL, as the kernel does when memory runs out (dmesg tells)"
	}
	return signal.String()
}

// sweep ends the processes that carry a variable: those of a host that was killed
// may have lost the parent whose death they were to die with.
func sweep(variable string) {
	environments, _ := filepath.Glob("/proc/[0-9]*/environ") // the pattern is right
	for _, file := range environments {
		content, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(append([]byte{0}, content...), append(append([]byte{0}, variable...), 0)) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil && pid != os.Getpid() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}
