package endtoend

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// restores is how many random backups are restored. Each costs a start of the host.
var restores = flag.Int("restores", 5, "backups of the record to restore at random")

// detached starts an experiment that nobody follows: who follows reads the record
// that is there when he begins.
func (h *Home) detached(plan Plan) string {
	h.Must("run", h.Experiment(plan), "--detach")
	return h.only()
}

// gated is a plan of which all trials but the first ones wait for a word, in the middle
// of what they do: so the test knows what a backup knows.
func gated(trials, concurrency, first int, steps string) Plan {
	gate := fmt.Sprintf("while [ \"$PERENNIAL_SEQUENCE\" -ge %d ] && [ ! -e \"$LEDGER.go\" ]; do sleep 0.1; done\nstep=0\n", first)
	text := strings.NewReplacer("STEPS", steps, "PAUSE", "0.2", "step=0\n", gate).Replace(script)
	return Plan{Trials: trials, Concurrency: concurrency, Script: text}
}

// open lets them go on.
func (h *Home) open() { require.NoError(h.t, os.WriteFile(h.LedgerFile()+".go", nil, 0o644)) }

func (h *Home) awaitDone(id string) View {
	h.t.Helper()
	h.AwaitFor(4*Patience, "the end of the experiment", func() bool { return h.Show(id).Status == "DONE" })
	return h.Show(id)
}

func TestStory11_AnOlderRecordComesBackUnderNewerWorkflows(t *testing.T) {
	t.Parallel()
	h := NewHome(t)
	id := h.detached(gated(14, 3, 3, "3"))
	h.Await("some trials to end", func() bool { return settled(h, id) == 3 })
	backup := h.BackUp()
	h.open()
	h.Await("more trials to end", func() bool { return settled(h, id) >= 8 })
	h.Must("serve", "--stop")
	h.Restore(backup)
	h.Serve()
	view := h.awaitDone(id)
	h.RequireExactlyOnce(id, 14, nil)
	require.NotNil(t, view.Recovered, "the user is told")
	require.True(t, view.Recovered.Behind)
	require.GreaterOrEqual(t, view.Recovered.TakenIn, 2)
	require.Empty(t, view.Recovered.Ended)
	require.Contains(t, h.Must("show", id), "the record came from a backup")
	h.RequireNothingLeft()
}

func TestStory11_ARecordWhoseWriteAheadLogWasCutInHalf(t *testing.T) {
	t.Parallel()
	h := NewHome(t)
	id := h.detached(short(14, 3))
	h.Await("some trials to end", func() bool { return settled(h, id) >= 6 })
	h.KillAndAwait(Host)
	wal := h.recordFiles()[1]
	info, err := os.Stat(wal)
	require.NoError(t, err)
	require.NoError(t, os.Truncate(wal, info.Size()/2))
	h.Serve()
	h.awaitDone(id)
	h.RequireExactlyOnce(id, 14, nil)
	h.RequireNothingLeft()
}

func TestStory11_AnOlderRecordComesBackAndTemporalIsGone(t *testing.T) {
	t.Parallel()
	h := NewHome(t)
	id := h.detached(gated(14, 3, 3, "3"))
	h.Await("some trials to end", func() bool { return settled(h, id) == 3 })
	backup := h.BackUp()
	h.open()
	h.Await("more trials to end", func() bool { return settled(h, id) >= 8 })
	h.KillAndAwait(Host)
	h.Restore(backup)
	require.NoError(t, os.RemoveAll(filepath.Join(h.Dir, "temporal")))
	h.Serve()
	view := h.awaitDone(id)
	h.RequireExactlyOnce(id, 14, nil)
	require.NotNil(t, view.Recovered)
	require.GreaterOrEqual(t, view.Recovered.TakenIn, 2)
	h.RequireNothingLeft()
}

