package endtoend

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Patience is how long a test waits for what it is sure to see, on a busy machine.
const Patience = 90 * time.Second

const glance = 20 * time.Millisecond

// Home is one state directory and one user's working directory beside it.
type Home struct {
	t testing.TB
	// Dir is the state directory ($PERENNIAL_HOME); Work holds experiment files
	// and the ledger.
	Dir, Work string
	// Env are variables of the user's, on top of the test's own.
	Env []string
}

// NewHome makes a home in a directory of its own. When the test ends everything
// that runs in it is killed, and it is removed unless the test failed.
func NewHome(t testing.TB) *Home {
	base, err := os.MkdirTemp("", "perennial-")
	require.NoError(t, err)
	return NewHomeIn(t, base)
}

// NewHomeIn is NewHome below a directory that exists.
func NewHomeIn(t testing.TB, base string) *Home {
	h := &Home{t: t, Dir: filepath.Join(base, "state"), Work: filepath.Join(base, "work")}
	require.NoError(t, os.MkdirAll(h.Work, 0o755))
	t.Cleanup(func() {
		h.KillAll()
		if t.Failed() {
			t.Logf("state directory kept: %s", h.Dir)
			return
		}
		_ = os.RemoveAll(base)
	})
	return h
}

// Result is how a command ended.
type Result struct {
	Code           int
	Stdout, Stderr string
}

// With returns the same home for a user with one more variable, NAME=value.
func (h *Home) With(variable string) *Home {
	other := *h
	other.Env = append(slices.Clone(h.Env), variable)
	return &other
}

// Command prepares a command of starter's.
func (h *Home) Command(ctx context.Context, args ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, Program(h.t), args...)
	command.Dir, command.Env = h.Work, h.environment()
	return command
}

// environment is the user's.
func (h *Home) environment() []string {
	environment := append(os.Environ(), "PERENNIAL_HOME="+h.Dir, "LEDGER="+h.LedgerFile(), "NO_COLOR=1",
		"TEMPORAL_ADDRESS=") // the embedded server, whatever the user of the test has set
	return append(environment, h.Env...)
}

// Run runs a command of starter's to its end.
func (h *Home) Run(args ...string) Result {
	h.t.Helper()
	Program(h.t) // which may have to be built: that takes none of the command's time
	ctx, cancel := context.WithTimeout(h.t.Context(), Patience)
	defer cancel()
	command := h.Command(ctx, args...)
	// A host that the command starts must not keep the command's pipes open.
	command.WaitDelay = time.Second
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	err := command.Run()
	require.NoError(h.t, ctx.Err(), "starter %s did not end:\n%s", strings.Join(args, " "), stderr.String())
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		require.NoError(h.t, err, "starter %s", strings.Join(args, " "))
	}
	return Result{command.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// Must is Run for a command that has to succeed; it returns its standard output.
func (h *Home) Must(args ...string) string {
	h.t.Helper()
	result := h.Run(args...)
	require.Zero(h.t, result.Code, "starter %s\n%s%s", strings.Join(args, " "), result.Stdout, result.Stderr)
	return result.Stdout
}

// Serve makes sure that a host runs.
func (h *Home) Serve() {
	h.t.Helper()
	h.Must("serve", "--detach")
}

// Write puts a file into the working directory.
func (h *Home) Write(name, content string) string {
	path := filepath.Join(h.Work, name)
	require.NoError(h.t, os.WriteFile(path, []byte(content), 0o755))
	return path
}

// Await waits until a condition holds.
func (h *Home) Await(what string, holds func() bool) {
	h.t.Helper()
	h.AwaitFor(Patience, what, holds)
}

// AwaitFor is Await with a limit of one's own.
func (h *Home) AwaitFor(limit time.Duration, what string, holds func() bool) {
	h.t.Helper()
	deadline := time.Now().Add(limit)
	for !holds() {
		require.False(h.t, time.Now().After(deadline), "waited %v for: %s\n%s", limit, what, h.LogTail())
		time.Sleep(glance)
	}
}

// LogTail is the end of the host's log.
func (h *Home) LogTail() string {
	content, _ := os.ReadFile(filepath.Join(h.Dir, "log", "host.log"))
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	return "host log:\n  " + strings.Join(lines[max(0, len(lines)-25):], "\n  ")
}
