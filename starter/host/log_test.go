package host

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func Test_the_log_keeps_two_files_of_limited_size(t *testing.T) {
	path := filepath.Join(t.TempDir(), "host.log")
	log, err := openLog(path, 100)
	require.NoError(t, err)
	defer log.Close()
	line := strings.Repeat("x", 39) + "\n"
	for range 7 {
		_, err := log.Write([]byte(line))
		require.NoError(t, err)
	}
	newest, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, line, string(newest))
	before, err := os.ReadFile(path + ".1")
	require.NoError(t, err)
	require.Equal(t, line+line, string(before))
}

func Test_the_log_goes_on_where_it_was(t *testing.T) {
	path := filepath.Join(t.TempDir(), "host.log")
	require.NoError(t, os.WriteFile(path, []byte("first\n"), 0o600))
	log, err := openLog(path, 100)
	require.NoError(t, err)
	defer log.Close()
	_, err = log.Write([]byte("second\n"))
	require.NoError(t, err)
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "first\nsecond\n", string(content))
}

func Test_a_tail_is_the_last_lines_since_an_offset(t *testing.T) {
	path := filepath.Join(t.TempDir(), "host.log")
	require.NoError(t, os.WriteFile(path, []byte("old\n"+strings.Repeat("line\n", 30)), 0o600))
	require.Equal(t, tailLines, strings.Count(logTail(path, 4), "line"))
	require.NotContains(t, logTail(path, 4), "old")
	require.Empty(t, logTail(path, 4+150))
	require.Empty(t, logTail(path+".none", 0))
}

func Test_the_unit_leaves_trials_alone_and_quotes_paths(t *testing.T) {
	var unit strings.Builder
	require.NoError(t, PrintUnit(&unit, "/opt/a b/100%/$x/starter", Dir{path: "/state/100% $x"}))
	require.Contains(t, unit.String(), "KillMode=process\n")
	require.Contains(t, unit.String(), `ExecStart="/opt/a b/100%%/$$x/starter" serve`+"\n")
	require.Contains(t, unit.String(), `Environment="PERENNIAL_HOME=/state/100%% $x"`+"\n")
}