func TestStory11_RunsThatDoNotTellWhatTheyRanWithAreEndedAndNamed(t *testing.T) {
	t.Parallel()
	h := NewHome(t)
	id := h.detached(gated(6, 2, 0, "1 + 400 * (PERENNIAL_ATTEMPT == 1 && PERENNIAL_SEQUENCE > 1 && PERENNIAL_SEQUENCE < 4)"))
	h.AwaitRunning(id, 2)
	backup := h.BackUp()
	h.open()
	running := h.AwaitRunning(id, 2)
	h.Await("the third and the fourth trial", func() bool { running = h.AwaitRunning(id, 2); return running[0].Sequence >= 2 })
	h.KillAndAwait(Host)
	h.Restore(backup)
	for _, forgotten := range running {
		require.NoError(t, os.Remove(filepath.Join(h.Dir, "experiments", id, "trials", forgotten.ID, "attempt-1", "parameter.cfg")))
	}
	h.Serve()
	view := h.awaitDone(id)
	require.NotNil(t, view.Recovered)
	require.Len(t, view.Recovered.Ended, 2)
	for _, forgotten := range running {
		require.Contains(t, strings.Join(view.Recovered.Ended, "\n"), forgotten.ID)
		require.Equal(t, 2, h.Trial(id, forgotten.Sequence).Attempts, "its number is used again by an attempt of its own")
	}
	require.Equal(t, 6, settled(h, id))
	h.RequireNothingLeft()
}

// Nobody can tell that such a backup is one: record and Temporal agree.
func TestStory11_ANumberThatABackupOfTheWholeStateGivesAnotherTrialRunsThatOneAlone(t *testing.T) {
	t.Parallel()
	h := NewHome(t)
	id := h.detached(gated(1, 2, 0, "1"))
	h.AwaitRunning(id, 1)
	h.Must("serve", "--stop")
	backup := h.BackUpState()
	h.Serve()
	one := h.addSecond(id, "0.25", 1)
	h.KillAndAwait(Host)
	h.RestoreState(backup)
	h.Serve()
	require.Equal(t, one.ID, h.addSecond(id, "0.75", 2).ID)
	require.Contains(t, strings.Join(h.Show(id).Recovered.Ended, "\n"), one.ID, "the user is told")
	h.open()
	h.awaitDone(id)
	require.Contains(t, string(h.Export(id)[one.ID].Parameter), "0.75")
	require.False(t, h.Ledger()[one.ID][1].Ended, "it was ended")
	require.True(t, h.Ledger()[one.ID][2].Ended)
	h.RequireNothingLeft()
}

// addSecond adds the second trial of an experiment, and waits until an attempt of it runs.
func (h *Home) addSecond(id, x string, attempt int) Trial {
	h.Must("trials", "add", id, `{"x": `+x+`, "n": 5.0}`)
	h.Must("update", "max-trials", id, "2")
	return h.AwaitState(id, 1, "RUNNING", attempt)
}

func TestStory11_AnExperimentThatTheBackupDoesNotKnowIsEnded(t *testing.T) {
	t.Parallel()
	h := NewHome(t)
	first := h.detached(short(2, 2))
	h.awaitDone(first)
	backup := h.BackUp()
	h.Must("run", h.Experiment(long(4, 2)), "--detach")
	h.Await("two runners", func() bool { return len(h.Processes(Runner)) == 2 })
	h.KillAndAwait(Host)
	h.Restore(backup)
	h.Serve()
	h.Await("the end of the runners", func() bool { return len(h.Processes(Runner)) == 0 })
	require.Equal(t, first, h.only())
	h.RequireNothingLeft()
}

// Told as the story tells it, at points that nobody chose: whatever was copied when,
// and however the host ended, every trial runs once and every result is there.
func TestStory11_BackupsTakenAndRestoredAtRandomLoseNothing(t *testing.T) {
	t.Parallel()
	h := NewHome(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 11))
	trials := 12 * (*restores)
	id := h.detached(Plan{Trials: trials, Concurrency: 4, Steps: "2", Pause: "0.15"})
	taken := 0
	for restored := range *restores {
		backup := h.BackUp()
		before := settled(h, id)
		wanted := min(trials, before+1+random.IntN(9))
		h.Await("trials to end", func() bool { return settled(h, id) >= wanted })
		ended := settled(h, id)
		if random.IntN(2) == 0 {
			h.Must("serve", "--stop")
		} else {
			h.KillAndAwait(Host)
		}
		h.Restore(backup) // by now no command may ask anything: it would bring a host up
		h.Serve()
		h.Await("everything that had ended", func() bool { return settled(h, id) >= ended })
		if learned := h.Show(id).Recovered; learned != nil {
			taken = learned.TakenIn
		}
		t.Logf("restore %d: %d had ended at the backup, %d at the end, %d taken in", restored, before, ended, taken)
	}
	h.awaitDone(id)
	h.RequireExactlyOnce(id, trials, nil)
	require.Positive(t, taken)
	h.RequireNothingLeft()
}
