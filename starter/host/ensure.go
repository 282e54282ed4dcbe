package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/mod/semver"
	"golang.org/x/sys/unix"

	"github.com/perennial-ml/perennial/record"
)

// Starter is the program that is started when there is no host.
type Starter struct {
	// Path is run as "<path> serve --background".
	Path string
	// Version is compared with that of the host that is found.
	Version string
	// Record is what RecordVariable says to it, empty where nothing was said.
	Record string
	// Say tells the user, in one line, what takes time; nil says nothing.
	Say func(line string)
}

func (s Starter) say(format string, arguments ...any) {
	if s.Say != nil {
		s.Say(fmt.Sprintf(format, arguments...))
	}
}

// NewerHostError says that the host was started by a newer starter.
type NewerHostError struct {
	Host, Have string
}

// Error says what to do about it.
func (e *NewerHostError) Error() string {
	return fmt.Sprintf("the running host is of version %s, newer than this starter (%s): update this starter, "+
		"or use the newer one", e.Host, e.Have)
}

const (
	pollEvery = 20 * time.Millisecond
	// startLimit bounds how long a host may take to publish its address. A
	// start takes a second; a large database on a slow, busy disk takes longer.
	startLimit = 2 * time.Minute
	probeLimit = time.Second
)

// Ensure returns the host of the directory once it answers, starting one where
// there is none. Of several callers all get the same host. A host of an older
// version is asked to hand over; one of a newer version is a NewerHostError.
func Ensure(ctx context.Context, dir Dir, starter Starter) (Info, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, startLimit, errors.New("it took too long"))
	defer cancel()
	search := &search{dir: dir, starter: starter}
	for {
		info, done, err := search.step(ctx)
		if done || err != nil {
			return info, err
		}
		select {
		case <-ctx.Done():
			return Info{}, fmt.Errorf("the host did not become ready (%w); its log is %s%s",
				context.Cause(ctx), dir.LogFile(), search.tail())
		case <-time.After(pollEvery):
		}
	}
}

// search is one Ensure under way.
type search struct {
	dir     Dir
	starter Starter
	child   *child
}

func (s *search) step(ctx context.Context) (info Info, done bool, err error) {
	info, alive, err := Find(s.dir)
	if err != nil {
		return Info{}, false, err
	}
	if !alive {
		return Info{}, false, s.start()
	}
	if !info.Ready() {
		return Info{}, false, nil
	}
	switch age := compare(info, s.starter.Version); {
	case age > 0:
		return Info{}, false, &NewerHostError{Host: info.Version, Have: s.starter.Version}
	case age < 0:
		s.starter.say("a host of version %s is running: asking it to hand over to %s; trials go on", info.Version, s.starter.Version)
		return Info{}, false, Stop(ctx, s.dir)
	}
	// The lock file still tells of the last host in the moment in which the next
	// one has the lock and has not written yet.
	// A Temporal of others may be away while its host is well.
	if info.Embedded() && !answers(ctx, info.Address) {
		return Info{}, false, nil
	}
	return info, true, s.dismiss(info)
}

// dismiss ends a child that lost to another host: left alone it could still take
// the lock once that one was told to end.
func (s *search) dismiss(host Info) error {
	if s.child == nil || s.child.process.Pid == host.PID {
		return nil
	}
	err := s.child.process.Kill()
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// compare tells by the sign whether the host is newer or older than the version.
// Versions that are not releases are as good as any that writes the same.
func compare(info Info, version string) int {
	if info.Format > Format {
		return 1
	}
	if !semver.IsValid(info.Version) || !semver.IsValid(version) {
		return cmp.Compare(info.Record, record.Format)
	}
	return semver.Compare(info.Version, version)
}

func answers(ctx context.Context, address string) bool {
	dialer := net.Dialer{Timeout: probeLimit}
	connection, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return false
	}
	return connection.Close() == nil
}

// start spawns a host unless the last one spawned is still on its way.
func (s *search) start() error {
	if s.child == nil {
		s.starter.say("starting the host in the background")
		var err error
		s.child, err = spawn(s.dir, s.starter)
		return err
	}
	err, ended := s.child.result()
	if !ended {
		return nil
	}
	// It may have lost to another host that ended since; only a look at the lock
	// after its end tells.
	if _, alive, findErr := Find(s.dir); alive || findErr != nil {
		return findErr
	}
	return fmt.Errorf("the host ended while it started (%w); its log is %s%s", err, s.dir.LogFile(), s.tail())
}

