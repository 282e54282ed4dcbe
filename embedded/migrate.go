package embedded

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// migrate brings a database of another schema to that of this server, by
// building a fresh file and copying the rows into it: Temporal numbers only half
// of its SQLite schema and ships no steps for the rest. The old file stays
// beside it as temporal.db.backup, for the user to delete.
//
// A crash at any point leaves either the old file or the new one under the name
// that counts.
func migrate(ctx context.Context, path string) error {
	if err := trim(ctx, path); err != nil {
		return err
	}
	same, err := hasCurrentSchema(ctx, path)
	if same || err != nil {
		return err
	}
	if err := requireSpace(path); err != nil {
		return err
	}
	unfinished := path + ".new"
	if err := removeAll(unfinished, unfinished+"-journal"); err != nil {
		return err
	}
	if err := writeSchema(ctx, unfinished); err != nil {
		return err
	}
	if err := copyRows(ctx, path, unfinished); err != nil {
		return err
	}
	return swap(unfinished, path)
}

// trim drops indexes where they are: for those no file needs to be built anew.
func trim(ctx context.Context, path string) error {
	db, err := openDatabase(path)
	if err != nil {
		return err
	}
	defer db.Close()
	transaction, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer transaction.Rollback()
	if err := dropIdleIndexes(ctx, transaction); err != nil {
		return err
	}
	return transaction.Commit()
}

// swap keeps the old file as the backup and puts the new one in its place.
func swap(unfinished, path string) error {
	backup := path + ".backup"
	if err := removeAll(backup); err != nil {
		return err
	}
	if err := os.Link(path, backup); err != nil {
		return err
	}
	if err := os.Rename(unfinished, path); err != nil {
		return err
	}
	return syncDirectory(filepath.Dir(path))
}

func removeAll(paths ...string) error {
	for _, path := range paths {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// spaceFactor times the size of the old file must be free: the new file, and the
// journal and indexes while it is written.
const spaceFactor = 2.2

func requireSpace(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	var disk unix.Statfs_t
	if err := unix.Statfs(path, &disk); err != nil {
		return err
	}
	free, need := float64(disk.Bavail)*float64(disk.Bsize), spaceFactor*float64(info.Size())
	if free < need {
		const mebibyte = 1 << 20
		return fmt.Errorf("its schema has to be renewed, which needs %.0f MiB of free space, and there are %.0f: "+
			"free some, or move %s away; experiments continue from the record", need/mebibyte, free/mebibyte, path)
	}
	return nil
}

func hasCurrentSchema(ctx context.Context, path string) (bool, error) {
	have, err := schemaOf(ctx, "file:"+uriPath(path)+"?mode=rw")
	if err != nil {
		return false, err
	}
	want, err := freshSchema(ctx)
	return slices.Equal(have, want), err
}

func freshSchema(ctx context.Context) ([]string, error) {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return nil, err
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	if err := setUpSchema(ctx, db); err != nil {
		return nil, err
	}
	return statements(ctx, db)
}

func schemaOf(ctx context.Context, source string) ([]string, error) {
	db, err := sql.Open("sqlite", source)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	return statements(ctx, db)
}

func statements(ctx context.Context, db *sql.DB) ([]string, error) {
	return column(ctx, db, "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY type, name")
}

type querier interface {
	QueryContext(ctx context.Context, query string, arguments ...any) (*sql.Rows, error)
}

// column returns the first column of a query.
func column(ctx context.Context, db querier, query string, arguments ...any) ([]string, error) {
	rows, err := db.QueryContext(ctx, query, arguments...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var values []string
	for rows.Next() {
		var value string
		if err := rows.Scan(&value); err != nil {
			return nil, err
		}
		values = append(values, value)
	}
	return values, rows.Err()
}

// copyRows fills the new file from the old one and checks it. The old file
// leaves WAL mode first: a log that stayed behind would be taken for the new
// file's.
func copyRows(ctx context.Context, from, to string) error {
	if err := leaveWAL(ctx, from); err != nil {
		return err
	}
	db, err := openDatabase(to)
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, "ATTACH ? AS old", from); err != nil {
		return err
	}
	transaction, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer transaction.Rollback()
	if err := copyTables(ctx, transaction); err != nil {
		return err
	}
	if err := transaction.Commit(); err != nil {
		return err
	}
	return quickCheck(ctx, db)
}

func leaveWAL(ctx context.Context, path string) error {
	db, err := openDatabase(path)
	if err != nil {
		return err
	}
	defer db.Close()
	var mode string
	if err := db.QueryRowContext(ctx, "PRAGMA journal_mode=delete").Scan(&mode); err != nil {
		return err
	}
	if mode != "delete" {
		return fmt.Errorf("another program has %s open: close it and try again", path)
	}
	return nil
}

// copyTables leaves out virtual tables, which triggers fill.
func copyTables(ctx context.Context, transaction *sql.Tx) error {
	tables, err := column(ctx, transaction, `SELECT new.name FROM pragma_table_list new JOIN pragma_table_list was USING (name)
		WHERE new.schema = 'main' AND was.schema = 'old' AND new.type = 'table' AND name NOT LIKE 'sqlite_%'`)
	if err != nil {
		return err
	}
	for _, table := range tables {
		if err := copyTable(ctx, transaction, table); err != nil {
			return fmt.Errorf("copy %s: %w", table, err)
		}
	}
	return nil
}

// copyTable copies the columns that both files store; generated ones follow.
func copyTable(ctx context.Context, transaction *sql.Tx, table string) error {
	columns, err := column(ctx, transaction, `SELECT '"' || name || '"' FROM pragma_table_xinfo(?1, 'main') WHERE hidden = 0
		AND name IN (SELECT name FROM pragma_table_xinfo(?1, 'old') WHERE hidden = 0)`, table)
	if err != nil {
		return err
	}
	list := strings.Join(columns, ", ")
	_, err = transaction.ExecContext(ctx, fmt.Sprintf("INSERT OR REPLACE INTO main.%[1]q (%[2]s) SELECT %[2]s FROM old.%[1]q", table, list))
	return err
}
