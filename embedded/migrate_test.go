package embedded_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"
	_ "modernc.org/sqlite"

	"github.com/perennial-ml/perennial/embedded"
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
		"DROP INDEX by_status",
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

func Test_an_index_that_nobody_needs_is_dropped_without_a_new_file(t *testing.T) {
	directory := t.TempDir()
	require.NoError(t, start(t, directory).Stop())
	require.Contains(t, indexes(t, directory, "CREATE INDEX by_bool_01 ON executions_visibility (namespace_id, Bool01)"), "by_bool_01")
	start(t, directory)
	require.NotContains(t, indexes(t, directory), "by_bool_01")
	require.NoFileExists(t, filepath.Join(directory, "temporal.db.backup"))
}

// indexes are the names of visibility's indexes, after some statements.
func indexes(t *testing.T, directory string, statements ...string) (names string) {
	db, err := sql.Open("sqlite", filepath.Join(directory, "temporal.db"))
	require.NoError(t, err)
	defer db.Close()
	for _, statement := range statements {
		_, err := db.Exec(statement)
		require.NoError(t, err)
	}
	require.NoError(t, db.QueryRow(`SELECT group_concat(name) FROM (SELECT name FROM sqlite_master
		WHERE type = 'index' AND tbl_name = 'executions_visibility' AND sql IS NOT NULL ORDER BY name)`).Scan(&names))
	return names
}

func Test_visibility_has_the_indexes_that_people_search_by_and_no_others(t *testing.T) {
	directory := t.TempDir()
	start(t, directory)
	require.Equal(t, "by_keyword_01,by_parent_workflow_id,by_status,by_workflow_id,by_workflow_type,default_idx", indexes(t, directory))
	db, err := sql.Open("sqlite", filepath.Join(directory, "temporal.db"))
	require.NoError(t, err)
	defer db.Close()
	var namespace []byte
	require.NoError(t, db.QueryRow("SELECT data FROM namespaces WHERE name = ?", embedded.Namespace).Scan(&namespace))
	require.Regexp(t, "Keyword01.{1,4}ExperimentId", string(namespace))
}
