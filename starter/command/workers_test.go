package command

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/perennial-ml/perennial/record"
	"github.com/stretchr/testify/require"
)

// staff is a worker, one that lacks its key, one that waits, and one that is gone.
func staff() Workers {
	worker := func(machine string, keys ...string) record.Worker {
		return record.Worker{Presence: record.Presence{Identity: machine + "/now", Directory: machine, Machine: machine, Process: 7,
			Version: "v1.0.0", Keys: keys, Since: time.Now().Add(-time.Hour)}, Heard: time.Now()}
	}
	works, lacks, waits, gone := worker("lab-1", "k1", "k2"), worker("lab-2", "k9"), worker("lab-3", "k2"), worker("lab-4")
	works.Shares, lacks.Shares = []string{""}, []string{"2", "3"}
	waits.Waits, gone.Silent = true, true
	gone.Heard, gone.Platforms = time.Now().Add(-time.Hour), []string{"remote"}
	return Workers{All: []record.Worker{works, lacks, waits, gone}, Home: "lab-2", Polled: map[string]time.Time{"lab-1/now": time.Now(), "lab-2/now": time.Now()}}
}

func workersAsJSON(t *testing.T, s *stage) (views []workerView) {
	require.Equal(t, ExitDone, s.run("workers", "--output", "json"), s.err.String())
	require.NoError(t, json.Unmarshal([]byte(s.out.String()), &views))
	return views
}

func TestWorkersTellsWhoWorksWithHowMuchAndWhyOthersDoNot(t *testing.T) {
	s := newStage(t)
	story := s.accepted(anID)
	story.asks(0, `{"x": 1}`)
	story.runs(0)
	s.workers = staff()
	views := workersAsJSON(t, s)
	require.Len(t, views, 4)
	require.Equal(t, workerWorks, views[0].State)
	require.Equal(t, "key-missing", views[0].Reason.Code)
	require.Contains(t, views[0].Reason.Text, "process 7 on lab-2")
	require.Equal(t, map[string]int{"local": 1}, views[0].Runs)
	require.Equal(t, 1, views[0].Experiments)
	require.NotNil(t, views[0].Polled)
	require.Equal(t, workerWorks, views[1].State)
	require.Empty(t, views[1].Runs)
	require.Equal(t, "key-missing", views[1].Reason.Code)
	require.Contains(t, views[1].Reason.Text, "process 7 on lab-1")
	require.Contains(t, views[1].Reason.Text, "copy the key k2")
	require.True(t, views[1].Here)
	require.Equal(t, workerWaits, views[2].State)
	require.Equal(t, "handing-back", views[2].Reason.Code)
	require.Equal(t, workerSilent, views[3].State)
	require.Equal(t, []string{"remote"}, views[3].Platforms)
	require.Empty(t, views[3].Runs)

	require.Equal(t, ExitDone, s.run("workers"))
	require.Regexp(t, `(?m)^lab-1 +7 +WORKS +all +1 local +1 +v1\.0\.0 +1h \d+m ago +\d+s ago +it could not .*`, s.out.String())
	require.Regexp(t, `(?m)^lab-2 \* +7 +WORKS .* copy the key k2`, s.out.String())
}

func TestWorkersSaysWhatKeepsTheOneThatWorksFromTemporal(t *testing.T) {
	s := newStage(t)
	s.workers = staff()
	s.workers.Polled = map[string]time.Time{}
	require.Equal(t, "no-poll", workersAsJSON(t, s)[0].Reason.Code)
	s.workers.Polled, s.workers.Temporal = nil, errors.New("Temporal is away")
	require.Equal(t, "Temporal is away", workersAsJSON(t, s)[0].Reason.Text)
	s.workers = Workers{}
	require.Empty(t, workersAsJSON(t, s))
}
