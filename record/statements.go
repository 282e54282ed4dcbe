package record

import (
	"context"
	"database/sql"
	"sync"
	"sync/atomic"
)

// statements prepares each query once.
type statements struct {
	prepare func(context.Context, string) (*sql.Stmt, error)
	mu      sync.Mutex
	byQuery map[string]*sql.Stmt
	queries atomic.Int64
	rows    atomic.Int64
}

func newStatements(prepare func(context.Context, string) (*sql.Stmt, error)) *statements {
	return &statements{prepare: prepare, byQuery: map[string]*sql.Stmt{}}
}

func (s *statements) get(query string) (*sql.Stmt, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if statement, known := s.byQuery[query]; known {
		return statement, nil
	}
	// The statement outlives the call, so the caller's context must not end it.
	statement, err := s.prepare(context.Background(), query)
	if err != nil {
		return nil, err
	}
	s.byQuery[query] = statement
	return statement, nil
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
	return scan(statement.QueryRowContext(q.ctx, args...))
}

// each passes every row to scan.
func (q querier) each(scan func(scanner) error, query string, args ...any) error {
	statement, err := q.prepared.get(query)
	if err != nil {
		return err
	}
	rows, err := statement.QueryContext(q.ctx, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	q.prepared.queries.Add(1)
	for rows.Next() {
		q.prepared.rows.Add(1)
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// into scans a row into the given places.
func into(places ...any) func(scanner) error {
	return func(row scanner) error { return row.Scan(places...) }
}
