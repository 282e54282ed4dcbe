package embedded_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"
	_ "modernc.org/sqlite"
)

// withOlderSchema leaves a killed server's database with an open workflow and
// makes it look as an earlier server had written it: a table, a column and an
// index of visibility were not there yet.
func withOlderSchema(t *testing.T, directory string) {
	process, address := startProcess(t, directory)
	startGreeting(t, connect(t, address))
	require.NoError(t, process.Process.Kill())
	_ = process.Wait()
	db, err := sql.Open("sqlite", filepath.Join(directory, "temporal.db"))
	require.NoError(t, err)
	defer db.Close()
	for _, statement := range []string{
		"DROP TABLE current_chasm_executions",
		"DROP INDEX by_temporal_keyword_04",
		"ALTER TABLE executions_visibility DROP COLUMN TemporalKeyword04",
	} {
		_, err := db.Exec(statement)
		require.NoError(t, err, statement)
	}
	version := []byte(`{"format":1,"server":"1.30.0","schema":"0.10"}`)
	require.NoError(t, os.WriteFile(filepath.Join(directory, "temporal.db.version"), version, 0o600))
}

func Test_a_workflow_of_an_older_schema_goes_on_in_the_new_one(t *testing.T) {
	directory := t.TempDir()
	withOlderSchema(t, directory)

	c := connect(t, start(t, directory).Address())
	startWorker(t, c)
	requireGreeting(t, c)
	found, err := c.CountWorkflow(t.Context(), &workflowservice.CountWorkflowExecutionsRequest{Query: "WorkflowId = 'greeting'"})
	require.NoError(t, err)
	require.EqualValues(t, 1, found.GetCount())

	require.FileExists(t, filepath.Join(directory, "temporal.db.backup"))
	require.NoFileExists(t, filepath.Join(directory, "temporal.db.new"))
	version, err := os.ReadFile(filepath.Join(directory, "temporal.db.version"))
	require.NoError(t, err)
	require.NotContains(t, string(version), "1.30.0")
}

func Test_a_current_schema_is_left_as_it_is(t *testing.T) {
	directory := t.TempDir()
	require.NoError(t, start(t, directory).Stop())
	start(t, directory)
	require.NoFileExists(t, filepath.Join(directory, "temporal.db.backup"))
}
