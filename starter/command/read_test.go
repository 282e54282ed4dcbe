package command

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/perennial-ml/perennial/metrics"
	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
	"github.com/stretchr/testify/require"
)

func TestReadingCommandsPrintWhatScriptsAndPeopleRelyOn(t *testing.T) {
	s := newStage(t)
	s.told(anID)
	for name, args := range map[string][]string{
		"trials.json": {"trials", anID, "--output", "json"}, "trials.yaml": {"trials", anID, "-o", "yaml"}, "trials.txt": {"trials", anID},
		"show.json": {"show", anID, "--output", "json"}, "show.txt": {"show", anID},
		"ls.json": {"ls", "--output", "json"}, "ls.txt": {"ls"},
		"export.json": {"export", anID}, "export-intermediate.json": {"export", anID, "--format", "json", "--intermediate"},
		"export.csv": {"export", anID, "--format", "csv"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, ExitDone, s.run(args...), s.err.String())
			golden(t, name, s.out.String())
		})
	}
}

func TestShowLeavesTemporalEmptyWhileNoHostRuns(t *testing.T) {
	s := newStage(t)
	s.told(anID)
	s.die()
	require.Equal(t, ExitDone, s.run("show", anID, "-o", "json"))
	var view struct{ Temporal map[string]string }
	require.NoError(t, json.Unmarshal([]byte(s.out.String()), &view))
	require.Equal(t, map[string]string{"address": "", "namespace": "", "webUI": "", "tokenFile": "",
		"workflowId": "experiment-" + anID}, view.Temporal)
	require.Zero(t, s.started, "reading starts no host that was ended in order")
}

func TestTheNextCommandStartsAHostThatDiedEvenIfItOnlyReads(t *testing.T) {
	for _, args := range [][]string{{"ls"}, {"show"}, {"trials"}} {
		s := newStage(t)
		s.told(anID)
		s.die()
		s.died = true
		require.Equal(t, ExitDone, s.run(args...))
		require.Equal(t, 1, s.started)
		require.Contains(t, s.err.String(), "the host had died")
	}
}

func TestExportOfAllHasEveryTrialThatEndedAndHow(t *testing.T) {
	s := newStage(t)
	story := s.tuned(anID)
	story.asks(6, `{"lr": 1, "net": "mlp", "seed": 7}`)
	story.ends(story.runs(6), trial.Ended{State: trial.Failed, Reason: trial.Reason{Code: "exit-code", Text: "the command exited with code 1"}})
	require.Equal(t, ExitDone, s.run("export", "--all"), s.err.String())
	golden(t, "export-all.json", s.out.String())
	require.Equal(t, ExitDone, s.run("export", "--all", "--format", "csv"), s.err.String())
	golden(t, "export-all.csv", s.out.String())
}

func TestExportWritesAFileInOneStep(t *testing.T) {
	s := newStage(t)
	s.told(anID)
	file := filepath.Join(t.TempDir(), "results.csv")
	require.Equal(t, ExitDone, s.run("export", anID, "--format", "csv", "--file", file))
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Contains(t, string(content), ",trialJobId\n")
	entries, err := os.ReadDir(filepath.Dir(file))
	require.NoError(t, err)
	require.Len(t, entries, 1)
}

func TestExportKeepsNumbersAsTheyWereAndRenamesWhatCollides(t *testing.T) {
	s := newStage(t)
	story := s.accepted(anID)
	story.asks(0, `{"x": 5.0, "n": 12345678901234567890}`)
	key := story.runs(0)
	story.reports(key, 1, metrics.Final, `{"default": 1, "x": NaN}`)
	story.ends(key, trial.Ended{State: trial.Succeeded, Value: number(1)})
	require.Equal(t, ExitDone, s.run("export", anID, "--format", "csv"))
	require.Contains(t, s.out.String(), "5.0,12345678901234567890")
	require.Equal(t, ExitDone, s.run("export", anID))
	require.Contains(t, s.out.String(), `"value": "{\"default\": 1, \"x\": NaN}"`)
}

func TestCSVKeepsNaNAndInfinitiesAndWhatFollowsThem(t *testing.T) {
	s := newStage(t)
	story := s.accepted(anID)
	for n, value := range []string{`{"default": Infinity, "a": NaN, "b": "is NaN"}`, "NaN", "[1]"} {
		story.asks(n, `{"x": 1}`)
		key := story.runs(n)
		story.reports(key, 1, metrics.Final, value)
		story.ends(key, trial.Ended{State: trial.Succeeded})
	}
	require.Equal(t, ExitDone, s.run("export", anID, "--format", "csv"), s.err.String())
	require.Contains(t, s.out.String(), "x,default,a,b,reward,trialJobId\n1,Infinity,NaN,is NaN,,xlqz5\n1,,,,NaN,byg07\n1,,,,,")
	require.Equal(t, ExitBadInput, s.run("export", anID, "--file", "/nowhere/results.json"))
	require.Contains(t, s.err.String(), "error: write /nowhere/results.json: no such file or directory\n")
}

