package activities_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/metrics"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
)

func TestATrialWithoutAResultSaysWhatItPrintedInstead(t *testing.T) {
	long := strings.Repeat("1", 1_100_000)
	for printed, want := range map[string]string{
		"":                          "it reported no final result",
		"perennial: intermediate 1": "it reported no final result",
		"perennial: final abc":      "it printed a final that is no number: abc",
		"perennial: final true":     "its final result has no default number: true",
		"perennial: final NaN":      "its final result has no default number: NaN",
		`perennial: final {"a": 1}`: `its final result has no default number: {"a": 1}`,
		"perennial: final [" + strings.Repeat("1, ", 999) + "1]": "its final result has no default number: [" + strings.Repeat("1, ", 33),
		"perennial: intermediate x":                              "it reported no final result, and something that is no metric: perennial: intermediate x",
		"perennial: final " + long:                               "it printed a final that is no number: " + strings.Repeat("1", 83) + "… (at least 1100017 bytes, and 999999 is the most that a metric may have)",
		"perennial: final 1":                                     "",
		"perennial: final b\nperennial: final 2":                 "",
	} {
		t.Run(printed[:min(len(printed), 40)], func(t *testing.T) {
			f := newFixture(t)
			f.ask(1)
			key := f.begin(0)
			var lines metrics.Lines
			records := append(lines.Feed([]byte(printed)), lines.End()...)
			for i := range records {
				records[i].Number = int64(i + 1)
			}
			require.NoError(t, f.Collect(ctx, key, records, "1"))
			require.NoError(t, f.Observe(ctx, key, record.Observation{Phase: string(platforms.Exited), Exit: &trial.Exit{}, Drained: true}))
			f.settlesAs(key, trial.Succeeded, "")
			reason := f.row0().Reason
			require.Equal(t, want == "", reason.Zero())
			require.Equal(t, want, reason.Text[:min(len(want), len(reason.Text))])
			require.Less(t, len(reason.Text), 320)
		})
	}
}

func TestATrialWhoseJournalIsLostSaysSo(t *testing.T) {
	f := newFixture(t)
	f.ask(1)
	key := f.begin(0)
	lost := trial.Reason{Code: "journal-lost", Text: "so"}
	require.NoError(t, f.Observe(ctx, key, record.Observation{Phase: string(platforms.Exited), Exit: &trial.Exit{}, Drained: true, Reason: lost}))
	f.settlesAs(key, trial.Succeeded, lost.Code)
	require.Equal(t, lost, f.row0().Reason)
}
