package record

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// statement is one query of one database.
type statement interface {
	ExecContext(ctx context.Context, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, args ...any) *sql.Row
	Close() error
}

// statements prepares each query once.
type statements struct {
	prepare  func(query string) (statement, error)
	patience time.Duration // how long each may take; 0 is as long as it does
	mu       sync.Mutex
	byQuery  map[string]statement
	queries  atomic.Int64
	rows     atomic.Int64
}

func newStatements(prepare func(string) (statement, error), patience time.Duration) *statements {
	return &statements{prepare: prepare, patience: patience, byQuery: map[string]statement{}}
}

// prepareBy prepares with a connection or pool of database/sql. A statement outlives
// the call, so no caller's context must end it.
func prepareBy(prepare func(context.Context, string) (*sql.Stmt, error)) func(string) (statement, error) {
	return func(query string) (statement, error) { return prepare(context.Background(), query) }
}

func (s *statements) get(query string) (statement, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, is := s.byQuery[query]; is {
		return known, nil
	}
	prepared, err := s.prepare(query)
	if err != nil {
		return nil, err
	}
	s.byQuery[query] = prepared
	return prepared, nil
}

// bounded is the time that one statement of a caller has.
func (s *statements) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if s.patience == 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, s.patience, ErrUnreachable)
}

// timedOut says of an error that the time was not the caller's.
func timedOut(ctx context.Context, err error) error {
	if err != nil && errors.Is(context.Cause(ctx), ErrUnreachable) {
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	return err
}

func (s *statements) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, statement := range s.byQuery {
		statement.Close()
	}
}

// querier runs queries for one caller, or inside one transaction.
type querier struct {
	ctx      context.Context
	prepared *statements
}

// Reads is how much was read of a record.
type Reads struct{ Queries, Rows int64 }

// Reads returns how much this store has read for its callers so far, so that what
// something costs can be told; what changes of the record read is not in it.
func (s *Store) Reads() Reads { return Reads{s.prepared.queries.Load(), s.prepared.rows.Load()} }

func (s *Store) query(ctx context.Context) querier { return querier{ctx, s.prepared} }

// scanner is *sql.Row and *sql.Rows.
type scanner interface{ Scan(...any) error }

// one passes the only row to scan, and returns sql.ErrNoRows where there is none.
func (q querier) one(scan func(scanner) error, query string, args ...any) error {
	statement, err := q.prepared.get(query)
	if err != nil {
		return err
	}
	q.prepared.queries.Add(1)
	q.prepared.rows.Add(1)
	ctx, done := q.prepared.bounded(q.ctx)
	defer done()
	return timedOut(ctx, scan(statement.QueryRowContext(ctx, args...)))
}

// each passes every row to scan.
func (q querier) each(scan func(scanner) error, query string, args ...any) error {
	statement, err := q.prepared.get(query)
	if err != nil {
		return err
	}
	ctx, done := q.prepared.bounded(q.ctx)
	defer done()
	rows, err := statement.QueryContext(ctx, args...)
	if err != nil {
		return timedOut(ctx, err)
	}
	defer rows.Close()
	q.prepared.queries.Add(1)
	for rows.Next() {
		q.prepared.rows.Add(1)
		if err := scan(rows); err != nil {
			return err
		}
	}
	return timedOut(ctx, rows.Err())
}

// into scans a row into the given places.
func into(places ...any) func(scanner) error {
	return func(row scanner) error { return row.Scan(places...) }
}
