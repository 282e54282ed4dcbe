package command

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/perennial-ml/perennial/codedir"
	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/runner/rundir"
	"github.com/perennial-ml/perennial/trial"
	"github.com/stretchr/testify/require"
)

// example writes the example experiment and returns its file.
func (s *stage) example() string {
	directory := s.t.TempDir()
	require.Equal(s.t, ExitDone, s.run("init", directory))
	return filepath.Join(directory, "experiment.yml")
}

// acts lets the engine act on the command of that name, once it is durable.
func (s *stage) acts(name string, act func(*story)) {
	s.after = func(command trial.Command) {
		if command.Name != name {
			return
		}
		all, err := s.store().Experiments(context.Background())
		require.NoError(s.t, err)
		act(&story{s, all[len(all)-1].ID})
	}
}

func succeeds(story *story) {
	story.asks(0, `{"x": 1}`)
	key := story.runs(0)
	story.ends(key, trial.Ended{State: trial.Succeeded, Value: number(0.5)})
	story.finishes(record.Done)
}

func fails(story *story) {
	story.asks(0, `{"x": 1}`)
	key := story.runs(0)
	story.writes(key, "stderr", strings.Repeat("noise\n", 30)+"Traceback\n\x1b[31mboom\n")
	story.ends(key, trial.Ended{State: trial.Failed, Reason: trial.Reason{Code: "exit-code", Text: "its command ended with exit code 1"}})
	story.finishes(record.Done)
}

func TestRunFollowsToTheEndAndItsExitCodeTellsHowItWas(t *testing.T) {
	for _, c := range []struct {
		name string
		code int
		act  func(*story)
	}{
		{"done", ExitDone, succeeds},
		{"no-success", ExitNoSuccess, fails},
		{"stopped", ExitStopped, func(s *story) { s.finishes(record.Stopped) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStage(t)
			file := s.example()
			s.acts(trial.Accept, c.act)
			require.Equal(t, c.code, s.run("run", file), s.err.String())
			require.Empty(t, s.err.String())
		})
	}
}

func TestRunSaysInAPipeWhatItIsAndHowToLeaveResumeAndStop(t *testing.T) {
	s := newStage(t)
	file := s.example()
	s.acts(trial.Accept, fails)
	require.Equal(t, ExitNoSuccess, s.run("run", file))
	id := s.sent[0].ID[len("accept-"):]
	text := s.out.String()
	for _, line := range []string{"experiment " + id + " (first-steps)\n", "Web UI  http://", "Ctrl-C", "starter resume " + id, "starter stop " + id,
		"(" + trial.ID(id, 0) + ") is the first that FAILED", "  | Traceback\n  | ·[31mboom\n", "experiment " + id + " is DONE: 1 FAILED\n"} {
		require.Contains(t, text, line)
	}
	require.Equal(t, 18, strings.Count(text, "  | noise\n"), "20 lines of stderr are shown")
}

func TestRunTellsScriptsOneEventALineAndFinishedLast(t *testing.T) {
	s := newStage(t)
	file := s.example()
	s.acts(trial.Accept, succeeds)
	require.Equal(t, ExitDone, s.run("run", file, "--output", "json"))
	events := s.events()
	require.Equal(t, "started", events[0]["event"])
	id := s.sent[0].ID[len("accept-"):]
	for _, event := range events {
		require.Equal(t, id, event["id"])
	}
	last := events[len(events)-1]
	require.Equal(t, "finished", last["event"])
	require.Equal(t, "DONE", last["status"])
	require.Equal(t, 1.0, last["trials"].(map[string]any)["SUCCEEDED"])
	lines := strings.Split(strings.TrimSpace(s.out.String()), "\n")
	golden(t, "finished.json", strings.ReplaceAll(strings.ReplaceAll(lines[len(lines)-1], id, "<id>"), trial.ID(id, 0), "<trial>")+"\n")
}

// events are the lines that were printed as JSON.
func (s *stage) events() []map[string]any {
	var events []map[string]any
	lines := bufio.NewScanner(strings.NewReader(s.out.String()))
	for lines.Scan() {
		var event map[string]any
		require.NoError(s.t, json.Unmarshal(lines.Bytes(), &event), lines.Text())
		events = append(events, event)
	}
	return events
}

