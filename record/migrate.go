package record

import (
	"context"
	"crypto/rand"
	"database/sql"
	"embed"
	"fmt"
)

//go:embed migrations/*.sql
var migrations embed.FS

const (
	// format is the number of the newest migration, kept in SQLite's user_version.
	format = 2
	// applicationID marks a database as ours, in SQLite's application_id: "Prnl".
	applicationID = 0x50726e6c
)

// migrate brings a record of any older format up to date, all or nothing. A
// format of 0 is an empty file.
func migrate(ctx context.Context, conn *sql.Conn) error {
	if _, err := conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	if err := migrateInTransaction(ctx, conn); err != nil {
		conn.ExecContext(ctx, "ROLLBACK")
		return err
	}
	_, err := conn.ExecContext(ctx, "COMMIT")
	return err
}

func migrateInTransaction(ctx context.Context, conn *sql.Conn) error {
	found, err := formatOf(ctx, conn)
	if err != nil {
		return err
	}
	for number := found + 1; number <= format; number++ {
		if err := step(ctx, conn, number); err != nil {
			return fmt.Errorf("migration %d: %w", number, err)
		}
	}
	return nil
}

func step(ctx context.Context, conn *sql.Conn, number int) error {
	script, err := migrations.ReadFile(fmt.Sprintf("migrations/%04d.sql", number))
	if err != nil {
		return err
	}
	if _, err := conn.ExecContext(ctx, string(script)); err != nil {
		return err
	}
	if number == 1 {
		if err := identify(ctx, conn); err != nil {
			return err
		}
	}
	_, err = conn.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", number))
	return err
}

func identify(ctx context.Context, conn *sql.Conn) error {
	if _, err := conn.ExecContext(ctx, "INSERT INTO identity (id) VALUES (?)", newID()); err != nil {
		return err
	}
	_, err := conn.ExecContext(ctx, fmt.Sprintf("PRAGMA application_id = %d", applicationID))
	return err
}

func newID() string {
	random := make([]byte, 8)
	rand.Read(random) // never fails since Go 1.24
	for i := range random {
		random[i] = 'a' + random[i]%26
	}
	return string(random)
}

// formatOf returns a record's format, 0 for an empty database, or why it cannot
// be used.
func formatOf(ctx context.Context, conn *sql.Conn) (int, error) {
	var found, application, tables int
	row := conn.QueryRowContext(ctx, `SELECT
		(SELECT user_version FROM pragma_user_version),
		(SELECT application_id FROM pragma_application_id),
		(SELECT count(*) FROM sqlite_schema)`)
	if err := row.Scan(&found, &application, &tables); err != nil {
		return 0, err
	}
	switch {
	case tables > 0 && application != applicationID:
		return 0, fmt.Errorf("%w: it is a database of another program", ErrDamaged)
	case found > format:
		return 0, fmt.Errorf("%w: its format is %d and this one reads up to %d: install the newer starter again",
			ErrNewer, found, format)
	}
	return found, nil
}