func TestCSVHasNNIsColumns(t *testing.T) {
	s := newStage(t)
	story := s.accepted(anID)
	for n, parameters := range []string{`{"net": {"_name": "A", "k": 5.0}, "x": [1, 2]}`, `{"net": {"_name": "B"}, "x": null}`} {
		story.asks(n, parameters)
		key := story.runs(n)
		story.reports(key, 1, metrics.Periodical, `{"default": 0.5}`)
		story.reports(key, 2, metrics.Final, `{"default": 1, "shape": {"w": NaN}}`)
		story.ends(key, trial.Ended{State: trial.Succeeded, Value: number(1)})
	}
	require.Equal(t, ExitDone, s.run("export", anID, "--format", "csv", "--intermediate"), s.err.String())
	require.Equal(t, strings.Join([]string{
		`net,x,default,shape,trialJobId,intermediate`,
		`"{""_name"": ""A"", ""k"": 5.0}","[1, 2]",1,"{""w"": ""NaN""}",xlqz5,"[{""default"": 0.5},{""default"": 1, ""shape"": {""w"": NaN}}]"`,
		`"{""_name"": ""B""}",,1,"{""w"": ""NaN""}",byg07,"[{""default"": 0.5},{""default"": 1, ""shape"": {""w"": NaN}}]"`,
	}, "\n")+"\n", s.out.String())
}

func TestCSVHasAColumnForABatchOfPlainValues(t *testing.T) {
	s := newStage(t)
	story := s.accepted(anID)
	story.asks(0, `16`)
	key := story.runs(0)
	story.reports(key, 1, metrics.Final, `0.5`)
	story.ends(key, trial.Ended{State: trial.Succeeded, Value: number(0.5)})
	require.Equal(t, ExitDone, s.run("export", anID, "--format", "csv"), s.err.String())
	require.Equal(t, "parameter,reward,trialJobId\n16,0.5,xlqz5\n", s.out.String())
}

func TestATrialThatSucceededWithoutANumberSaysSo(t *testing.T) {
	s := newStage(t)
	story := s.accepted(anID)
	story.asks(0, `{"x": 1}`)
	reason := trial.Reason{Code: "no-result", Text: "it printed a final that is no number: abc"}
	story.ends(story.runs(0), trial.Ended{State: trial.Succeeded, Reason: reason})
	require.Equal(t, ExitDone, s.run("trials", anID))
	require.Contains(t, s.out.String(), reason.Text+"\n")
	story.finishes(record.Done)
	require.Equal(t, ExitDone, s.run("stop", anID))
	require.Contains(t, s.out.String(), "1 SUCCEEDED; none reported a final number\n")
}

func TestATrialWaitsForASlotOrForItsStoppedExperiment(t *testing.T) {
	s := newStage(t)
	story := s.accepted(anID)
	for n := range 3 {
		story.asks(n, `{"x": 1}`)
	}
	story.runs(0)
	require.Equal(t, ExitDone, s.run("trials", anID))
	require.Contains(t, s.out.String(), "it is being submitted\n")
	require.Contains(t, s.out.String(), "it waits for a slot: 2 at a time\n")
	story.finishes(record.Stopped)
	require.Equal(t, ExitDone, s.run("trials", anID))
	require.Contains(t, s.out.String(), "its experiment is stopped; resume runs it\n")
	require.Equal(t, ExitDone, s.run("trials", "add", anID, `{"x": 1}`))
	require.Equal(t, "experiment k3v9x2ab will run it once it goes on: starter resume k3v9x2ab\n", s.out.String())
}

func TestTheExperimentMayBeLeftOutWhereOnlyOneIsActive(t *testing.T) {
	s := newStage(t)
	s.accepted("aaaaaaaa").finishes(record.Done)
	s.accepted(anID)
	require.Equal(t, ExitDone, s.run("show", "-o", "json"))
	require.Contains(t, s.out.String(), `"id": "k3v9x2ab"`)
	require.Equal(t, "experiment k3v9x2ab, the only active one\n", s.err.String())
}

func TestAnExperimentIsNamedByAPrefixThatOnlyItHas(t *testing.T) {
	s := newStage(t)
	s.accepted("k3v9x2ab")
	s.accepted("k3zzzzzz")
	require.Equal(t, ExitDone, s.run("show", "K3V"))
	require.Equal(t, ExitBadInput, s.run("show", "demo"))
	require.Contains(t, s.err.String(), `2 experiments are called "demo": k3v9x2ab, k3zzzzzz`)
	require.Equal(t, ExitBadInput, s.run("show", "k3"))
	golden(t, "prefix-of-two.txt", s.err.String())
	require.Equal(t, ExitBadInput, s.run("show", "nope"))
	golden(t, "no-such-experiment.txt", s.err.String())
	require.Equal(t, ExitBadInput, s.run("trials"))
	golden(t, "two-experiments.txt", s.err.String())
}