func TestRunDetachedReturnsOnceTheExperimentIsAccepted(t *testing.T) {
	s := newStage(t)
	require.Equal(t, ExitDone, s.run("run", s.example(), "--detach", "-o", "json"))
	require.Len(t, s.events(), 1)
	require.Equal(t, "started", s.events()[0]["event"])
	require.Equal(t, trial.Accept, s.sent[0].Name)
}

func TestRunKeepsTheCallersEnvironmentForItselfBeforeItAsks(t *testing.T) {
	t.Setenv("PLANTED_SECRET", "do-not-tell")
	s := newStage(t)
	require.Equal(t, ExitDone, s.run("run", s.example(), "--detach"))
	require.NotContains(t, s.out.String(), "Ctrl-C")
	require.Regexp(t, `\n  look    starter show (\w{8})\n  follow  starter resume \w{8}\n  stop    starter stop \w{8}\n$`, s.out.String())
	file := EnvironmentFile(s.World.Home, s.sent[0].ID[len("accept-"):])
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	kept, err := rundir.ReadEnvironment(file)
	require.NoError(t, err)
	require.Contains(t, kept.Variables, "PLANTED_SECRET=do-not-tell")
	require.NotContains(t, string(s.sent[0].Value), "do-not-tell")
	require.Equal(t, ExitDone, s.run("show", "--env"))
	require.Contains(t, s.out.String(), "PLANTED_SECRET\n")
	require.NotContains(t, s.out.String(), "do-not-tell")
}

func TestCtrlCDetachesAndTheExperimentGoesOn(t *testing.T) {
	s := newStage(t)
	file := s.example()
	ctx, interrupt := context.WithCancel(t.Context())
	s.acts(trial.Accept, func(*story) { interrupt() })
	require.Equal(t, ExitDetached, s.runIn(ctx, "run", file))
	id := s.sent[0].ID[len("accept-"):]
	require.Contains(t, s.out.String(), "detached; experiment "+id+" goes on\n")
	e, err := s.store().Experiment(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, record.Running, e.Status)
}

func TestAHostThatDiesWhileFollowingIsStartedAgain(t *testing.T) {
	s := newStage(t)
	file := s.example()
	s.acts(trial.Accept, func(story *story) {
		story.die()
		require.Eventually(t, func() bool { _, err := s.Find(t.Context()); return err == nil }, patience, s.Tick)
		succeeds(story)
	})
	require.Equal(t, ExitDone, s.run("run", file))
	require.Equal(t, 1, s.started)
	require.Contains(t, s.out.String(), "the host process is gone; starting it again")
}

func TestAnEngineThatCannotBeReachedIsExitCode4(t *testing.T) {
	s := newStage(t)
	file := s.example()
	s.refuse = errors.New("connection refused")
	require.Equal(t, ExitUnreachable, s.run("run", file))
	require.Regexp(t, `^error: no answer about experiment \w{8}: connection refused\nhint: starter show \w{8} tells whether it was heard`, s.err.String())
}

func TestForegroundHostsInThisProcessAndEndsWithTheExperiment(t *testing.T) {
	s := newStage(t)
	file := s.example()
	s.die()
	s.acts(trial.Accept, succeeds)
	require.Equal(t, ExitDone, s.run("run", file, "--foreground"))
	require.Zero(t, s.started)
	_, err := s.Find(t.Context())
	require.ErrorIs(t, err, ErrNoHost)
}

func TestBadInputStartsNothing(t *testing.T) {
	for name, content := range map[string]string{
		"missing": "", "empty": "\n", "command-not-found": goodExperiment("no-such-program-here --flag"),
		"script-not-found": goodExperiment("./no-such-script.sh"),
		"unknown-key":      goodExperiment("echo") + "trialConcurency: 3\n",
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			s.die()
			t.Chdir(t.TempDir())
			if content != "" {
				require.NoError(t, os.WriteFile("experiment.yml", []byte(content), 0o600))
			}
			require.Equal(t, ExitBadInput, s.run("run", "experiment.yml"))
			directory, err := os.Getwd()
			require.NoError(t, err)
			golden(t, "run-"+name+".txt", strings.ReplaceAll(s.err.String(), directory, "<dir>"))
			require.Empty(t, s.out.String())
			require.Zero(t, s.started)
			require.Empty(t, s.sent)
			require.NoDirExists(t, filepath.Join(s.World.Home, "experiments"))
		})
	}
}

