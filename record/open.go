package record

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
)

const readers = 4 // connections that read while one writes

// Store is an open record. Its methods are safe for concurrent use. A method
// that changes the record returns after the change is durable; when its context
// ends before, the change may still happen.
type Store struct {
	dialect
	location string
	id       string
	read     *sql.DB
	prepared *statements
	writer   *writer // nil in a store opened to read only
	watchers watchers
	wire     *wire  // nil where no other process writes
	lease    *lease // nil where this one does not lead
	closed   sync.Once
}

// Open opens the record at a location, the path of a file of SQLite's or the address
// of a database of PostgreSQL's, makes it where there is none, and brings an older
// format up to date. Of a file, only one process at a time may have it open so. It
// returns ErrNewer, ErrDamaged, ErrFull or ErrUnreachable where that is what is wrong.
func Open(location string) (*Store, error) { return unmoved(openAny(location)) }

// unmoved gives a store out unless what it holds is on its way elsewhere.
func unmoved(s *Store, err error) (*Store, error) {
	if err != nil {
		return nil, err
	}
	if err := s.usable(); err != nil {
		return nil, errors.Join(fmt.Errorf("the record %s: %w", Redacted(s.location), err), s.Close())
	}
	return s, nil
}

// openAny opens a record also where it is on its way.
func openAny(location string) (*Store, error) {
	if InPostgres(location) {
		return openPostgres(location)
	}
	s, err := open(location)
	if err != nil {
		return nil, explain(location, err)
	}
	return s, nil
}

// OpenBeside opens a record that another process works on, to hand things over by Deposit.
// It makes none, and changes none of an older format; a missing record is ErrNotFound.
func OpenBeside(location string) (*Store, error) {
	reader, err := OpenReadOnly(location)
	if err != nil {
		return nil, err
	}
	if err := reader.Close(); err != nil {
		return nil, err
	}
	return Open(location)
}

// OpenReadOnly opens the record at a location to read it while another process may be
// writing; what that one has committed is seen at once. A missing record is
// ErrNotFound. Methods that change the record return an error.
func OpenReadOnly(location string) (*Store, error) {
	if InPostgres(location) {
		return unmoved(openPostgresReadOnly(location))
	}
	s, err := openReadOnly(location)
	if err != nil {
		return nil, explain(location, err)
	}
	return unmoved(s, nil)
}

// InPostgres tells whether a location is a database of PostgreSQL's.
func InPostgres(location string) bool {
	return strings.HasPrefix(location, "postgresql://") || strings.HasPrefix(location, "postgres://")
}

// checkReadable refuses what is no record yet, or not of this version's format.
func (s *Store) checkReadable(formatOf func(context.Context, *sql.Conn) (int, error)) error {
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
	case number < Format:
		return fmt.Errorf("%w: its format is %d, and a host of this version makes it %d", ErrOlder, number, Format)
	}
	return s.readID(ctx)
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
	s.giveBack()
	if s.writer != nil {
		err = s.writer.close()
	}
	if s.wire != nil {
		s.wire.close()
	}
	s.prepared.close()
	return errors.Join(err, s.read.Close())
}

// Shared tells whether several machines can have the record open.
func (s *Store) Shared() bool { return InPostgres(s.location) }

// ID returns the record's id: eight lower-case letters, made with the record.
func (s *Store) ID() string { return s.id }

// connection is one connection with the pool it stands in.
type connection struct {
	*sql.Conn
	pool *sql.DB
}

func connect(pool *sql.DB) (*connection, error) {
	conn, err := pool.Conn(context.Background())
	if err != nil {
		pool.Close()
		return nil, err
	}
	return &connection{conn, pool}, nil
}

func (c *connection) close() error { return errors.Join(c.Conn.Close(), c.pool.Close()) }
