package remote

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/testsuite/endtoend"
	"github.com/perennial-ml/perennial/testsuite/sshlab"
)

func TestStory1_HostsOfManyKindsAndNothingGoesWrong(t *testing.T) {
	t.Parallel()
	w := newWorld(t, sshlab.Spec{}, sshlab.Spec{Latency: 20 * time.Millisecond}, sshlab.Spec{Behind: "host0"},
		sshlab.Spec{Password: "open sesame"}, sshlab.Spec{Without: []string{"tar", "gzip", "python3"}})
	run := w.follow(short(15, 5))
	require.Equal(t, "DONE", run.Finished(endtoend.Patience).Status)
	w.RequireExactlyOnce(run.ID(), 15, nil)
	secrets := filepath.Join(w.Dir, "experiments", run.ID(), "secrets")
	require.Equal(t, []string{secrets}, filesWith(t, w.Dir, "open sesame"))
	for _, h := range w.lab.Hosts {
		require.NotEmpty(t, attemptsOn(t, h), "%s had nothing to do", h.Name)
		require.Empty(t, filesWith(t, h.Home(), "open sesame"))
	}
	w.requireNothingLeft()
}

// filesWith are the files below a directory that hold a text.
func filesWith(t *testing.T, directory, text string) (found []string) {
	require.NoError(t, filepath.WalkDir(directory, func(path string, _ os.DirEntry, _ error) error {
		content, _ := os.ReadFile(path) // what is gone by now, as databases' files go, holds nothing
		if strings.Contains(string(content), text) {
			found = append(found, path)
		}
		return nil
	}))
	return found
}

func TestReuseModeRunsTrialAfterTrialInOnePlace(t *testing.T) {
	t.Parallel()
	w := newWorld(t, sshlab.Spec{})
	plan := endtoend.Plan{Trials: 4, Concurrency: 2, Platform: strings.Replace(w.machines(), "  machineList:", "  reuseMode: true\n  machineList:", 1),
		Script: "#!/bin/sh\npwd >> \"$LEDGER\"; echo perennial: final 1\n"}
	run := w.follow(plan)
	require.Equal(t, 4, run.Finished(endtoend.Patience).Trials["SUCCEEDED"])
	content, err := os.ReadFile(w.LedgerFile())
	require.NoError(t, err)
	places := strings.Fields(string(content))
	require.Len(t, places, 4)
	require.Len(t, slices.Compact(slices.Sorted(slices.Values(places))), 1, "each had a place of its own: %v", places)
	w.requireNothingLeft()
}

// attemptsOn are the directories of all attempts on a host.
func attemptsOn(t *testing.T, h *sshlab.Host) (found []string) {
	require.NoError(t, filepath.WalkDir(h.Home(), func(path string, entry os.DirEntry, err error) error {
		if err == nil && entry.IsDir() && strings.HasPrefix(entry.Name(), "attempt-") {
			found = append(found, path)
		}
		return err
	}))
	return found
}

func TestStory2_TheControllerIsKilledWhileTheHostStartsTheCommand(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"submit.lock-held-before-exec", "submit.lock-held-before-exec:stall"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, sshlab.Spec{})
			host := w.lab.Hosts[0]
			host.SetEnv("PERENNIAL_CRASH_POINT=" + point)
			run := w.follow(short(2, 1))
			w.Await("the specification of an attempt", func() bool { return len(specifications(t, host)) > 0 })
			host.SetEnv()
			w.KillAndAwait(endtoend.Host)
			require.Equal(t, "DONE", run.Finished(2*endtoend.Patience).Status)
			w.RequireExactlyOnce(run.ID(), 2, nil)
			w.requireNothingLeft()
		})
	}
}

// specifications are what a submission writes last before its crash point.
func specifications(t *testing.T, h *sshlab.Host) (found []string) {
	for _, attempt := range attemptsOn(t, h) {
		if _, err := os.Stat(filepath.Join(attempt, "job.json")); err == nil {
			found = append(found, attempt)
		}
	}
	return found
}

func TestStory2_TheControllerIsKilledInTheMomentARunnerAppears(t *testing.T) {
	t.Parallel()
	w := newWorld(t, sshlab.Spec{Latency: 20 * time.Millisecond})
	run := w.follow(short(4, 2))
	seen := map[string]bool{}
	for range 3 {
		w.Await("a new runner", func() bool {
			for _, runner := range w.runners() {
				if !seen[runner.attempt] {
					seen[runner.attempt] = true
					return true
				}
			}
			return run.Ended()
		})
		w.KillAndAwait(endtoend.Host)
	}
	require.Equal(t, "DONE", run.Finished(2*endtoend.Patience).Status)
	w.RequireExactlyOnce(run.ID(), 4, nil)
	w.requireNothingLeft()
}

