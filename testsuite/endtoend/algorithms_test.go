package endtoend

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/testsuite/machine"
)

// counting is a tuner as a user of NNI writes it. It proposes how many proposals it
// has made, and notes the processes that it lives in.
const counting = `
import os
from nni.tuner import Tuner

class Counting(Tuner):
    def __init__(self, notes):
        self.proposals = 0
        with open(notes, "a") as f:
            f.write("%d\n" % os.getpid())

    def update_search_space(self, search_space):
        pass

    def generate_parameters(self, parameter_id, **kwargs):
        self.proposals += 1
        return {"x": 0.5, "proposal": self.proposals - 1}

    def receive_trial_result(self, parameter_id, parameters, value, **kwargs):
        assert parameters["proposal"] == parameter_id
`

// countingCommand is the same as a program that speaks JSON lines.
const countingCommand = `#!/bin/sh
echo $$ >> "$1"
proposals=0
while read -r line; do
  case $line in *'"suggest"'*)
    trial=${line##*:}
    echo "{\"trial\":${trial%\}},\"parameters\":{\"x\":0.5,\"proposal\":$proposals}}"
    proposals=$(( proposals + 1 ));;
  esac
done
`

// tunerPids are the processes that a counting tuner has lived in.
func (h *Home) tunerPids() (pids []int) {
	content, err := os.ReadFile(filepath.Join(h.Work, "pids"))
	if os.IsNotExist(err) {
		return nil
	}
	require.NoError(h.t, err)
	for _, word := range strings.Fields(string(content)) {
		pid, err := strconv.Atoi(word)
		require.NoError(h.t, err)
		pids = append(pids, pid)
	}
	return pids
}

// surviveKills runs an experiment whose tuner is a process of its own, kills the
// host and the tuner in turn, and expects that neither is noticed.
func surviveKills(t *testing.T, h *Home, tuner string) {
	plan := short(10, 2)
	plan.More = tuner
	run := h.Follow(h.Experiment(plan))
	ended := func() int { return h.Show(run.ID()).Trials["SUCCEEDED"] }
	h.AwaitFor(2*Patience, "two trials", func() bool { return ended() >= 2 })
	first := h.tunerPids()
	require.Len(t, first, 1)
	h.KillAndAwait(Host)
	h.Await("the tuner's end with its host", func() bool { return syscall.Kill(first[0], 0) != nil })
	h.AwaitFor(2*Patience, "another tuner, and a trial of its", func() bool { return len(h.tunerPids()) > 1 && ended() >= 5 })
	pids := h.tunerPids()
	require.NoError(t, syscall.Kill(pids[len(pids)-1], syscall.SIGKILL))
	require.Equal(t, "DONE", run.Finished(3*Patience).Status)
	h.RequireExactlyOnce(run.ID(), 10, nil)
	trials := map[string]int{}
	for _, row := range h.Trials(run.ID()) {
		trials[row.ID] = row.Sequence
	}
	for id, exported := range h.Export(run.ID()) {
		var parameters struct{ Proposal int }
		require.NoError(t, json.Unmarshal(exported.Parameter, &parameters))
		require.Equal(t, trials[id], parameters.Proposal, "a rebuilt tuner goes on where it was")
	}
	h.Await("the tuner's end with its experiment", func() bool {
		pids := h.tunerPids()
		return syscall.Kill(pids[len(pids)-1], 0) != nil
	})
	require.GreaterOrEqual(t, len(h.tunerPids()), 3)
	h.RequireNothingLeft()
}

func TestATunerOfAUsersOwnClassOutlivesItsHostAndItself(t *testing.T) {
	t.Parallel()
	for _, release := range []string{"3.0", "2.10"} {
		t.Run("nni "+release, func(t *testing.T) {
			h := NewHome(t).With("PATH=" + filepath.Dir(machine.PythonWithNNI(t, release)) + ":" + os.Getenv("PATH"))
			h.Write("mine.py", counting)
			surviveKills(t, h, "tuner:\n  className: mine.Counting\n  codeDirectory: .\n  classArgs: {notes: "+filepath.Join(h.Work, "pids")+"}\n")
		})
	}
}

func TestATunerThatIsAProgramOutlivesItsHostAndItself(t *testing.T) {
	t.Parallel()
	h := NewHome(t)
	h.Write("tuner.sh", countingCommand)
	surviveKills(t, h, "tuner:\n  command: ./tuner.sh pids\n")
}

func TestTheExampleOfATunerAndAnAssessorOfOnesOwnRuns(t *testing.T) {
	t.Parallel()
	interpreter := machine.PythonWithNNI(t, "3.0")
	h := NewHome(t).With("PATH=" + filepath.Dir(interpreter) + ":" + os.Getenv("PATH"))
	run := h.Follow(filepath.Join(Root(), "examples", "own-tuner", "experiment.yml"))
	finished := run.Finished(3 * Patience)
	require.Equal(t, "DONE", finished.Status)
	require.Equal(t, 16, finished.Trials["SUCCEEDED"]+finished.Trials["EARLY_STOPPED"], "%+v", finished.Trials)
	for _, row := range h.Trials(run.ID()) {
		if row.State == "EARLY_STOPPED" {
			require.Equal(t, "assessor", row.Reason.Code)
		}
	}
	require.Less(t, h.Show(run.ID()).Best.Metric, 20.0, "its steps are drawn by lot, and what is worse is stopped")
	h.RequireNothingLeft()
}

// unmended is a program that fails as one does whose library is missing, until there
// is a file named mended.
const unmended = `import os
echo = open("tries", "a").write("x")
def look():
    if not os.path.exists("mended"):
        raise ModuleNotFoundError("No module named 'optuna'")
look()
os.execv("/bin/sh", ["sh", "./tuner.sh", "pids"])
`

func TestATunerThatCannotStartIsFoundBeforeAndWaitedForOnlyAsLongAsThatMakesSense(t *testing.T) {
	t.Parallel()
	h := NewHome(t)
	h.Write("tuner.py", unmended)
	h.Write("tuner.sh", countingCommand)
	plan := short(2, 1)
	plan.More = "tuner:\n  command: python3 tuner.py\n"
	file := h.Experiment(plan)
	checked := h.Run("validate", file)
	require.Equal(t, 2, checked.Code)
	require.Contains(t, checked.Stderr, "tuner.command: tuner python3 tuner.py: it exited with code 1: ModuleNotFoundError: No module named 'optuna'")
	require.Contains(t, checked.Stderr, "line 5, in look")
	require.NoError(t, os.Remove(filepath.Join(h.Work, "tries")))

	run := h.Follow(file)
	id := run.ID()
	h.Await("the third failure", func() bool { return h.Show(id).Reason.Code == "tuner-failed" })
	tries, err := os.ReadFile(filepath.Join(h.Work, "tries"))
	require.NoError(t, err)
	require.Len(t, tries, 3)
	shown := h.Must("show", id)
	require.Contains(t, shown, "line 5, in look\n")
	log := filepath.Join(h.Dir, "experiments", id, "log", "dispatcher.log")
	require.Contains(t, shown, "log: "+log)
	require.FileExists(t, log)
	h.Write("mended", "")
	h.Must("resume", id, "--detach")
	require.Equal(t, "DONE", run.Finished(Patience).Status)
	require.Empty(t, h.Show(id).Reason.Code)
	h.RequireNothingLeft()
}
