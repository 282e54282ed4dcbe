package endtoend

import (
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite"
)

// recordFiles are the record and what SQLite keeps beside it.
func (h *Home) recordFiles() []string {
	path := filepath.Join(h.Dir, "record.sqlite")
	return []string{path, path + "-wal", path + "-shm"}
}

// BackUp copies the record while it is in use, as sqlite3's .backup does.
func (h *Home) BackUp() string {
	copied := filepath.Join(h.Work, fmt.Sprintf("backup-%d.sqlite", time.Now().UnixNano()))
	db, err := sql.Open("sqlite", "file:"+h.recordFiles()[0]+"?mode=ro&_pragma=busy_timeout(10000)")
	require.NoError(h.t, err)
	defer db.Close()
	_, err = db.Exec("VACUUM INTO ?", copied)
	require.NoError(h.t, err)
	return copied
}

// Restore puts a backup in the record's place. No host may run.
func (h *Home) Restore(backup string) {
	for _, path := range h.recordFiles()[1:] {
		_ = os.Remove(path)
	}
	require.NoError(h.t, os.Rename(backup, h.recordFiles()[0]))
}

// BackUpState copies the record and Temporal's database, which agree. No host may run.
func (h *Home) BackUpState() string {
	backup := h.BackUp()
	h.copy(filepath.Join(h.Dir, "temporal"), backup+".temporal")
	return backup
}

// RestoreState puts such a copy in their place. No host may run.
func (h *Home) RestoreState(backup string) {
	h.Restore(backup)
	require.NoError(h.t, os.RemoveAll(filepath.Join(h.Dir, "temporal")))
	h.copy(backup+".temporal", filepath.Join(h.Dir, "temporal"))
}

func (h *Home) copy(from, to string) {
	out, err := exec.Command("cp", "-a", from, to).CombinedOutput()
	require.NoError(h.t, err, string(out))
}
