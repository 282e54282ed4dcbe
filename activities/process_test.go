package activities_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/activities"
	"github.com/perennial-ml/perennial/experiment"
	"github.com/perennial-ml/perennial/metrics"
	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
)

// counting is a tuner in shell that proposes how many results it knows, and writes
// its process id to a file each time that it begins.
const counting = `echo $$ >> pids; known=0; while read -r line; do case $line in
	*'"suggest"'*) n=${line##*:}; n=${n%\}}; echo "{\"trial\":$n,\"parameters\":{\"known\":$known}}";;
	*'"observe"'*) known=$((known+1));;
	*'"value":-1'*) n=${line#*\"trial\":}; n=${n%%,*}; echo "{\"trial\":$n,\"stop\":true}";;
esac; done`

// processed is an experiment whose tuner is a command.
func processed(t *testing.T, command string) *fixture {
	directory := t.TempDir()
	f := newFixtureWith(t, func(e *experiment.Experiment) {
		e.Tuner = experiment.Algorithm{Command: command, CodeDirectory: directory}
	})
	f.StateDirectory = directory
	f.Variables = func(string) []string { return os.Environ() }
	f.Cleanup(func() { activities.EndAlgorithms(f.Activities, "") })
	return f
}

// pids are the processes of a counting tuner that began, in order.
func (f *fixture) pids() (pids []int) {
	content, err := os.ReadFile(filepath.Join(f.StateDirectory, "pids"))
	require.NoError(f, err)
	for line := range strings.Lines(string(content)) {
		var pid int
		require.NoError(f, json.Unmarshal([]byte(line), &pid))
		pids = append(pids, pid)
	}
	return pids
}

// assess keeps the assessor at work, as Temporal would, until the test has ended.
func (f *fixture) assess() {
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		for _, err := call[any](f, f.Assess, id); err != nil; _, err = call[any](f, f.Assess, id) {
		}
	}()
	f.Cleanup(func() {
		_, err := f.Activities.Finish(ctx, id, record.Done, f.row().LastEvent, 0)
		require.NoError(f, err)
		<-finished
	})
}

func (f *fixture) parameters(n int) string {
	row, err := f.Trial(ctx, id, n)
	require.NoError(f, err)
	return string(row.Parameters)
}

func TestATunerThatIsAProcessIsFedFromTheLogAndRebuiltWhenItDies(t *testing.T) {
	f := processed(t, counting)
	cursor := f.round(1, 2).Cursor
	f.end(0)
	cursor = f.round(cursor, 0).Cursor
	require.Equal(t, `{"known":1}`, f.parameters(2))
	require.NoError(t, syscall.Kill(f.pids()[0], syscall.SIGKILL))
	f.end(1)
	require.Eventually(t, func() bool {
		answer, err := call[activities.RoundAnswer](f, f.Round, activities.RoundRequest{Experiment: id, Cursor: cursor, Room: 0})
		return err == nil && len(answer.News) == 2
	}, patience, time.Millisecond)
	require.Equal(t, `{"known":2}`, f.parameters(3))
	require.Len(t, f.pids(), 2)
	require.True(t, f.row().Reason.Zero(), "%+v", f.row().Reason)
}

func TestAnExperimentWhoseTunerHangsHearsTheNewsAndSaysWhyItWaits(t *testing.T) {
	f := processed(t, `while read -r line; do case $line in *suggest*) while [ ! -e go ]; do sleep 0.1; done; echo '{"trial":0,"parameters":{}}';; esac; done`)
	answer := f.rounding(1, 1)
	require.Eventually(t, func() bool { return f.row().Reason.Code == "tuner" }, patience, time.Millisecond)
	require.Contains(t, f.row().Reason.Text, "has been at work on its next proposal since")
	f.command(trial.SetConcurrency, "7")
	got := <-answer
	require.Equal(t, []trial.Kind{trial.KindCommand}, kinds(got))
	require.Equal(t, "tuner", got.Progress.Reason.Code)

	answer = f.rounding(got.Cursor, 1)
	require.NoError(t, os.WriteFile(filepath.Join(f.StateDirectory, "go"), nil, 0o644))
	require.Equal(t, []trial.Kind{trial.KindAsked}, kinds(<-answer), "its late answer ends the wait")
	require.True(t, f.row().Reason.Zero())
}

func TestATunerThatFailsKeepsNobodyFromHearingTheNews(t *testing.T) {
	f := processed(t, `echo "no such module" >&2; exit 1`)
	answer := f.rounding(1, 2)
	f.awaitReason("tuner", "it exited with code 1: no such module")
	f.command(trial.AddTrial, `{"x":1}`)
	got := <-answer
	require.Equal(t, []trial.Kind{trial.KindCommand, trial.KindAsked}, kinds(got))
	require.Equal(t, "tuner", got.Progress.Reason.Code)
}

