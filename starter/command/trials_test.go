package command

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"charm.land/lipgloss/v2"
	"github.com/perennial-ml/perennial/dashboard/views"
	"github.com/perennial-ml/perennial/metrics"
	"github.com/perennial-ml/perennial/trial"
	"github.com/stretchr/testify/require"
)

// tuned is an experiment of four trials that succeeded, with 0.3, 0.9, 0.1 and 0.5,
// one that runs and has reported, and one that was stopped early.
func (s *stage) tuned(id string) *story {
	story := s.accepted(id)
	for n, value := range []float64{0.3, 0.9, 0.1, 0.5} {
		story.asks(n, fmt.Sprintf(`{"lr": %g, "net": "cnn", "seed": 7}`, 10-float64(n)))
		key := story.runs(n)
		story.reports(key, 1, metrics.Final, fmt.Sprint(value))
		story.ends(key, trial.Ended{State: trial.Succeeded, Value: number(value)})
	}
	story.asks(4, `{"lr": 0.25, "net": "mlp", "seed": 7}`)
	key := story.runs(4)
	for step, value := range []string{"0.1", `{"default": 0.4, "loss": 2}`} {
		story.reports(key, int64(step+1), metrics.Periodical, value)
	}
	story.asks(5, `{"lr": 0.5, "net": "mlp", "seed": 7}`)
	key = story.runs(5)
	story.reports(key, 1, metrics.Periodical, "0.05")
	story.ends(key, trial.Ended{State: trial.EarlyStopped, Reason: trial.Reason{Code: "early-stopped", Text: "stopped early"}})
	return story
}

// numbers are the first cells of the table that was printed, without its head.
func (s *stage) numbers() string {
	var first []string
	for _, line := range strings.Split(strings.TrimSpace(s.out.String()), "\n")[1:] {
		first = append(first, strings.Fields(line)[0])
	}
	return strings.Join(first, " ")
}

func TestTrialsShowsParametersResultsAndTheLastIntermediateOfWhatRuns(t *testing.T) {
	s := newStage(t)
	s.tuned(anID)
	require.Equal(t, ExitDone, s.run("trials"), s.err.String())
	golden(t, "trials-tuned.txt", s.out.String())
	require.NotContains(t, s.out.String(), "seed", "what is the same in all has no column")
	require.Equal(t, ExitDone, s.run("trials", "--sort", "net"), s.err.String())
	require.Regexp(t, `METRIC +net +lr +TOOK`, s.out.String(), "what they are sorted by comes first")
	require.Equal(t, ExitDone, s.run("trials", "--limit", "1"))
	require.Contains(t, s.out.String(), "seed", "one trial has nothing to differ from")
}

func TestTrialsAreSortedFilteredAndLimited(t *testing.T) {
	s := newStage(t)
	s.tuned(anID)
	for want, args := range map[string][]string{
		"1 3 0 2 4 5": {"--sort", "metric"}, "1 3": {"--top", "2"}, "5": {"--top", "3", "--state", "early-stopped", "--limit", "0"},
		"4 5": {"--state", "running,EARLY_STOPPED"}, "4 5 3 2 1 0": {"--sort", "lr"}, "0 1 2 3 5 4": {"--sort", "lr", "--reverse"},
		"5 4 3 2 1 0": {"--reverse"}, "3 4 5": {"--limit", "3"},
	} {
		if len(args) == 6 { // two that exclude each other
			require.Equal(t, ExitBadInput, s.run(append([]string{"trials"}, args...)...))
			continue
		}
		require.Equal(t, ExitDone, s.run(append([]string{"trials"}, args...)...), s.err.String())
		require.Equal(t, want, s.numbers(), args)
	}
	for _, args := range [][]string{{"--state", "asleep"}, {"--sort", "lrr"}, {"--limit", "-1"}, {"--top", "-1"}} {
		require.Equal(t, ExitBadInput, s.run(append([]string{"trials"}, args...)...), args)
	}
	require.Equal(t, ExitBadInput, s.run("trials", anID, "--sort", "lrr"))
	require.Equal(t, "error: no trial of k3v9x2ab has a parameter \"lrr\" to sort by\nhint: did you mean \"lr\"?\n", s.err.String())
}

