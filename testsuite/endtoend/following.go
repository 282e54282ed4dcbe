package endtoend

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/stretchr/testify/require"
)

// Event is one line of `run --output json`.
type Event struct {
	Event  string         `json:"event"`
	ID     string         `json:"id"`
	Status string         `json:"status"`
	Trial  *Trial         `json:"trial"`
	Trials map[string]int `json:"trials"`
	Stderr string         `json:"stderr"`
	Code   string         `json:"code"`
	Text   string         `json:"text"`
}

// Following is a command of starter's that runs beside the test; what it prints
// goes to files outside the state directory.
type Following struct {
	h       *Home
	command *exec.Cmd
	stdout  string
	stderr  string
	ended   chan struct{}
}

// Start starts a command and leaves it running.
func (h *Home) Start(args ...string) *Following {
	h.t.Helper()
	return h.start(h.Command(context.Background(), args...), args[0])
}

// start starts a program of the user's; name is what its output is kept by.
func (h *Home) start(command *exec.Cmd, name string) *Following {
	h.t.Helper()
	command.Dir, command.Env = h.Work, h.environment()
	f := &Following{h: h, command: command, ended: make(chan struct{})}
	f.stdout, command.Stdout = h.output(name + ".out")
	f.stderr, command.Stderr = h.output(name + ".err")
	require.NoError(h.t, command.Start())
	go func() { _ = command.Wait(); close(f.ended) }()
	return f
}

func (h *Home) output(name string) (string, *os.File) {
	file, err := os.CreateTemp(h.Work, "*."+name)
	require.NoError(h.t, err)
	return file.Name(), file
}

// Follow starts an experiment and returns once it was accepted.
func (h *Home) Follow(file string) *Following {
	h.t.Helper()
	f := h.Start("run", file, "--output", "json")
	f.ID()
	return f
}

// Events are the events so far; a half-written last line is left out.
func (f *Following) Events() (events []Event) {
	content, err := os.ReadFile(f.stdout)
	require.NoError(f.h.t, err)
	whole := content[:bytes.LastIndexByte(content, '\n')+1]
	for line := range strings.Lines(string(whole)) {
		var event Event
		require.NoError(f.h.t, json.Unmarshal([]byte(line), &event), "not an event: %s", line)
		events = append(events, event)
	}
	return events
}

// ID waits for the first event and returns the experiment's id.
func (f *Following) ID() string {
	f.h.t.Helper()
	f.h.Await("the first event of "+f.said(), func() bool { return len(f.Events()) > 0 || f.Ended() })
	events := f.Events()
	require.NotEmpty(f.h.t, events, "it ended without an event: %s", f.said())
	return events[0].ID
}

func (f *Following) said() string {
	content, _ := os.ReadFile(f.stderr)
	return strings.Join(f.command.Args[1:], " ") + " (" + filepath.Base(f.stderr) + "): " + string(content)
}

// Said is what the command has printed so far.
func (f *Following) Said() string {
	content, err := os.ReadFile(f.stdout)
	require.NoError(f.h.t, err)
	return string(content)
}

// Ended tells whether the command has ended.
func (f *Following) Ended() bool {
	select {
	case <-f.ended:
		return true
	default:
		return false
	}
}

// Wait waits for the end and returns the exit code, -1 for a death by a signal.
func (f *Following) Wait(limit time.Duration) int {
	f.h.t.Helper()
	f.h.AwaitFor(limit, "the end of "+f.said(), f.Ended)
	return f.command.ProcessState.ExitCode()
}

// Finished waits for the end and returns the last event, which must say that the
// experiment is over.
func (f *Following) Finished(limit time.Duration) Event {
	f.h.t.Helper()
	f.Wait(limit)
	events := f.Events()
	require.NotEmpty(f.h.t, events, f.said())
	last := events[len(events)-1]
	require.Equal(f.h.t, "finished", last.Event, "%+v\n%s\n%s", last, f.said(), f.h.LogTail())
	return last
}

// Signal sends a signal to the command itself.
func (f *Following) Signal(signal syscall.Signal) { _ = f.command.Process.Signal(signal) }