func (f *fixture) awaitReason(code, text string) {
	f.Helper()
	require.Eventually(f, func() bool {
		reason := f.row().Reason
		return reason.Code == code && strings.Contains(reason.Text, text)
	}, patience, time.Millisecond)
}

// fussy is a tuner in Python that cannot start until there is a file named mended.
const fussy = `echo >> tries; python3 -c '
import os
def look():
    if not os.path.exists("mended"): raise KeyError("no file number %d" % os.getpid())
look()' || exit 1; ` + counting

func TestATunerThatFailsSteadfastlyIsLeftAloneUntilSomebodyMendsIt(t *testing.T) {
	f := processed(t, fussy)
	answer := f.rounding(1, 1)
	f.awaitReason("tuner-failed", "it exited with code 1: KeyError: 'no file number ")
	reason := f.row().Reason
	summary, rest, _ := strings.Cut(reason.Text, "\n")
	require.Contains(t, summary, "; 3 times in a row, the next try is at ")
	require.Contains(t, summary, ": mend it, then starter resume "+id+" tries at once")
	require.Contains(t, rest, "line 4, in look\n")
	require.Contains(t, rest, "\nlog: "+filepath.Join(f.StateDirectory, "experiments", id, "log", "dispatcher.log"))
	tries, err := os.ReadFile(filepath.Join(f.StateDirectory, "tries"))
	require.NoError(t, err)
	require.Len(t, tries, 3)

	require.NoError(t, os.WriteFile(filepath.Join(f.StateDirectory, "mended"), nil, 0o644))
	last := f.command(trial.Resume, "")
	heard := kinds(<-answer)
	if len(heard) == 1 { // the command's round does not wait for a tuner that takes long to start
		heard = append(heard, kinds(f.round(last, 1))...)
	}
	require.Equal(t, []trial.Kind{trial.KindCommand, trial.KindAsked}, heard, "it is tried at once")
	require.True(t, f.row().Reason.Zero())
	require.Equal(t, last+1, f.row().LastEvent)
}

func TestWhatATunerFailedWithGoesIntoHistoryAsALine(t *testing.T) {
	f := processed(t, fussy)
	answer := f.rounding(1, 1)
	f.awaitReason("tuner-failed", "KeyError")
	f.command(trial.SetConcurrency, "5")
	text := (<-answer).Progress.Reason.Text
	require.Contains(t, text, "KeyError")
	require.NotContains(t, text, "\n")
}

func TestTheTimeThatATunerFailsCounts(t *testing.T) {
	f := processed(t, fussy)
	f.command(trial.SetMaxDuration, "2")
	require.True(t, f.round(2, 1).Late)
	require.GreaterOrEqual(t, f.row().Driven, 2*time.Second)
}

func TestATunerThatIsAProcessStopsTrialsByADecision(t *testing.T) {
	f := processed(t, counting)
	f.round(1, 1)
	f.assess()
	f.report(f.begin(0), metrics.Periodical, "1", "-1")
	require.Eventually(t, func() bool { return len(f.signalled()) > 0 }, patience, time.Millisecond)
	open, err := f.OpenDecisions(ctx)
	require.NoError(t, err)
	require.Len(t, open, 1)
	require.Equal(t, trial.CauseEarlyStop, open[0].Decision.Cause)
	require.Equal(t, "assessor", open[0].Decision.Reason.Code)
	require.Contains(t, open[0].Decision.Reason.Text, "wanted it stopped after 2 intermediate results")
	require.Len(t, f.pids(), 1, "rounds and assessment share one process")
}

func TestAnAssessorThatHasNothingToJudgeStaysAtWork(t *testing.T) {
	activities.SetIdle(t, time.Millisecond)
	f := assessedBy(t, counting)
	f.round(1, 1)
	f.assess()
	f.report(f.begin(0), metrics.Periodical, "1")
	require.Eventually(t, func() bool {
		info, err := os.Stat(filepath.Join(f.StateDirectory, "pids"))
		return err == nil && info.Size() > 0
	}, patience, time.Millisecond)
	require.Never(t, func() bool { return len(f.pids()) > 1 }, 100*time.Millisecond, time.Millisecond)
}

func TestAnAssessorThatFailsIsTheExperimentsReasonUntilItWorks(t *testing.T) {
	f := assessedBy(t, "[ -e licence ] || { echo no licence >&2; exit 1; }\n"+counting)
	f.round(1, 1)
	f.assess()
	f.awaitReason("assessor-failed", "it exited with code 1: no licence; 3 times in a row")
	require.NoError(t, os.WriteFile(filepath.Join(f.StateDirectory, "licence"), nil, 0o644))
	f.command(trial.Resume, "")
	f.round(f.row().LastEvent-1, 0) // as its workflow does all the time
	require.Eventually(t, func() bool { return f.row().Reason.Zero() }, patience, time.Millisecond)
}