func (s *search) tail() string {
	if s.child == nil {
		return ""
	}
	return logTail(s.dir.LogFile(), s.child.logStart)
}

// child is a host process that this process spawned.
type child struct {
	process  *os.Process
	ended    chan error
	logStart int64
}

// spawn starts a host that neither the end of this process nor that of its
// terminal reaches.
func spawn(dir Dir, starter Starter) (*child, error) {
	log, err := os.OpenFile(dir.LogFile(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("host log: %w", err)
	}
	defer log.Close()
	info, err := log.Stat()
	if err != nil {
		return nil, fmt.Errorf("host log: %w", err)
	}
	command := exec.Command(starter.Path, "serve", "--background")
	command.Stdout, command.Stderr = log, log
	command.Dir = dir.path
	command.Env = append(environment(os.Environ()), "PERENNIAL_HOME="+dir.path)
	if starter.Record != "" {
		command.Env = append(command.Env, RecordVariable+"="+starter.Record)
	}
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("start the host: %w", err)
	}
	spawned := &child{process: command.Process, ended: make(chan error, 1), logStart: info.Size()}
	go func() { spawned.ended <- command.Wait() }()
	return spawned, nil
}

// result returns how the child ended, once it has.
func (c *child) result() (err error, ended bool) {
	select {
	case err := <-c.ended:
		if err == nil {
			err = errors.New("exit status 0")
		}
		c.ended <- err
		return err, true
	default:
		return nil, false
	}
}

// Stop asks the host to end and waits until it has, its process included; trials go
// on. It is no error if there is none.
func Stop(ctx context.Context, dir Dir) error {
	info, alive, err := Find(dir)
	if err != nil || !alive {
		return err
	}
	process, err := unix.PidfdOpen(info.PID, 0)
	if err != nil {
		process = -1 // it is gone, or not visible here
	} else {
		defer unix.Close(process)
	}
	if err := terminate(dir, info); err != nil {
		return err
	}
	for {
		now, alive, err := Find(dir)
		if err != nil {
			return err
		}
		if !alive || now.Nonce != "" && now.Nonce != info.Nonce {
			return exited(ctx, info.PID, process)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the host (process %d) was asked to end and has not: %w", info.PID, context.Cause(ctx))
		case <-time.After(pollEvery):
		}
	}
}

// exited waits for the end of a process, which comes a moment after that of its lock.
func exited(ctx context.Context, pid, process int) error {
	for process >= 0 && pid != os.Getpid() && ctx.Err() == nil {
		ready, err := unix.Poll([]unix.PollFd{{Fd: int32(process), Events: unix.POLLIN}}, int(pollEvery.Milliseconds()))
		if ready > 0 || err != nil && !errors.Is(err, unix.EINTR) {
			break
		}
	}
	return context.Cause(ctx)
}

// terminate signals the host and nobody else, whatever happens to its pid: the
// lock file is read again once the process is held by a descriptor.
func terminate(dir Dir, info Info) error {
	if info.PID <= 0 {
		return errors.New("the host is only just starting: try again in a moment")
	}
	process, err := unix.PidfdOpen(info.PID, 0)
	if errors.Is(err, unix.ESRCH) {
		return hidden(dir, info)
	}
	if err != nil {
		return fmt.Errorf("host (process %d): %w", info.PID, err)
	}
	defer unix.Close(process)
	again, alive, err := Find(dir)
	if err != nil || !alive || again.Nonce != info.Nonce {
		return err
	}
	err = unix.PidfdSendSignal(process, unix.SIGTERM, nil, 0)
	if err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("ask the host (process %d) to end: %w", info.PID, err)
	}
	return nil
}

// hidden tells a host that has just ended from one that this process cannot see.
func hidden(dir Dir, info Info) error {
	again, alive, err := Find(dir)
	if err != nil || !alive || again.Nonce != info.Nonce {
		return err
	}
	return fmt.Errorf("the host (process %d) holds the state directory %s and is not visible here: "+
		"it runs in another container, end it there", info.PID, dir.path)
}