func TestATerminalIsGivenTheNewestHundredTrialsAndToldSo(t *testing.T) {
	s := newStage(t)
	story := s.accepted(anID)
	for n := range onScreen + 5 {
		story.asks(n, `{"x": 1}`)
	}
	s.World.Width = func() int { return 80 }
	s.World.Env = []string{"NO_COLOR=1"}
	require.Equal(t, ExitDone, s.run("trials", anID))
	require.True(t, strings.HasPrefix(s.numbers(), "5 6 7 "), s.numbers())
	require.Contains(t, s.out.String(), "it waits for a slot: 2 at a time\n")
	require.Equal(t, "100 of 105 trials; --limit 0 lists all\n", s.err.String())
	require.Equal(t, ExitDone, s.run("trials", anID, "--limit", "0"))
	require.True(t, strings.HasPrefix(s.numbers(), "0 1 2 "))
	require.Empty(t, s.err.String())
	s.World.Width = func() int { return 0 }
	require.Equal(t, ExitDone, s.run("trials", anID))
	require.True(t, strings.HasPrefix(s.numbers(), "0 1 2 "), "a pipe gets all")
}

func TestATableOfTrialsIsNeverWiderThanItsTerminal(t *testing.T) {
	s := newStage(t)
	story := s.accepted(anID)
	var fields []string
	for n := range 20 {
		fields = append(fields, fmt.Sprintf(`"parameter%d": 0.123456789%d`, n, n))
	}
	for n := range 2 {
		story.asks(n, "{"+strings.Join(fields, ",")+fmt.Sprintf(`, "own": %d}`, n))
		story.ends(story.runs(n), trial.Ended{State: trial.Failed, Reason: trial.Reason{Code: "x", Text: strings.Repeat("a long reason ", 20)}})
	}
	s.World.Env = []string{"NO_COLOR=1"}
	for _, width := range []int{80, 110} {
		s.World.Width = func() int { return width }
		require.Equal(t, ExitDone, s.run("trials", anID, "--sort", "own"))
		for line := range strings.Lines(s.out.String()) {
			require.LessOrEqual(t, lipgloss.Width(strings.TrimSuffix(line, "\n")), width)
		}
		require.Contains(t, s.out.String(), "  own  ", "what it is sorted by stays")
	}
}

func TestParametersThatDoNotFitAreCountedAndFoundElsewhere(t *testing.T) {
	s := newStage(t)
	story := s.accepted(anID)
	for n := range 2 {
		story.asks(n, fmt.Sprintf(`{"a_long_name_of_a_parameter": %d, "another_long_name_of_one": %d, "third": %d}`, n, n, n))
	}
	s.World.Width = func() int { return 80 }
	s.World.Env = []string{"NO_COLOR=1"}
	require.Equal(t, ExitDone, s.run("trials", anID))
	require.Contains(t, s.out.String(), "  a_long_name…  TOOK  ")
	require.Equal(t, "2 more parameters: starter trials k3v9x2ab TRIAL, or --output json\n", s.err.String())
}

func TestOneTrialIsToldWithItsParametersAttemptsReasonsAndCourse(t *testing.T) {
	s := newStage(t)
	s.told(anID)
	for _, args := range [][]string{{"trials", anID, "2"}, {"show", anID, "2"}, {"show", "2"}, {"trials", anID, trial.ID(anID, 2)}} {
		require.Equal(t, ExitDone, s.run(args...), s.err.String())
		golden(t, "trial-of-two-attempts.txt", strings.ReplaceAll(s.out.String(), s.engine.home, "<home>"))
	}
	require.Equal(t, ExitDone, s.run("show", anID, "0", "--output", "json"))
	golden(t, "trial.json", strings.ReplaceAll(s.out.String(), s.engine.home, "<home>"))
	require.Equal(t, ExitDone, s.run("show", anID, "3"), "one that waits has no attempt")
	require.Contains(t, s.out.String(), "WAITING: it is being submitted\n")
	require.Equal(t, ExitBadInput, s.run("show", anID, "9"))
}

func TestTheCourseOfATrialIsALineHoweverLongItIs(t *testing.T) {
	s := newStage(t)
	story := s.accepted(anID)
	story.asks(0, `{"x": 1}`)
	key := story.runs(0)
	var lines []metrics.Record
	for n := range int64(views.IntermediatesShown + 10) {
		lines = append(lines, metrics.Record{Number: n + 1, Kind: metrics.Periodical, Step: n, Value: fmt.Sprint(n)})
	}
	require.NoError(t, s.store().Collect(t.Context(), key, lines, "c"))
	require.Equal(t, ExitDone, s.run("trials", "0"), s.err.String())
	require.Contains(t, s.out.String(), "the newest 1000 intermediates, the last 1009 at step 1009\n")
	require.Contains(t, s.out.String(), "█  10 to 1009\n")
	require.Equal(t, ExitDone, s.run("trials", "0", "--output", "json"))
	var view struct {
		Intermediates []struct{ Step int }
		Reported      int
	}
	require.NoError(t, json.Unmarshal([]byte(s.out.String()), &view))
	require.Len(t, view.Intermediates, 1000)
	require.Equal(t, 1010, view.Reported)
}