// mute are TrialWorkflows of which none can be reached.
type mute struct{}

func (mute) Start(context.Context, activities.Start) error {
	return errors.New("nobody can be reached")
}

func (mute) EarlyStop(context.Context, trial.Key, trial.Decision) error {
	return errors.New("nobody can be reached")
}

func TestAllThatAProcessWantsStoppedIsDecidedAlsoWhereNobodyCanBeToldYet(t *testing.T) {
	f := processed(t, counting)
	cursor := f.round(1, 2).Cursor
	for n := range 2 {
		f.report(f.begin(n), metrics.Periodical, "-1")
	}
	f.round(cursor, 1) // its answer comes after what it wanted stopped
	f.Workflows = mute{}
	_, err := call[any](f, f.Assess, id)
	require.ErrorContains(t, err, "nobody can be reached")
	open, err := f.OpenDecisions(ctx)
	require.NoError(t, err)
	require.Len(t, open, 2, "the sweeper tells them")
}

func TestTheProcessOfAnExperimentThatEndedIsEnded(t *testing.T) {
	f := processed(t, counting)
	f.command(trial.SetMaxTrials, "1")
	f.round(2, 1)
	f.end(0)
	done := make(chan error, 1)
	go func() {
		_, err := call[any](f, f.Assess, id)
		done <- err
	}()
	pid := f.pids()[0]
	finished, err := f.Activities.Finish(ctx, id, record.Done, f.row().LastEvent, 0)
	require.NoError(t, err)
	require.True(t, finished)
	require.Eventually(t, func() bool { return syscall.Kill(pid, 0) != nil }, patience, time.Millisecond)
	require.NoError(t, <-done, "there is nothing left to judge")
	require.Len(t, f.pids(), 1, "and it is not built again")
}

func TestATunerThatIsAProcessIsToldAllThatATrialReported(t *testing.T) {
	f := processed(t, `while read -r line; do echo "$line" >> heard; case $line in *'"trial":0}') echo '{"trial":0,"parameters":{}}';; *suggest*) echo '{"trial":1,"wait":true}';; esac; done`)
	cursor := f.round(1, 1).Cursor
	key := f.begin(0)
	f.report(key, metrics.Periodical, `{"default": 0.5, "loss": NaN}`)
	require.NoError(t, f.Collect(ctx, key, []metrics.Record{{Number: 2, Kind: metrics.Final, Value: `{"default": 0.25, "f1": 1.0}`}}, "2"))
	f.end(0)
	f.round(cursor, 1)
	heard, err := os.ReadFile(filepath.Join(f.StateDirectory, "heard"))
	require.NoError(t, err)
	require.Contains(t, string(heard), `{"op":"intermediate","trial":0,"sequence":0,"value":0.5,"metric":{"default":0.5,"loss":null}}`)
	require.Contains(t, string(heard), `{"op":"observe","trial":0,"status":"succeeded","value":0.25,"metric":{"default":0.25,"f1":1.0}}`)
}

// assessedBy is an experiment of a tuner of ours whose assessor is a command.
func assessedBy(t *testing.T, command string) *fixture {
	directory := t.TempDir()
	f := newFixtureWith(t, func(e *experiment.Experiment) {
		e.Assessor = &experiment.Algorithm{Command: command, CodeDirectory: directory}
	})
	f.StateDirectory = directory
	f.Variables = func(string) []string { return os.Environ() }
	f.Cleanup(func() { activities.EndAlgorithms(f.Activities, "") })
	return f
}

func TestAnAssessorThatIsAProcessJudgesTheTrialsOfOurTuner(t *testing.T) {
	f := assessedBy(t, counting)
	directory := f.StateDirectory
	f.round(1, 2)
	require.Contains(t, f.parameters(0), `"x"`)
	f.assess()
	f.report(f.begin(0), metrics.Periodical, "1", "2")
	f.report(f.begin(1), metrics.Periodical, "1")
	require.Eventually(t, func() bool {
		info, err := os.Stat(filepath.Join(directory, "pids"))
		return err == nil && info.Size() > 0
	}, patience, time.Millisecond)
	require.NoError(t, syscall.Kill(f.pids()[0], syscall.SIGKILL))
	require.NoError(t, f.Collect(ctx, trial.Key{Experiment: id, Sequence: 1, Attempt: 1}, []metrics.Record{{Number: 2, Kind: metrics.Periodical, Step: 1, Value: "-1"}}, "2"))
	require.Eventually(t, func() bool { return len(f.signalled()) > 0 }, patience, time.Millisecond)
	open, err := f.OpenDecisions(ctx)
	require.NoError(t, err)
	require.Len(t, open, 1)
	require.Equal(t, 1, open[0].Key.Sequence)
}
