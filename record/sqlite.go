package record

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	_ "modernc.org/sqlite"
)

const (
	// checkedBytes is the size up to which a record is read through when it is
	// opened. A larger one is checked as it is used, so that a host comes back
	// within a second.
	checkedBytes = 64 << 20
	header       = "SQLite format 3\x00"
)

func open(path string) (*Store, error) {
	if err := createPrivate(path); err != nil {
		return nil, err
	}
	if err := checkHeader(path); err != nil {
		return nil, err
	}
	s := &Store{dialect: sqliteDialect, location: path}
	conn, err := connectFile(path, url.Values{"_pragma": {"journal_mode(wal)", "synchronous(full)", "journal_size_limit(67108864)"}})
	if err != nil {
		return nil, err
	}
	if err := s.prepareRecord(conn); err != nil {
		conn.close()
		return nil, err
	}
	s.writer = startWriter(&writer{dialect: s.dialect, conn: conn, prepared: newStatements(prepareBy(conn.PrepareContext), 0), wake: s.watchers.wake})
	return s, nil
}

func (s *Store) prepareRecord(conn *connection) error {
	ctx := context.Background()
	if _, err := sqliteFormat.of(ctx, conn.Conn); err != nil {
		return err
	}
	if err := quickCheck(ctx, conn.Conn, s.location); err != nil {
		return err
	}
	if err := migrate(ctx, conn.Conn, sqliteFormat); err != nil {
		return err
	}
	if err := s.openReaders(); err != nil {
		return err
	}
	return s.readID(ctx)
}

func openReadOnly(path string) (*Store, error) {
	if err := checkHeader(path); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: there is none yet", ErrNotFound)
	} else if err != nil {
		return nil, err
	}
	s := &Store{dialect: sqliteDialect, location: path}
	if err := s.openReaders(); err != nil {
		return nil, err
	}
	if err := s.checkReadable(sqliteFormat.of); err != nil {
		s.read.Close()
		return nil, err
	}
	return s, nil
}

// openReaders makes the pool of connections that read.
func (s *Store) openReaders() error {
	db, err := sql.Open("sqlite", dsn(s.location, url.Values{"_pragma": {"query_only(1)"}}))
	if err != nil {
		return err
	}
	db.SetMaxOpenConns(readers)
	db.SetMaxIdleConns(readers)
	s.read, s.prepared = db, newStatements(prepareBy(db.PrepareContext), 0)
	return nil
}

func dsn(path string, options url.Values) string {
	options.Add("_pragma", "busy_timeout(10000)")
	options.Set("_txlock", "immediate")
	options.Set("mode", "rw")
	absolute, err := filepath.Abs(path)
	if err != nil {
		absolute = path
	}
	address := url.URL{Scheme: "file", Path: absolute, RawQuery: options.Encode()}
	return address.String()
}

func connectFile(path string, options url.Values) (*connection, error) {
	pool, err := sql.Open("sqlite", dsn(path, options))
	if err != nil {
		return nil, err
	}
	return connect(pool)
}

// createPrivate makes the file where there is none. SQLite gives its companions
// the same permissions.
func createPrivate(path string) error {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(file.Chmod(0o600), file.Close())
}

func checkHeader(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	start := make([]byte, len(header))
	switch n, err := io.ReadFull(file, start); {
	case n == 0 && errors.Is(err, io.EOF):
		return nil
	case err != nil && !errors.Is(err, io.ErrUnexpectedEOF):
		return err
	case string(start) != header:
		return fmt.Errorf("%w: it does not begin as a database does", ErrDamaged)
	}
	return nil
}

func quickCheck(ctx context.Context, conn *sql.Conn, path string) error {
	if info, err := os.Stat(path); err != nil || info.Size() > checkedBytes {
		return err
	}
	var verdict string
	if err := conn.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&verdict); err != nil {
		return err
	}
	if verdict != "ok" {
		return fmt.Errorf("%w: %s", ErrDamaged, verdict)
	}
	return nil
}

// explain names the file and says what to do.
func explain(path string, err error) error {
	err = classify(err)
	switch {
	case errors.Is(err, ErrDamaged):
		return fmt.Errorf("%s: %w; move it and its -wal and -shm files away and put a backup in their place, or run sqlite3's .recover on a copy", path, err)
	case errors.Is(err, ErrFull):
		return fmt.Errorf("%s: %w", path, err)
	case errors.Is(err, ErrReadOnly):
		return fmt.Errorf("%s: %w; make %s writable, or set PERENNIAL_HOME to a copy of it that is", path, err, filepath.Dir(path))
	}
	return fmt.Errorf("open the record %s: %w", path, err)
}