func TestStory2_ARunnerThatIsSlowToStartIsAdoptedAndNeverStartedTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t, sshlab.Spec{})
	w.lab.Hosts[0].SetEnv("PERENNIAL_CRASH_POINT=runner.started-before-child-exec:stall")
	run := w.follow(short(1, 1))
	w.Await("a stalled runner", func() bool { return len(w.runners()) == 1 })
	stalled := w.runners()
	w.lab.Hosts[0].SetEnv()
	w.KillAndAwait(endtoend.Host)
	w.AwaitState(run.ID(), 0, "RUNNING", 1)
	w.Await("another host", func() bool { return len(w.Processes(endtoend.Host)) == 1 })
	require.Equal(t, stalled, w.runners(), "a second runner was started")
	kill(t, stalled[0].PID)
	require.Equal(t, "DONE", run.Finished(2*endtoend.Patience).Status)
	require.Equal(t, 2, w.Trial(run.ID(), 0).Attempts)
	w.RequireExactlyOnce(run.ID(), 1, map[string]bool{stalled[0].attempt: true})
	w.requireNothingLeft()
}

// daemonised is a trial that leaves a process which has a session of its own and
// no environment, and whose second attempt writes down whether that one lives.
const daemonised = `#!/bin/sh
note() { printf '%s %s %s %s\n' "$PERENNIAL_TRIAL" "$PERENNIAL_ATTEMPT" $$ "$*" >> "$LEDGER"; }
note start "$(cksum < "$PERENNIAL_PARAMETERS" | tr ' ' '-')"
if [ "$PERENNIAL_ATTEMPT" = 1 ]; then
  setsid env -i sleep 600 > /dev/null 2>&1 &
  echo $! > "$HOME/daemon"
  note metric 1001
  echo "perennial: intermediate 1001"
  sleep 600
fi
grep -q '^State:.[^ZX]' "/proc/$(cat "$HOME/daemon")/status" 2> /dev/null && note start twin
sleep 2
note metric 1
echo "perennial: final 1"
note end
`

func TestStory3_TheRunnerOnAHostIsKilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, sshlab.Spec{})
	run := w.follow(endtoend.Plan{Trials: 1, Concurrency: 1, Script: daemonised})
	id := run.ID()
	w.Await("the daemon", func() bool { return w.has("sleep 600") })
	trial := w.Trial(id, 0).ID
	runner := w.runnerOf(trial, 1)
	w.Await("the runner's note of the daemon", func() bool { return w.noted(runner.host) })
	kill(t, runner.PID)
	require.Equal(t, "DONE", run.Finished(2*endtoend.Patience).Status)
	require.Equal(t, 2, w.Trial(id, 0).Attempts)
	require.Equal(t, "runner-died", w.attempts(run.ID(), 0)[0].Reason.Code)
	w.RequireExactlyOnce(id, 1, map[string]bool{runner.attempt: true})
	w.requireNothingLeft()
}

func (w *world) has(command string) bool {
	for _, process := range w.left() {
		if process.Command == command {
			return true
		}
	}
	return false
}

// noted tells whether a process record names the daemon: nothing else gives it
// away.
func (w *world) noted(h *sshlab.Host) bool {
	daemon, err := os.ReadFile(filepath.Join(h.Home(), "daemon"))
	if err != nil {
		return false
	}
	for _, attempt := range attemptsOn(w.t, h) {
		content, _ := os.ReadFile(filepath.Join(attempt, "process.json"))
		if strings.Contains(string(content), `"pid":`+strings.TrimSpace(string(daemon))+`,`) {
			return true
		}
	}
	return false
}

func TestStory5_StopWithFourRunningOnTwoHostsAndResume(t *testing.T) {
	t.Parallel()
	w := newWorld(t, sshlab.Spec{}, sshlab.Spec{})
	run := w.follow(endtoend.Plan{Trials: 6, Concurrency: 4, Steps: "18", Pause: "0.5"})
	id := run.ID()
	w.AwaitRunning(id, 4)
	w.Must("stop", id)
	require.Equal(t, "STOPPED", run.Finished(endtoend.Patience).Status)
	require.Empty(t, w.runners())
	interrupted := map[string]bool{}
	for _, row := range w.Trials(id) {
		if row.State == "SUCCEEDED" {
			continue
		}
		require.Equal(t, "USER_CANCELED", row.State)
		require.Equal(t, "stopped", row.Reason.Code)
		interrupted[fmt.Sprintf("%s/%d", row.ID, row.Attempts)] = true
	}
	require.GreaterOrEqual(t, len(interrupted), 4)
	require.Equal(t, "DONE", w.Start("resume", id, "--output", "json").Finished(endtoend.Patience).Status)
	w.RequireExactlyOnce(id, 6, interrupted)
	w.requireNothingLeft()
}

func TestStory10_TheControllerLosesItsPowerAndTheHostsGoOn(t *testing.T) {
	t.Parallel()
	lab := sshlab.New(t, sshlab.Spec{}, sshlab.Spec{})
	disk, home := endtoend.NewDisk(t)
	w := (&world{home, t, lab}).settle("work")
	run := w.follow(endtoend.Plan{Trials: 8, Concurrency: 4, Steps: "2 + PERENNIAL_SEQUENCE % 3 * 8", Pause: "0.4"})
	id := run.ID()
	w.AwaitRunning(id, 3)
	w.Await("a first end on record", func() bool {
		return slices.ContainsFunc(w.Trials(id), func(row endtoend.Trial) bool { return row.State == "SUCCEEDED" })
	})
	disk.CutPower()
	require.NotEmpty(t, w.runners(), "trials on the hosts live on")
	require.Equal(t, "DONE", w.Start("resume", id, "--output", "json").Finished(2*endtoend.Patience).Status)
	w.RequireExactlyOnce(id, 8, nil)
	w.requireNothingLeft()
}
