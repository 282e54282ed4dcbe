package webui

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"github.com/perennial-ml/perennial/testsuite/endtoend"
	"github.com/perennial-ml/perennial/workflows"
)

// endless is a trial that reports once and runs until it is ended, with a process
// of its own beside it.
const endless = `#!/bin/sh
echo "perennial: intermediate 0.5"
sleep 3600 &
wait
`

// quick is a trial that is over at once.
const quick = `#!/bin/sh
echo "perennial: intermediate 0.5"
echo "perennial: final 0.$(( 90 + PERENNIAL_SEQUENCE ))"
`

// window is an experiment as Temporal's own tools see it.
type window struct {
	t        testing.TB
	home     *endtoend.Home
	id       string
	temporal client.Client
}

// begin starts an experiment and looks at it.
func begin(t testing.TB, home *endtoend.Home, plan endtoend.Plan) *window {
	t.Helper()
	w := &window{t: t, home: home, id: home.Follow(home.Experiment(plan)).ID()}
	w.temporal = home.TemporalWithKeys(w.id)
	t.Cleanup(w.temporal.Close)
	return w
}

func (w *window) workflow() string { return workflows.ExperimentWorkflowID(w.id) }

func (w *window) trial(n int) string { return workflows.TrialWorkflowID(w.id, n) }

// signal sends what the Web UI sends: a signal with this input, or with none.
func (w *window) signal(workflow, name string, input any) {
	w.t.Helper()
	require.NoError(w.t, w.temporal.SignalWorkflow(w.t.Context(), workflow, "", name, input))
}

// status waits for an experiment's status.
func (w *window) status(status string) endtoend.View {
	w.t.Helper()
	var view endtoend.View
	w.home.Await(w.id+" "+status, func() bool {
		view = w.home.Show(w.id)
		return view.Status == status
	})
	return view
}

// requireGone waits until no runner of the trial is left.
func (w *window) requireGone(row endtoend.Trial) {
	w.t.Helper()
	w.home.Await("the end of every process of trial "+row.ID, func() bool {
		for _, process := range w.home.Processes(endtoend.Runner) {
			if strings.HasPrefix(process.Attempt(), row.ID+"/") {
				return false
			}
		}
		return true
	})
}

// CommandLineVariable is the path of Temporal's own program, else it is sought
// on the path.
const CommandLineVariable = "PERENNIAL_TEMPORAL_CLI"

// commandLine runs Temporal's own program as docs/temporal.md says.
func (w *window) commandLine(arguments ...string) string {
	w.t.Helper()
	program := os.Getenv(CommandLineVariable)
	if program == "" {
		program, _ = exec.LookPath("temporal")
	}
	if program == "" {
		endtoend.Skip(w.t, "no temporal on the path: go install github.com/temporalio/cli/cmd/temporal@v1.5.1")
	}
	at := w.home.Show(w.id).Temporal
	token, err := os.ReadFile(at.TokenFile)
	require.NoError(w.t, err)
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, program, arguments...)
	command.Env = append(os.Environ(), "TEMPORAL_ADDRESS="+at.Address, "TEMPORAL_NAMESPACE="+at.Namespace,
		"TEMPORAL_TLS=false", "TEMPORAL_API_KEY="+strings.TrimSpace(string(token)))
	out, err := command.CombinedOutput()
	require.NoError(w.t, err, fmt.Sprintf("temporal %s\n%s", strings.Join(arguments, " "), out))
	return string(out)
}
