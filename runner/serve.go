package runner

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"

	"github.com/perennial-ml/perennial/runner/mailbox"
	"github.com/perennial-ml/perennial/runner/rundir"
)

// takeInterval is how often an environment that has nothing to do looks for a run.
const takeInterval = time.Second

// Serve is the whole life of an environment: it takes run after run from a mailbox and
// has each run by a process of its own. It ends when it had nothing to do for so long,
// also because the mailbox could not be read, when somebody ends all environments, and
// by TERM, which the run it has then gets first. Of several jobs that are to serve the
// same environment the first one does; job is empty where there are no others.
func Serve(directory, name, job string, idle time.Duration, out io.Writer) error {
	s := server{Taker: mailbox.Taker{Mailbox: mailbox.Mailbox{Directory: directory}, Name: name}, out: out, terms: make(chan os.Signal, 1)}
	signal.Notify(s.terms, unix.SIGTERM)
	if job != "" {
		if mine, err := s.claim(job); err != nil || !mine {
			return err
		}
	}
	if err := s.Begin(); err != nil {
		return err
	}
	left, err := s.Leases()
	if err != nil {
		return err
	}
	for _, ticket := range left { // an earlier process in this place had it: RunOnce runs what it had not begun
		s.serve(ticket)
	}
	return s.loop(idle)
}

func (s *server) claim(job string) (mine bool, err error) {
	if mine, err = s.Claim(job); err == nil && !mine {
		s.say("another job serves the environment %s", s.Name)
	}
	return mine, err
}

// server is an environment that serves.
type server struct {
	mailbox.Taker
	out   io.Writer
	terms chan os.Signal
	over  bool // TERM came
}

func (s *server) say(format string, words ...any) {
	fmt.Fprintf(s.out, "perennial-runner: "+format+"\n", words...)
}

func (s *server) loop(idle time.Duration) error {
	for since := time.Now(); !s.over && !s.Ended(); {
		switch {
		case s.next():
			since = time.Now()
		case time.Since(since) > idle:
			return s.leave(idle)
		default:
			s.pause()
		}
	}
	return nil
}

// leave says that nothing is taken any more, and takes what came just before.
func (s *server) leave(idle time.Duration) error {
	if err := s.Leave(); err != nil || !s.next() {
		s.say("there was nothing to do for %s", idle)
		return err
	}
	if err := s.Stay(); err != nil {
		return err
	}
	return s.loop(idle)
}

// next serves one run, if there is one.
func (s *server) next() bool {
	ticket, err := s.Take()
	if err != nil {
		s.say("look for a run: %v", err)
	}
	if ticket != "" {
		s.serve(ticket)
	}
	return ticket != ""
}

func (s *server) pause() {
	select {
	case <-s.terms:
		s.over = true
	case <-time.After(takeInterval):
	}
}

// serve has a run run, and gives its ticket up when that is over.
func (s *server) serve(name string) {
	ticket, err := s.Read(name)
	if err == nil {
		s.say("run %s", ticket.Directory)
		err = errors.Join(s.Serves(), s.once(ticket.Directory))
	}
	if err != nil {
		s.say("%s: %v", ticket.Directory, err)
	}
	exit, err := rundir.Run{Directory: ticket.Directory}.ReadExit()
	if err == nil {
		err = s.Finish(name, exit != nil)
	}
	if err != nil {
		s.say("%s: %v", name, err)
	}
}

// once runs a run in a process of its own: nothing of one run is left for the next.
func (s *server) once(directory string) error {
	command := exec.Command("/proc/self/exe", "once", directory)
	command.Args[0] = "perennial-runner"
	command.Stdout, command.Stderr = s.out, s.out
	command.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGKILL}
	if err := command.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	for {
		select {
		case err := <-ended:
			return err
		case <-s.terms:
			s.over = true
			_ = command.Process.Signal(unix.SIGTERM)
		}
	}
}
