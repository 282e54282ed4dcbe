package embedded_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/embedded"
)

func startError(t *testing.T, directory string) error {
	server, err := embedded.Start(t.Context(), embedded.Options{Directory: directory, Token: token})
	if err == nil {
		_ = server.Stop()
	}
	return err
}

func Test_a_damaged_database_says_what_to_do_and_is_left_alone(t *testing.T) {
	pattern := make([]byte, 1<<16)
	for i := range pattern {
		pattern[i] = byte(i * 7)
	}
	for name, content := range map[string][]byte{"noise": pattern, "empty": nil} {
		t.Run(name, func(t *testing.T) {
			directory := t.TempDir()
			path := filepath.Join(directory, "temporal.db")
			require.NoError(t, os.WriteFile(path, content, 0o600))
			err := startError(t, directory)
			var damaged *embedded.DamagedError
			require.ErrorAs(t, err, &damaged)
			require.ErrorContains(t, err, "move it and its -wal and -shm files away")
			require.ErrorContains(t, err, "continue from the record")
			left, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, len(content), len(left))
		})
	}
}

func Test_a_page_overwritten_in_the_middle_is_noticed(t *testing.T) {
	directory := t.TempDir()
	process, _ := startProcess(t, directory)
	require.NoError(t, process.Process.Kill())
	_ = process.Wait()
	require.NoError(t, os.Remove(filepath.Join(directory, "temporal.db-wal")))
	file, err := os.OpenFile(filepath.Join(directory, "temporal.db"), os.O_RDWR, 0)
	require.NoError(t, err)
	defer file.Close()
	for page := range int64(20) {
		_, err = file.WriteAt([]byte("not a page of a database"), (page+3)*4096)
		require.NoError(t, err)
	}
	var damaged *embedded.DamagedError
	require.ErrorAs(t, startError(t, directory), &damaged)
}

func Test_a_database_of_a_newer_server_is_refused(t *testing.T) {
	directory := t.TempDir()
	for name, content := range map[string]string{
		"temporal.db":         "",
		"temporal.db.version": `{"format":1,"server":"99.0.0","schema":"9.9"}`,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(directory, name), []byte(content), 0o600))
	}
	err := startError(t, directory)
	var newer *embedded.NewerError
	require.ErrorAs(t, err, &newer)
	require.ErrorContains(t, err, "written by Temporal server 99.0.0")
}

func Test_an_interrupted_creation_starts_over(t *testing.T) {
	directory := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(directory, "temporal.db.new"), []byte("half a schema"), 0o600))
	start(t, directory)
	require.NoFileExists(t, filepath.Join(directory, "temporal.db.new"))
}
