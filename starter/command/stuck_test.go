package command

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/perennial-ml/perennial/activities"
	"github.com/perennial-ml/perennial/experiment"
	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
	"github.com/stretchr/testify/require"
)

const tunersWords = "tuner mine.Mine: KeyError: 'x'; 3 times in a row, the next try is at 10:00:00\n" +
	"Traceback (most recent call last):\n  File \"mine.py\", line 3, in begin\nKeyError: 'x'\nlog: /state/dispatcher.log"

func (s *story) breaksDown() {
	reason := trial.Reason{Code: activities.ReasonTunerFailed, Text: tunersWords}
	require.NoError(s.t, s.store().SetReason(context.Background(), s.id, reason))
}

func TestRunGivesUpOnATunerThatOnlyAPersonCanMend(t *testing.T) {
	s := newStage(t)
	file := s.example()
	s.World.Now = func() time.Time { return time.Now().Add(time.Duration(s.looks.Add(1)) * hostCheck) }
	s.acts(trial.Accept, (*story).breaksDown)
	require.Equal(t, ExitStuck, s.run("run", file))
	id := s.sent[0].ID[len("accept-"):]
	require.Equal(t, 1, strings.Count(s.out.String(), tunersWords), "it is said once, and whole")
	require.Contains(t, s.out.String(), "experiment "+id+" goes on")
	require.Equal(t, "error: nothing goes on: tuner mine.Mine: KeyError: 'x'; 3 times in a row, the next try is at 10:00:00\n"+
		"hint: mend it, then starter resume "+id+"; starter stop "+id+" gives it up\n", s.err.String())

	require.Equal(t, ExitDone, s.run("show", id))
	require.Contains(t, s.out.String(), "RUNNING: tuner mine.Mine: KeyError: 'x'; 3 times in a row, the next try is at 10:00:00\n")
	require.Contains(t, s.out.String(), "  File \"mine.py\", line 3, in begin\n")
	require.Contains(t, s.out.String(), "log: /state/dispatcher.log\n")
}

func TestWhileTrialsRunATunerThatFailsIsNoReasonToLeave(t *testing.T) {
	s := newStage(t)
	file := s.example()
	s.World.Now = func() time.Time { return time.Now().Add(time.Duration(s.looks.Add(1)) * hostCheck) }
	s.acts(trial.Accept, func(story *story) {
		story.asks(0, `{"x": 1}`)
		key := story.runs(0)
		story.breaksDown()
		seen := s.looks.Load()
		go func() {
			for s.looks.Load() < seen+int64(3*hope/hostCheck) {
				time.Sleep(time.Millisecond)
			}
			story.ends(key, trial.Ended{State: trial.Succeeded, Value: number(0.5)})
			story.finishes(record.Done)
		}()
	})
	require.Equal(t, ExitDone, s.run("run", file), s.err.String())
}

func TestValidateTriesWhatRunWouldAndRunDoesNotTryItTwice(t *testing.T) {
	s := newStage(t)
	t.Chdir(t.TempDir())
	s.World.Build.CheckAlgorithm = func(string, experiment.Algorithm) error { return nil }
	tried := 0
	s.World.Build.TryAlgorithms = func(e experiment.Experiment) []experiment.TryFault {
		tried++
		require.Equal(t, "python3 tuner.py", e.Tuner.Command)
		return []experiment.TryFault{{Kind: "tuner", Message: "python3 tuner.py: it exited with code 1", Hint: "what it said last:\n      KeyError: 'x'"}}
	}
	content := strings.Replace(goodExperiment("echo"), "{name: Random}", "\n  command: python3 tuner.py", 1)
	require.NoError(t, os.WriteFile("experiment.yml", []byte(content), 0o600))
	require.Equal(t, ExitBadInput, s.run("validate", "experiment.yml"))
	require.Contains(t, s.err.String(), "experiment.yml:5:12: tuner.command: python3 tuner.py: it exited with code 1\n")
	require.Contains(t, s.err.String(), "    hint: what it said last:\n      KeyError: 'x'\n")
	require.Equal(t, 1, tried)

	s.acts(trial.Accept, succeeds)
	require.Equal(t, ExitDone, s.run("run", "experiment.yml"), s.err.String())
	require.Equal(t, 1, tried)

	require.NoError(t, os.WriteFile("experiment.yml", []byte(content+"trialConcurency: 3\n"), 0o600))
	require.Equal(t, ExitBadInput, s.run("validate", "experiment.yml"))
	require.Equal(t, 1, tried, "what is wrong anyhow is not tried")
}