func TestAnExperimentIsNamedByTheNameThatOnlyItHas(t *testing.T) {
	s := newStage(t)
	s.accepted("k3v9x2ab")
	require.Equal(t, ExitDone, s.run("show", "demo", "--output", "json"), s.err.String())
	require.Contains(t, s.out.String(), `"id": "k3v9x2ab"`)
	require.Equal(t, ExitDone, s.run("pause", "demo"), s.err.String())
	require.Equal(t, "experiment k3v9x2ab is paused; starter resume k3v9x2ab goes on\n", s.out.String())
}

func TestReadingWithoutAnyExperimentSaysHowToBegin(t *testing.T) {
	s := newStage(t)
	s.World.Home = "/nowhere/state"
	require.Equal(t, ExitBadInput, s.run("show"))
	golden(t, "no-state.txt", s.err.String())
	require.Equal(t, ExitDone, s.run("ls", "--output", "json"))
	require.Equal(t, "[]\n", s.out.String())
}

func TestLogsPrintsAStreamOfATrialByNumberOrId(t *testing.T) {
	s := newStage(t)
	story := s.told(anID)
	story.writes(trial.Key{Experiment: anID, Sequence: 2, Attempt: 1}, "stdout", "first\n")
	story.writes(trial.Key{Experiment: anID, Sequence: 2, Attempt: 2}, "stdout", "second\n")
	require.Equal(t, ExitDone, s.run("logs", "2"))
	require.Equal(t, "second\n", s.out.String())
	require.Equal(t, ExitDone, s.run("logs", anID, trial.ID(anID, 2), "--attempt", "1"))
	require.Equal(t, "first\n", s.out.String())
	require.Equal(t, ExitDone, s.run("logs", "1", "--stderr"))
	require.Contains(t, s.out.String(), "boom\n")
	require.Equal(t, ExitBadInput, s.run("logs", "3"))
	golden(t, "logs-of-a-waiting-trial.txt", s.err.String())
	require.Equal(t, ExitBadInput, s.run("logs", anID))
	golden(t, "logs-without-a-trial.txt", s.err.String())
}

func TestLogsAsksThePlatformOfATrialThatKeepsThemElsewhere(t *testing.T) {
	s := newStage(t)
	story := s.accepted(anID)
	story.asks(0, `{}`)
	attempt, err := s.store().BeginAttempt(t.Context(), anID, 0, "remote")
	require.NoError(t, err)
	require.NoError(t, s.store().SetHandle(t.Context(), attempt.Key, []byte(`{"format":1,"platform":"remote"}`)))
	require.Equal(t, ExitBadInput, s.run("logs", "0"))
	require.Contains(t, s.err.String(), "the log of trial 0 on platform remote cannot be read")
	s.engine.log = []byte("from far away\n")
	require.Equal(t, ExitDone, s.run("logs", "0"))
	require.Equal(t, "from far away\n", s.out.String())
}

func TestLogsPrintsAllReplicasOfATrialEachLineAfterItsName(t *testing.T) {
	s := newStage(t)
	story := s.accepted(anID)
	story.asks(0, `{}`)
	attempt, err := s.store().BeginAttempt(t.Context(), anID, 0, "kubernetes")
	require.NoError(t, err)
	require.NoError(t, s.store().SetHandle(t.Context(), attempt.Key, []byte(`{"format":1,"platform":"kubernetes"}`)))
	s.engine.replicas = map[string]string{"master-0": "one\ntwo\n", "worker-0": "three\nhalf a line"}
	require.Equal(t, ExitDone, s.run("logs", "0"))
	require.Equal(t, "master-0 | one\nmaster-0 | two\nworker-0 | three\nworker-0 | half a line\n", s.out.String())
	require.Equal(t, ExitDone, s.run("logs", "0", "--replica", "worker-0"))
	require.Equal(t, "three\nhalf a line", s.out.String())
	require.NoError(t, s.store().Observe(t.Context(), attempt.Key, record.Observation{Phase: "exited", Exit: &trial.Exit{}}))
	require.NoError(t, s.store().Settle(t.Context(), attempt.Key, record.Settlement{Outcome: record.OutcomeEnded, Ended: &trial.Ended{State: trial.Succeeded}}))
	require.Equal(t, ExitDone, s.run("logs", "0", "--follow"))
	lines := strings.Split(strings.TrimSpace(s.out.String()), "\n")
	require.ElementsMatch(t, []string{"master-0 | one", "master-0 | two", "worker-0 | three", "worker-0 | half a line"}, lines)
}

func TestLogsFollowsATrialToItsEndOverAttempts(t *testing.T) {
	s := newStage(t)
	story := s.accepted(anID)
	story.asks(0, `{}`)
	code := make(chan int)
	go func() { code <- s.run("logs", "0", "--follow") }()
	first := story.runs(0)
	story.writes(first, "stdout", "one\n")
	require.Eventually(t, func() bool { return s.out.String() == "one\n" }, patience, s.Tick)
	require.NoError(t, s.store().Settle(t.Context(), first, record.Settlement{Outcome: record.OutcomeFault}))
	second := story.runs(0)
	story.writes(second, "stdout", "two\n")
	story.ends(second, trial.Ended{State: trial.Succeeded})
	require.Equal(t, ExitDone, <-code)
	require.Equal(t, "one\ntwo\n", s.out.String())
}
