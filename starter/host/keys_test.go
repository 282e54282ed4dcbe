package host

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
)

func Test_what_a_client_sends_is_encrypted_on_disk(t *testing.T) {
	const word = "a-word-nobody-may-read"
	dir := opened(t)
	info := ensure(t, dir, starter(t, "v1.0.0", "embedded"))
	_, err := connect(t, info).ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{
		ID: "echo", TaskQueue: "echoes", Memo: map[string]any{"note": word}, StaticSummary: word,
	}, echo, word)
	require.NoError(t, err)
	require.NoError(t, Stop(t.Context(), dir))
	require.NotContains(t, everythingIn(t, dir.temporal()), word)
	require.Contains(t, everythingIn(t, dir.temporal()), "echoes", "names of queues can be found, so the word could be")
}

// everythingIn is the content of all files of a directory.
func everythingIn(t *testing.T, directory string) (all string) {
	files, err := filepath.Glob(filepath.Join(directory, "*"))
	require.NoError(t, err)
	for _, file := range files {
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		all += string(content)
	}
	return all
}

func Test_a_host_whose_key_is_gone_stops_with_the_way_out_and_makes_none(t *testing.T) {
	dir := opened(t)
	s := starter(t, "v1.0.0", "embedded")
	ensure(t, dir, s)
	require.NoError(t, Stop(t.Context(), dir))
	away := filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.Rename(dir.Keys().Keys, away))

	_, err := Ensure(t.Context(), dir, s)
	require.ErrorContains(t, err, "is missing from "+dir.Keys().Keys)
	require.NoDirExists(t, dir.Keys().Keys)
	require.NoError(t, os.Rename(away, dir.Keys().Keys))
	ensure(t, dir, s)
}

func Test_the_recovery_command_works_as_it_is_printed(t *testing.T) {
	dir := opened(t)
	s := starter(t, "v1.0.0", "embedded")
	ensure(t, dir, s)
	require.NoError(t, Stop(t.Context(), dir))
	require.NoError(t, os.RemoveAll(dir.Keys().Keys))
	command := "mv '" + dir.temporal() + "' '" + dir.temporal() + ".lost'"
	_, err := Ensure(t.Context(), dir, s)
	require.ErrorContains(t, err, command)
	require.NoError(t, exec.Command("sh", "-c", command).Run())
	dir, err = Open(dir.Path())
	require.NoError(t, err)
	ensure(t, dir, s)
}

func Test_a_host_in_the_background_keeps_no_secret_of_its_caller(t *testing.T) {
	dir := opened(t)
	t.Setenv("MY_API_TOKEN", "a-secret-of-the-caller")
	t.Setenv("TEMPORAL_TLS_SERVER_NAME", "kept")
	info := ensure(t, dir, starter(t, "v1.0.0", ""))
	environment, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(info.PID), "environ"))
	require.NoError(t, err)
	require.NotContains(t, string(environment), "a-secret-of-the-caller")
	require.Contains(t, string(environment), "TEMPORAL_TLS_SERVER_NAME=kept")
}

func Test_a_database_whose_ledger_is_lost_with_its_keys_names_what_it_needs(t *testing.T) {
	dir := opened(t)
	s := starter(t, "v1.0.0", "embedded")
	info := ensure(t, dir, s)
	_, err := connect(t, info).ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: "echo", TaskQueue: "echoes"}, echo, "word")
	require.NoError(t, err)
	require.NoError(t, Stop(t.Context(), dir))
	ids, err := dir.Keys().IDs()
	require.NoError(t, err)
	require.NoError(t, os.RemoveAll(dir.Keys().Keys))
	require.NoError(t, os.Remove(dir.Keys().Ledger))
	_, err = Ensure(t.Context(), dir, s)
	require.ErrorContains(t, err, "its key "+ids[0]+" is missing from "+dir.Keys().Keys)
}
