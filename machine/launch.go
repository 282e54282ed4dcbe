package machine

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/perennial-ml/perennial/runner/rundir"
	"github.com/perennial-ml/perennial/trial"
)

// scopeProbeTimeout bounds the one question to systemd; a healthy one answers in
// some ten milliseconds.
const scopeProbeTimeout = 5 * time.Second

// launch starts the runner with the claim, in a session of its own, and returns
// when it has written its process record.
func (m *Machine) launch(ctx context.Context, run rundir.Run, key trial.Key, claim *os.File) error {
	log, err := os.OpenFile(run.Path(rundir.RunnerLog), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	command := m.runnerCommand(run)
	command.Stdout, command.Stderr = log, log
	command.ExtraFiles = []*os.File{claim}
	if err := command.Start(); err != nil {
		return startFault(m.Runner, err)
	}
	died := make(chan error, 1)
	go func() { // for as long as it lives, so that it leaves no zombie
		died <- command.Wait()
		m.gpus.tell()
		m.Ended(key)
	}()
	return awaitProcess(ctx, run, died)
}

func (m *Machine) runnerCommand(run rundir.Run) *exec.Cmd {
	words := rundir.RunnerCommand(m.Runner, run)
	if m.scopes() {
		words = append(slices.Clone(scopeCommand), words...)
	}
	command := exec.Command(words[0], words[1:]...)
	command.Dir = "/"
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return command
}

func awaitProcess(ctx context.Context, run rundir.Run, died <-chan error) error {
	for {
		begun, err := settled(run)
		if begun || err != nil {
			return err
		}
		select {
		case err := <-died:
			return diedEarly(run, err)
		case <-ctx.Done():
			return Errorf(Transient, "submit", "the runner of %s is still starting: %w", run.Directory, ctx.Err())
		case <-time.After(lookInterval):
		}
	}
}

// diedEarly explains the death of a runner that may have begun the run after all.
func diedEarly(run rundir.Run, died error) error {
	begun, err := settled(run)
	if begun || err != nil {
		return err
	}
	said := lastLine(run.Path(rundir.RunnerLog))
	if strings.Contains(said, syscall.ENOSPC.Error()) {
		return fullFault("submit", &fs.PathError{Path: run.Directory})
	}
	code := Transient
	if outrun(said) {
		code = Exhausted
	}
	if died == nil {
		died = errors.New("exit status 0")
	}
	return Errorf(code, "submit", "the runner ended before it started the command: %w: %s", died, said)
}

func lastLine(path string) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return "it left no log"
	}
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	return lines[len(lines)-1]
}

func startFault(runner string, err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.ENOEXEC) {
		return Errorf(NotFound, "submit", "the runner %s cannot be executed, build it or install starter again: %w", runner, err)
	}
	return err
}

// scopeCommand puts what follows into a scope of its own, so that neither a
// logout nor the end of the host's service takes the runner along.
var scopeCommand = []string{"systemd-run", "--user", "--scope", "--quiet", "--collect", "--"}

// scopesWork tells whether a user manager that outlives logouts is there and
// hands descriptors through to what it starts.
func scopesWork() bool {
	if !lingers() {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), scopeProbeTimeout)
	defer cancel()
	words := append(slices.Clone(scopeCommand), "sh", "-c", "test -e /proc/self/fd/3")
	command := exec.CommandContext(ctx, words[0], words[1:]...)
	file, err := os.Open(os.DevNull)
	if err != nil {
		return false
	}
	defer file.Close()
	command.ExtraFiles = []*os.File{file}
	return command.Run() == nil
}

// lingers tells whether the user's services go on without a login.
func lingers() bool {
	current, err := user.Current()
	if err != nil {
		return false
	}
	_, err = os.Stat(filepath.Join("/var/lib/systemd/linger", current.Username))
	return err == nil
}
