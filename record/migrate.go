package record

import (
	"context"
	"crypto/rand"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

//go:embed migrations/*.sql
var migrations embed.FS

const (
	// Format is the number of the newest migration: hosts of which one has a higher one
	// are not of the same version.
	Format = 6
	// applicationID marks a file as ours, in SQLite's application_id: "Prnl".
	applicationID = 0x50726e6c
)

// formatKeeper is how a database keeps the number of a record's format. The schema is
// written as SQLite reads it.
type formatKeeper struct {
	begin string
	// of returns a record's format, 0 for an empty database, or why it cannot be used.
	of     func(context.Context, *sql.Conn) (int, error)
	adapt  func(script string) string
	suffix string // of scripts that this database needs beside the common ones
	mark   string // stores the number, in the place of %d
}

var sqliteFormat = formatKeeper{
	begin: "BEGIN IMMEDIATE", of: formatOfFile, adapt: func(script string) string { return script }, suffix: ".sqlite",
	mark: fmt.Sprintf("PRAGMA user_version = %%d; PRAGMA application_id = %d", applicationID),
}

var postgresFormat = formatKeeper{
	begin: postgresDialect.begin, of: formatOfSchema, suffix: ".postgres", mark: "UPDATE format SET number = %d",
	adapt: strings.NewReplacer(" STRICT, WITHOUT ROWID;", ";", " STRICT;", ";", "INTEGER", "BIGINT", "REAL", "DOUBLE PRECISION",
		" TEXT ", ` TEXT COLLATE "C" `, " TEXT,", ` TEXT COLLATE "C",`).Replace,
}

// migrate brings a record of any older format up to date, all or nothing.
func migrate(ctx context.Context, conn *sql.Conn, keeper formatKeeper) error {
	if _, err := conn.ExecContext(ctx, keeper.begin); err != nil {
		return err
	}
	if err := keeper.migrate(ctx, conn); err != nil {
		conn.ExecContext(ctx, "ROLLBACK")
		return err
	}
	_, err := conn.ExecContext(ctx, "COMMIT")
	return err
}

func (k formatKeeper) migrate(ctx context.Context, conn *sql.Conn) error {
	found, err := k.of(ctx, conn)
	if err != nil {
		return err
	}
	for number := found + 1; number <= Format; number++ {
		if err := k.step(ctx, conn, number); err != nil {
			return fmt.Errorf("migration %d: %w", number, err)
		}
	}
	return nil
}

func (k formatKeeper) step(ctx context.Context, conn *sql.Conn, number int) error {
	script, err := k.script(number)
	if err != nil {
		return err
	}
	if _, err := conn.ExecContext(ctx, script); err != nil {
		return err
	}
	if number == 1 {
		if _, err := conn.ExecContext(ctx, "INSERT INTO identity (id) VALUES ('"+newID()+"')"); err != nil {
			return err
		}
	}
	_, err = conn.ExecContext(ctx, fmt.Sprintf(k.mark, number))
	return err
}

func (k formatKeeper) script(number int) (string, error) {
	common, err := migrations.ReadFile(fmt.Sprintf("migrations/%04d.sql", number))
	if err != nil {
		return "", err
	}
	own, err := migrations.ReadFile(fmt.Sprintf("migrations/%04d%s.sql", number, k.suffix))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	return k.adapt(string(common)) + string(own), nil
}

func newID() string {
	random := make([]byte, 8)
	rand.Read(random) // never fails since Go 1.24
	for i := range random {
		random[i] = 'a' + random[i]%26
	}
	return string(random)
}

func formatOfFile(ctx context.Context, conn *sql.Conn) (int, error) {
	var found, application, tables int
	row := conn.QueryRowContext(ctx, `SELECT
		(SELECT user_version FROM pragma_user_version),
		(SELECT application_id FROM pragma_application_id),
		(SELECT count(*) FROM sqlite_schema)`)
	if err := row.Scan(&found, &application, &tables); err != nil {
		return 0, err
	}
	if tables > 0 && application != applicationID {
		return 0, fmt.Errorf("%w: it is a database of another program", ErrDamaged)
	}
	return found, notNewer(found)
}

func formatOfSchema(ctx context.Context, conn *sql.Conn) (found int, err error) {
	var tables int
	var ours bool
	row := conn.QueryRowContext(ctx, `SELECT count(*), coalesce(bool_or(tablename = 'format'), false)
		FROM pg_tables WHERE schemaname = current_schema()`)
	if err := row.Scan(&tables, &ours); err != nil {
		return 0, err
	}
	switch {
	case tables == 0:
		return 0, nil
	case !ours:
		return 0, fmt.Errorf("%w: it is a database of another program: give the record one of its own, or a schema by ?search_path=NAME", ErrDamaged)
	}
	if err := conn.QueryRowContext(ctx, "SELECT number FROM format").Scan(&found); err != nil {
		return 0, err
	}
	return found, notNewer(found)
}

func notNewer(found int) error {
	if found > Format {
		return fmt.Errorf("%w: its format is %d and this one reads up to %d: install the newer starter again",
			ErrNewer, found, Format)
	}
	return nil
}