func goodExperiment(command string) string {
	return "searchSpace: {x: {_type: uniform, _value: [0, 1]}}\ntrialCommand: " + command +
		"\ntrialConcurrency: 1\ntuner: {name: Random}\ntrainingService: {platform: local}\n"
}

func TestValidateWarnsOfLinksWhoseTargetsWillBeCopiedAndOfRangesOfOneValue(t *testing.T) {
	s := newStage(t)
	directory, outside := t.TempDir(), t.TempDir()
	t.Chdir(directory)
	require.NoError(t, os.Symlink(outside, "data"))
	content := strings.Replace(goodExperiment("echo"), "local}", "local, snapshot: true}", 1)
	require.NoError(t, os.WriteFile("experiment.yml", []byte(strings.Replace(content, "[0, 1]", "[1, 1]", 1)), 0o600))
	require.Equal(t, ExitDone, s.run("validate", "experiment.yml"), s.err.String())
	require.Contains(t, s.err.String(), `the link "data" leads to `+outside+": what is there will be copied")
	require.Contains(t, s.err.String(), "searchSpace.x._value: has low 1 and high 1, so it is always 1.0")
}

func TestAPlainCommandIsLookedForAndAnythingElseIsLeftToTheShell(t *testing.T) {
	for command, word := range map[string]string{
		"python3 train.py": "python3", "./a.sh": "./a.sh", "  sh -c x": "sh", "X=1 python3 a.py": "", "cd x && make": "cd",
		"$PYTHON a.py": "", "(sleep 1)": "", `"my program" x`: "", "true; false": "true", "": "",
	} {
		require.Equal(t, word, firstWord(command), command)
	}
}

func TestAScriptThatACommandNamesAndNobodyHasIsWarnedOf(t *testing.T) {
	for command, script := range map[string]string{
		"python3 -u train.py --x 1": "train.py", "sh trial.sh": "trial.sh", "/usr/bin/python3.11 src/a.py": "src/a.py", "python -m pkg": "", "sh -c 'x y'": "",
		"bash $HOME/a.sh": "", "python3": "", "./train.py a.py": "", "python3 a.py; rm b": "", "sh -x trial.sh": "trial.sh", "python3 -": "",
	} {
		require.Equal(t, script, scriptOf(command), command)
	}
	s := newStage(t)
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("experiment.yml", []byte(goodExperiment("sh trial.sh")), 0o600))
	require.Equal(t, ExitDone, s.run("validate", "experiment.yml"), s.err.String())
	require.Contains(t, s.err.String(), "warning: experiment.yml:2:15: trialCommand: there is no script \"trial.sh\"\n")
	require.NoError(t, os.WriteFile("trial.sh", nil, 0o600))
	require.Equal(t, ExitDone, s.run("validate", "experiment.yml"))
	require.Empty(t, s.err.String())
}

func TestValidatePrintsFaultsOfTheCodeDirectoryAsJSONWithTheirPlace(t *testing.T) {
	s := newStage(t)
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("big", nil, 0o600))
	require.NoError(t, os.Truncate("big", 2*codedir.DefaultLimits().Bytes)) // takes no room
	content := strings.Replace(goodExperiment("no-such-program"), "local}", "local, snapshot: true}", 1)
	require.NoError(t, os.WriteFile("experiment.yml", []byte(content), 0o600))
	require.Equal(t, ExitBadInput, s.run("validate", "experiment.yml", "--output", "json"))
	var faults []faultView
	require.NoError(t, json.Unmarshal([]byte(s.out.String()), &faults), s.out.String())
	require.Len(t, faults, 2)
	require.Equal(t, "trialCommand", faults[0].Field)
	require.Equal(t, 2, faults[0].Line)
	require.Equal(t, "trainingService.trialCodeDirectory", faults[1].Field)
	require.Contains(t, faults[1].Message, "big")
	require.Empty(t, s.err.String())
}

