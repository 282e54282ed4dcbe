package endtoend

import (
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"
)

// named are the files and folders of the state directory with an experiment in their name.
func (h *Home) named(id string) (found []string) {
	h.t.Helper()
	require.NoError(h.t, filepath.WalkDir(h.Dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && strings.Contains(entry.Name(), id) {
			found = append(found, path)
		}
		return nil // what is gone by now has no name
	}))
	return found
}

// pages are the workflows of an experiment that Temporal still shows.
func (h *Home) pages(id, of string) int {
	h.t.Helper()
	temporal := h.Temporal(of)
	defer temporal.Close()
	answer, err := temporal.ListWorkflow(h.t.Context(), &workflowservice.ListWorkflowExecutionsRequest{
		Query: "WorkflowId STARTS_WITH 'experiment-" + id + "'",
	})
	require.NoError(h.t, err)
	return len(answer.Executions)
}

func TestARemovedExperimentLeavesNothingAlsoWhereTheHostIsKilledMeanwhileAndOthersStay(t *testing.T) {
	t.Parallel()
	h := NewHome(t)
	goes := h.Follow(h.Experiment(short(3, 3)))
	id := goes.ID()
	h.AwaitRunning(id, 1)
	refused := h.Run("rm", id, "--yes")
	require.Equal(t, 2, refused.Code, "it runs")
	require.Contains(t, refused.Stderr, "starter stop "+id)
	require.Equal(t, "DONE", goes.Finished(Patience).Status)
	stays := h.Follow(h.Experiment(short(2, 2)))
	require.Equal(t, "DONE", stays.Finished(Patience).Status)
	kept := h.Export(stays.ID())
	require.NotZero(t, h.pages(id, stays.ID()))
	require.NotEmpty(t, h.named(id))

	h.Must("rm", id, "--yes", "--detach")
	h.KillAndAwait(Host)
	h.Await("the next host's removal", func() bool {
		return !strings.Contains(h.Must("ls"), id)
	})
	require.Empty(t, h.named(id))
	h.Await("Temporal's removal of the pages", func() bool { return h.pages(id, stays.ID()) == 0 })
	require.Equal(t, kept, h.Export(stays.ID()))
	require.Equal(t, 2, h.Run("show", id).Code)
	h.RequireNothingLeft()
}
