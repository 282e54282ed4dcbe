package agent_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/machine"
	"github.com/perennial-ml/perennial/machine/agent"
	"github.com/perennial-ml/perennial/metrics"
	"github.com/perennial-ml/perennial/runner/rundir"
	"github.com/perennial-ml/perennial/trial"
)

// reported leaves a run whose journal holds that many short values, as after an
// hour without a link.
func reported(t *testing.T, client *agent.Client, count int) machine.Ref {
	require.NoError(t, client.Cancel(t.Context(), machine.Ref{Key: key()}, trial.Intent{Cause: trial.CauseUser}))
	refs, err := client.List(t.Context(), key().Experiment)
	require.NoError(t, err)
	journal, err := metrics.OpenJournal(filepath.Join(refs[0].Directory, rundir.JournalFile))
	require.NoError(t, err)
	records := make([]metrics.Record, count)
	for i := range records {
		records[i] = metrics.Record{Time: time.Now(), Kind: metrics.Periodical, Step: int64(i), Value: "1"}
	}
	require.NoError(t, journal.Append(records))
	require.NoError(t, journal.Close())
	return refs[0]
}

func TestAJournalThatHoldsMoreThanIsReadAtOnceIsNeverCalledWhole(t *testing.T) {
	client, _ := serve(t, t.TempDir())
	const count = 60_000
	ref, cursor, seen := reported(t, client, count), machine.Cursor(""), 0
	findings, err := client.Poll(t.Context(), []agent.Question{{Ref: ref, After: &cursor}})
	require.NoError(t, err)
	finding := findings.Findings[0]
	require.False(t, finding.Whole && len(finding.Records) < count, "%d of %d records, and no more to come", len(finding.Records), count)
	require.Empty(t, finding.Records, "so much would keep the answer, and every other run's, from arriving in time")
	for {
		records, next, err := client.Collect(t.Context(), ref, cursor)
		require.NoError(t, err)
		if len(records) == 0 {
			break
		}
		seen, cursor = seen+len(records), next
	}
	require.Equal(t, count, seen)
}

func TestAShortJournalComesAlongWithThePoll(t *testing.T) {
	client, _ := serve(t, t.TempDir())
	ref, cursor := reported(t, client, 100), machine.Cursor("")
	findings, err := client.Poll(t.Context(), []agent.Question{{Ref: ref, After: &cursor}})
	require.NoError(t, err)
	require.Len(t, findings.Findings[0].Records, 100)
	require.True(t, findings.Findings[0].Whole)
}
