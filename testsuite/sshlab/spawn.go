package sshlab

import (
	"errors"
	"os/exec"
	"runtime"
	"syscall"
)

// spawner starts processes that the kernel kills when this process dies. It ties
// them to the thread that started them, so one thread starts them all and lives
// as long as the lab.
type spawner struct {
	starts chan *exec.Cmd
	errors chan error
}

func newSpawner() *spawner {
	s := &spawner{make(chan *exec.Cmd), make(chan error)}
	go func() {
		runtime.LockOSThread()
		for command := range s.starts {
			s.errors <- command.Start()
		}
	}()
	return s
}

// start starts a command in new namespaces, of which flags says which.
func (s *spawner) start(command *exec.Cmd, flags uintptr) error {
	command.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags, Pdeathsig: syscall.SIGKILL, Setsid: true}
	s.starts <- command
	if err := <-s.errors; err != nil {
		return errors.New("a process with namespaces of its own cannot be started: " + err.Error())
	}
	return nil
}

// close kills what was started, by the end of its thread.
func (s *spawner) close() { close(s.starts) }
