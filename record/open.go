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
	"sync"

	sqlite "modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"
)

const (
	readers = 4 // connections that read while one writes
	// checkedBytes is the size up to which a record is read through when it is
	// opened. A larger one is checked as it is used, so that a host comes back
	// within a second.
	checkedBytes = 64 << 20
	header       = "SQLite format 3\x00"
)

// Store is an open record. Its methods are safe for concurrent use. A method
// that changes the record returns after the change is durable; when its context
// ends before, the change may still happen.
type Store struct {
	path     string
	id       string
	read     *sql.DB
	prepared *statements
	writer   *writer // nil in a store opened to read only
	watchers watchers
	closed   sync.Once
}

// Open opens the record at path, makes it where there is none, and brings an
// older format up to date. Only one process at a time may have it open so. It
// returns ErrNewer, ErrDamaged or ErrFull where that is what is wrong.
func Open(path string) (*Store, error) {
	s, err := open(path)
	if err != nil {
		return nil, explain(path, err)
	}
	return s, nil
}

func open(path string) (*Store, error) {
	if err := createPrivate(path); err != nil {
		return nil, err
	}
	if err := checkHeader(path); err != nil {
		return nil, err
	}
	s := &Store{path: path}
	conn, err := connect(path, url.Values{"_pragma": {"journal_mode(wal)", "synchronous(full)", "journal_size_limit(67108864)"}})
	if err != nil {
		return nil, err
	}
	if err := s.prepareRecord(conn); err != nil {
		conn.close()
		return nil, err
	}
	s.writer = startWriter(conn, s.watchers.wake)
	return s, nil
}

func (s *Store) prepareRecord(conn *connection) error {
	ctx := context.Background()
	if _, err := formatOf(ctx, conn.Conn); err != nil {
		return err
	}
	if err := quickCheck(ctx, conn.Conn, s.path); err != nil {
		return err
	}
	if err := migrate(ctx, conn.Conn); err != nil {
		return err
	}
	if err := s.openReaders(); err != nil {
		return err
	}
	return s.readID(ctx)
}

// OpenReadOnly opens the record at path to read it while another process may be
// writing; what that one has committed is seen at once. A missing record is
// ErrNotFound. Methods that change the record return an error.
func OpenReadOnly(path string) (*Store, error) {
	s, err := openReadOnly(path)
	if err != nil {
		return nil, explain(path, err)
	}
	return s, nil
}

func openReadOnly(path string) (*Store, error) {
	if err := checkHeader(path); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: there is none yet", ErrNotFound)
	} else if err != nil {
		return nil, err
	}
	s := &Store{path: path}
	if err := s.openReaders(); err != nil {
		return nil, err
	}
	if err := s.checkReadable(); err != nil {
		s.read.Close()
		return nil, err
	}
	return s, nil
}

func (s *Store) checkReadable() error {
	ctx := context.Background()
	conn, err := s.read.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	switch number, err := formatOf(ctx, conn); {
	case err != nil:
		return err
	case number == 0:
		return fmt.Errorf("%w: it is empty as yet", ErrNotFound)
	case number < format:
		return fmt.Errorf("its format is %d and must become %d: start the host of this version, which does that", number, format)
	}
	return s.readID(ctx)
}

// openReaders makes the pool of connections that read.
func (s *Store) openReaders() error {
	db, err := sql.Open("sqlite", dsn(s.path, url.Values{"_pragma": {"query_only(1)"}}))
	if err != nil {
		return err
	}
	db.SetMaxOpenConns(readers)
	db.SetMaxIdleConns(readers)
	s.read, s.prepared = db, newStatements(db.PrepareContext)
	return nil
}

func (s *Store) readID(ctx context.Context) error {
	return s.read.QueryRowContext(ctx, "SELECT id FROM identity").Scan(&s.id)
}

// Close ends all access. Changes under way are finished first. A second call does
// nothing.
func (s *Store) Close() error {
	var err error
	s.closed.Do(func() { err = s.close() })
	return err
}

func (s *Store) close() error {
	var err error
	if s.writer != nil {
		err = s.writer.close()
	}
	s.prepared.close()
	return errors.Join(err, s.read.Close())
}

// ID returns the record's id: eight lower-case letters, made with the record.
func (s *Store) ID() string { return s.id }

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

// connection is one connection with the pool it stands in.
type connection struct {
	*sql.Conn
	pool *sql.DB
}

func connect(path string, options url.Values) (*connection, error) {
	pool, err := sql.Open("sqlite", dsn(path, options))
	if err != nil {
		return nil, err
	}
	conn, err := pool.Conn(context.Background())
	if err != nil {
		pool.Close()
		return nil, err
	}
	return &connection{conn, pool}, nil
}

func (c *connection) close() error { return errors.Join(c.Conn.Close(), c.pool.Close()) }

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

// classify turns SQLite's codes into our errors.
func classify(err error) error {
	var failure *sqlite.Error
	if !errors.As(err, &failure) {
		return err
	}
	switch failure.Code() & 0xff {
	case codes.SQLITE_FULL:
		return fmt.Errorf("%w: %w", ErrFull, err)
	case codes.SQLITE_READONLY, codes.SQLITE_CANTOPEN:
		return fmt.Errorf("%w: %w", ErrReadOnly, err)
	case codes.SQLITE_CORRUPT, codes.SQLITE_NOTADB:
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return err
}
