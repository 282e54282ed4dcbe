package executable

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/trial"
)

// scripted is a platform whose executable answers each verb with the file of that
// name beside it, and fails where there is none.
type scripted struct {
	t *testing.T
	platforms.Platform
	directory string
	key       trial.Key
}

func answering(t *testing.T, pollInterval float64) *scripted {
	s := &scripted{t: t, directory: t.TempDir(), key: trial.Key{Experiment: "abcdefgh", Sequence: 1, Attempt: 1}}
	path := filepath.Join(s.directory, "platform")
	writeScript(t, path, `cat "${0%/*}/$1" || exit 75`)
	describe, err := json.Marshal(map[string]any{"protocol": 1, "pollInterval": pollInterval})
	require.NoError(t, err)
	s.answer("describe", string(describe))
	s.Platform = New(Options{StateDirectory: t.TempDir(), Environment: os.Environ()}).Open(platforms.Section{
		Platform: Name, Experiment: s.key.Experiment,
		Resolve: func(context.Context) (json.RawMessage, error) {
			return json.Marshal(map[string]string{"executable": path})
		},
	})
	return s
}

func (s *scripted) answer(verb, text string) {
	require.NoError(s.t, os.WriteFile(filepath.Join(s.directory, verb), []byte(text), 0o600))
}

func (s *scripted) submit() error {
	_, err := s.Submit(s.t.Context(), platforms.Job{Key: s.key, Command: "true", Parameter: []byte(`{"parameters": {"x": 1}}`)})
	return err
}

func (s *scripted) poll(after platforms.Cursor) platforms.Report {
	reports, err := s.Poll(s.t.Context(), []platforms.Question{{Handle: platforms.Handle{Key: s.key}, After: after}})
	require.NoError(s.t, err)
	return reports[0]
}

// becomes waits for a phase: a program that is just being started beside a submit holds
// its claim a moment longer.
func (s *scripted) becomes(phase platforms.Phase, why string) {
	require.Eventually(s.t, func() bool { return s.poll("").Phase == phase }, time.Minute, 10*time.Millisecond, why)
}

const always = 1e-6 // seconds: nothing that was said is good for long

func TestARunOfWhichNoSubmitWasAnsweredIsAbsentAndNotLost(t *testing.T) {
	t.Parallel()
	s := answering(t, always)
	require.Error(t, s.submit(), "there is no answer")
	s.answer("poll", `{"reports": [{"phase": "gone"}]}`)
	s.becomes(platforms.Absent, "the next submit may start it")
	s.answer("submit", `{}`)
	require.NoError(t, s.submit())
	s.answer("poll", `{"reports": [{"phase": "running"}]}`)
	s.becomes(platforms.Running, "it is there")
}

func TestARunThatMayHaveStartedIsNotOverBecauseItShallEnd(t *testing.T) {
	t.Parallel()
	s := answering(t, always)
	require.Error(t, s.submit(), "its answer is lost")
	require.Error(t, s.Cancel(t.Context(), platforms.Handle{Key: s.key}, trial.Intent{Cause: trial.CauseStop}), "it is not there to be told")
	s.answer("poll", `{"reports": [{"phase": "running"}]}`)
	s.becomes(platforms.Running, "it is there")
	s.answer("poll", `{"reports": [{"phase": "gone"}]}`)
	s.becomes(platforms.Exited, "it is not there any more")
	require.Equal(t, trial.CauseStop, s.poll("").Intent.Cause)
}

func TestTheLastRecordsOfARunThatIsGoneAreKept(t *testing.T) {
	t.Parallel()
	s := answering(t, always)
	s.answer("submit", `{}`)
	require.NoError(t, s.submit())
	s.answer("poll", `{"reports": [{"phase": "gone", "records": [{"number": 1, "kind": "FINAL", "value": "0.5"}], "next": "1"}]}`)
	report := s.poll("")
	require.Equal(t, platforms.Lost, report.Phase)
	require.Len(t, report.Journal.Records, 1)
}

func TestDataThatIsNullInAReportLeavesWhatSubmitAnswered(t *testing.T) {
	t.Parallel()
	s := answering(t, always)
	s.answer("submit", `{"data": {"job": 7}}`)
	require.NoError(t, s.submit())
	s.answer("poll", `{"reports": [{"phase": "running", "data": null}]}`)
	require.Nil(t, s.poll("").Handle)
	handles, err := s.List(t.Context())
	require.NoError(t, err)
	require.JSONEq(t, `{"job": 7}`, string(handles[0].Data))
}

func TestWhatWasSaidBeforeLeavesTheCursorWhereItIs(t *testing.T) {
	t.Parallel()
	s := answering(t, 3600)
	s.answer("submit", `{}`)
	require.NoError(t, s.submit())
	s.answer("poll", `{"reports": [{"phase": "running", "records": [{"number": 1, "kind": "PERIODICAL", "value": "0.5"}], "next": "1"}]}`)
	require.EqualValues(t, "1", s.poll("").Journal.Next)
	again := s.poll("1").Journal
	require.Empty(t, again.Records)
	require.EqualValues(t, "1", again.Next)
}

func TestEveryPhaseWithoutAReasonIsGivenOne(t *testing.T) {
	t.Parallel()
	s := answering(t, always)
	s.answer("submit", `{}`)
	require.NoError(t, s.submit())
	for phase, want := range map[string]string{"waiting": "not why", "unknown": "cannot tell", "RUNNING": `"RUNNING"`, "": `""`} {
		s.answer("poll", `{"reports": [{"phase": "`+phase+`"}]}`)
		require.Contains(t, s.poll("").Reason.Text, want)
	}
}

func TestRecordsThatWouldBeLostAreRefusedWithAReason(t *testing.T) {
	t.Parallel()
	s := answering(t, always)
	s.answer("submit", `{}`)
	require.NoError(t, s.submit())
	for records, want := range map[string]string{
		`[{"number": 1, "kind": "final", "value": "1"}], "next": "1"`:                                                    `kind "final"`,
		`[{"number": 0, "kind": "FINAL", "value": "1"}], "next": "1"`:                                                    "numbered from 1",
		`[{"number": 1, "kind": "PERIODICAL", "value": "1"}, {"number": 1, "kind": "FINAL", "value": "1"}], "next": "2"`: "without gaps",
		`[{"number": 1, "kind": "FINAL", "value": "1"}]`:                                                                 "without next",
	} {
		s.answer("poll", `{"reports": [{"phase": "exited", "exit": {"code": 0}, "records": `+records+`}]}`)
		report := s.poll("")
		require.Equal(t, platforms.Unreachable, report.Phase)
		require.Contains(t, report.Reason.Text, want)
	}
}

func TestARunsParametersAreReadAgain(t *testing.T) {
	t.Parallel()
	s := answering(t, always)
	s.answer("submit", `{}`)
	require.NoError(t, s.submit())
	stream, err := s.Platform.(platforms.WithLogs).Logs(t.Context(), platforms.Handle{Key: s.key}, platforms.Log{Stream: trial.ParameterFile})
	require.NoError(t, err)
	defer stream.Close()
	content, err := io.ReadAll(stream)
	require.NoError(t, err)
	require.JSONEq(t, `{"parameters": {"x": 1}}`, string(content))
}