func TestADamagedRecordIsRefusedBeforeAnythingStarts(t *testing.T) {
	s := newStage(t)
	file := s.example()
	s.die()
	require.NoError(t, os.WriteFile(RecordFile(s.World.Home), []byte(strings.Repeat("not a database ", 100)), 0o600))
	require.Equal(t, ExitBadInput, s.run("run", file))
	require.Contains(t, s.err.String(), "the record is damaged")
	require.Zero(t, s.started)
}

func TestAnUnfitStateDirectoryIsRefusedBeforeAnythingStarts(t *testing.T) {
	s := newStage(t)
	file := s.example()
	s.die()
	s.unfit = errors.New("state directory /net/home lies on a network file system (nfs)")
	require.Equal(t, ExitBadInput, s.run("run", file))
	golden(t, "run-unfit.txt", s.err.String())
	require.Zero(t, s.started)
}

func TestAHostThatDoesNotStartIsExitCode4(t *testing.T) {
	s := newStage(t)
	file := s.example()
	s.die()
	s.broken = errors.New("the host ended while it started (exit status 1); its log is /state/log/host.log")
	require.Equal(t, ExitUnreachable, s.run("run", file))
	golden(t, "run-no-host.txt", s.err.String())
	require.Empty(t, s.sent)
}

func TestFollowingGoesOnWhileTheHostDoesNotComeBack(t *testing.T) {
	s := newStage(t)
	file := s.example()
	s.World.Now = func() time.Time { return time.Now().Add(time.Duration(s.looks.Add(1)) * hostCheck) }
	s.acts(trial.Accept, func(story *story) {
		s.mu.Lock()
		s.running, s.broken = false, errors.New("no space left")
		s.mu.Unlock()
		require.Eventually(t, func() bool { return strings.Contains(s.out.String(), "trying again: no space left") }, patience, s.Tick)
		succeeds(story)
	})
	require.Equal(t, ExitDone, s.run("run", file))
}

func TestATerminalGetsAFrameAndNoColourWhereThatIsUnwelcome(t *testing.T) {
	for _, c := range []struct{ env, bold string }{{"NO_COLOR=", "\x1b[1m"}, {"NO_COLOR=1", ""}} {
		s := newStage(t)
		s.World.Env = append([]string{"TERM=xterm", c.env}, s.World.Env...)
		s.World.Width = func() int { return 80 }
		s.accepted(anID)
		require.Equal(t, ExitDone, s.run("ls"))
		require.True(t, strings.HasPrefix(s.out.String(), c.bold+"EXPERIMENT"))
		s.acts(trial.Stop, func(story *story) { story.finishes(record.Stopped) })
		require.Equal(t, ExitDone, s.run("stop"))
		require.Contains(t, s.out.String(), "░░░")
	}
}

func TestAnExperimentFromStandardInputMayHaveAnIdOfItsOwnOnce(t *testing.T) {
	s := newStage(t)
	file := s.example()
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	t.Chdir(filepath.Dir(file))
	submit := func(id string) int {
		s.World.In = strings.NewReader(string(content))
		return s.run("run", "-", "--detach", "--id", id)
	}
	require.Equal(t, ExitBadInput, submit("My-Id"))
	require.Contains(t, s.err.String(), `eight lower-case letters and digits, not "My-Id"`)
	require.Equal(t, ExitDone, submit(anID), s.err.String())
	require.Equal(t, "accept-"+anID, s.sent[0].ID)
	require.Equal(t, ExitBadInput, submit(anID))
	require.Contains(t, s.err.String(), "experiment k3v9x2ab is on record already (RUNNING)")
	require.Contains(t, s.err.String(), "starter resume k3v9x2ab")
	require.Len(t, s.sent, 1)
	require.DirExists(t, filepath.Dir(EnvironmentFile(s.Home, anID)))
	content = []byte("trialConcurrency: x\n")
	require.Equal(t, ExitBadInput, submit("k3v9x2ac"))
	require.Contains(t, s.err.String(), "standard input:1")
}
