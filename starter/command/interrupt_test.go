package command

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/perennial-ml/perennial/experiment"
	"github.com/perennial-ml/perennial/gpu"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/trial"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

// deaf is an engine of which no call returns, whatever becomes of its context, and an
// input that nothing ever comes from.
type deaf struct {
	Engine
	called chan<- struct{}
	other  External
}

func (d deaf) hang() {
	select {
	case d.called <- struct{}{}:
	default:
	}
	select {}
}

func (d deaf) Check() error                                    { d.hang(); return nil }
func (d deaf) Find(context.Context) (Host, error)              { d.hang(); return Host{}, nil }
func (d deaf) Ensure(context.Context) (Host, error)            { d.hang(); return Host{}, nil }
func (d deaf) Serve(context.Context, Serving) error            { d.hang(); return nil }
func (d deaf) Stop(context.Context) error                      { d.hang(); return nil }
func (d deaf) Connect(context.Context, Host) (Client, error)   { d.hang(); return nil, nil }
func (d deaf) Probe(context.Context) map[string][]trial.Reason { d.hang(); return nil }
func (d deaf) Examine(context.Context) (string, error)         { d.hang(); return "", nil }
func (d deaf) Unit(io.Writer) error                            { d.hang(); return nil }
func (d deaf) Read([]byte) (int, error)                        { d.hang(); return 0, nil }
func (d deaf) External() External                              { return d.other }
func (d deaf) Link(Host, string) string                        { return "" }
func (d deaf) Try(context.Context, experiment.Platform) ([]platforms.HostState, error) {
	d.hang()
	return nil, nil
}
func (d deaf) MoveRecord(context.Context, string, string, func(string, int)) error {
	d.hang()
	return nil
}
func (d deaf) OpenNNI(context.Context, Host, NNIPort) (string, error) { d.hang(); return "", nil }
func (d deaf) Mark() string                                           { return "" }
func (d deaf) Place(string, experiment.Platform, func(platforms.WithLeftovers) error) error {
	d.hang()
	return nil
}
func (d deaf) Rights(context.Context, experiment.Platform) (string, error) {
	d.hang()
	return "", nil
}
func (d deaf) GPUs(context.Context, string, experiment.Platform) ([]gpu.Host, error) {
	d.hang()
	return nil, nil
}

// leaves are all commands that do something, each with arguments that it takes.
func leaves(cmd *cobra.Command, arguments map[string][]string) [][]string {
	var all [][]string
	for _, child := range cmd.Commands() {
		all = append(all, leaves(child, arguments)...)
	}
	if path := strings.Fields(cmd.CommandPath())[1:]; cmd.Runnable() && len(path) > 0 {
		all = append(all, append(path, arguments[strings.Join(path, " ")]...))
	}
	return all
}

// neverWait are the commands that ask no host.
var neverWait = map[string]bool{"platform": true, "completion": true, "help": true, "install-nnictl": true, "init": true, "version": true, "validate": true, "token": true}

func TestEveryCommandEndsOnceItIsInterruptedWhateverItWaitsFor(t *testing.T) {
	file := filepath.Join(t.TempDir(), "experiment.yml")
	require.NoError(t, os.WriteFile(file, []byte("searchSpace: {x: {_type: uniform, _value: [0, 1]}}\ntrialCommand: \"true\"\ntrialConcurrency: 1\ntuner: {name: Random}\ntrainingService: {platform: local}\n"), 0o600))
	space := filepath.Join(t.TempDir(), "space.json")
	require.NoError(t, os.WriteFile(space, []byte(`{"x": {"_type": "uniform", "_value": [0, 1]}}`), 0o600))
	arguments := map[string][]string{"run": {file}, "validate": {file}, "doctor": {file}, "logs": {"0", "--follow"}, "kill": {"0"}, "worker": {"--platform", "local"},
		"completion": {"bash"}, "install-nnictl": {t.TempDir()}, "trials add": {"-"}, "tuner": {"TPE"}, "init": {filepath.Join(t.TempDir(), "first")}, "keys": {"--rotate"}, "record move": {"file", "${env:DATABASE}"},
		"tag": {anID, "baseline"}, "update concurrency": {"8"}, "update max-trials": {"8"}, "update max-duration": {"8"}, "update search-space": {space}}
	s := newStage(t)
	for _, args := range leaves(s.World.root(), arguments) {
		t.Run(args[0], func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			s.accepted(anID)
			called := make(chan struct{}, 1)
			engine := deaf{s.engine, called, External{}}
			if args[0] == "worker" {
				engine.other.Address = "127.0.0.1:1"
			}
			s.World.Engine, s.World.In = engine, engine
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			code := make(chan int, 1)
			go func() { code <- s.runIn(ctx, args...) }()
			select {
			case <-called:
			case got := <-code:
				require.True(t, neverWait[args[0]] || args[0] == "update" && len(args) == 1, "%s did not wait: %d %s", args, got, s.err)
				return
			}
			interrupt()
			select {
			case got := <-code:
				require.Equal(t, ExitDetached, got)
			case <-time.After(patience):
				t.Fatal("it goes on")
			}
		})
	}
}

func TestAChangeThatIsInterruptedSaysWhetherAnythingWasAsked(t *testing.T) {
	s := newStage(t)
	s.accepted(anID)
	s.refuse = errors.New("connection refused")
	s.World.Patience = time.Hour
	ctx, interrupt := context.WithCancel(t.Context())
	s.World.Env = append(s.World.Env, "TERM=dumb")
	code := make(chan int, 1)
	go func() { code <- s.runIn(ctx, "update", "concurrency", "8") }()
	interrupt()
	require.Equal(t, ExitDetached, <-code)
	require.Empty(t, s.sent)
}

func TestAPipeThatNobodyWritesToIsNoInput(t *testing.T) {
	s := newStage(t)
	s.accepted(anID)
	pipe := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	file := filepath.Join(t.TempDir(), "experiment.yml")
	require.NoError(t, os.WriteFile(file, []byte("searchSpaceFile: "+pipe+"\ntrialCommand: \"true\"\ntrialConcurrency: 1\ntuner: {name: Random}\ntrainingService: {platform: local}\n"), 0o600))
	for _, args := range [][]string{{"validate", pipe}, {"run", pipe}, {"validate", file}, {"update", "search-space", pipe}, {"trials", "add", "@" + pipe}} {
		require.Equal(t, ExitBadInput, s.run(args...), args)
		require.Contains(t, s.err.String(), "is a pipe that nobody writes to", args)
	}
}
