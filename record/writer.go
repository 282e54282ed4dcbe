package record

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// batchLimit bounds what one commit carries, so that nobody waits long for the
// others' work.
const batchLimit = 1024

var errClosed = errors.New("the record is closed")

// writer runs every change on one connection. What waits while a commit runs
// goes into the next one: each operation in a savepoint of its own, all answered
// after the commit.
type writer struct {
	dialect
	fence    string // SQL that begins each transaction: who may write
	share    string // of the experiments that are accepted
	conn     *connection
	prepared *statements
	wake     func(map[string]wake)
	renew    func() (*sql.Conn, error)    // nil where a connection cannot be cut
	announce func(map[string]wake) string // SQL that tells other processes; nil where there are none
	waiting  chan *operation
	apart    chan apart
	closing  chan struct{}
	ended    chan struct{}
}

// apart is a command that must be in no transaction.
type apart struct {
	text   string
	answer chan error
}

// operation is one change. It may run after its caller has given up.
type operation struct {
	ctx    context.Context
	run    func(*transaction) error
	answer chan error
	wakes  map[string]wake
	err    error
}

// transaction is what an operation sees of the record.
type transaction struct {
	querier
	now    time.Time
	wakes  map[string]wake
	shared bool   // with other processes
	share  string // of the experiments that are accepted
}

func (t *transaction) exec(query string, args ...any) (changed int64, err error) {
	statement, err := t.prepared.get(query)
	if err != nil {
		return 0, err
	}
	ctx, done := t.prepared.bounded(t.ctx)
	defer done()
	result, err := statement.ExecContext(ctx, args...)
	if err != nil {
		return 0, timedOut(ctx, err)
	}
	return result.RowsAffected()
}

// startWriter has a writer work that knows what it writes to.
func startWriter(w *writer) *writer {
	w.waiting, w.apart = make(chan *operation, batchLimit), make(chan apart)
	w.closing, w.ended = make(chan struct{}), make(chan struct{})
	go w.loop()
	return w
}

// close may be called once.
func (w *writer) close() error {
	close(w.closing)
	<-w.ended
	w.prepared.close()
	return w.conn.close()
}

func (w *writer) loop() {
	defer close(w.ended)
	for {
		select {
		case first := <-w.waiting:
			w.commit(w.gather(first))
		case command := <-w.apart:
			command.answer <- w.command(command.text)
		case <-w.closing:
			w.finish()
			return
		}
	}
}

// finish runs what was handed in before the store was closed.
func (w *writer) finish() {
	for {
		select {
		case first := <-w.waiting:
			w.commit(w.gather(first))
		default:
			return
		}
	}
}

func (w *writer) gather(first *operation) []*operation {
	batch := []*operation{first}
	for len(batch) < batchLimit {
		select {
		case next := <-w.waiting:
			batch = append(batch, next)
		default:
			return batch
		}
	}
	return batch
}

func (w *writer) commit(batch []*operation) {
	begun := time.Now()
	err := w.transact(batch)
	commitSeconds.Observe(time.Since(begun).Seconds())
	changes.Add(float64(len(batch)))
	if err != nil {
		w.rollBack()
		err = classify(err)
	}
	for _, op := range batch {
		if err == nil && op.err == nil {
			w.wake(op.wakes)
		}
		op.answer <- errors.Join(op.err, err)
	}
}

// rollBack fails where SQLite has rolled back by itself, and where a connection was cut:
// that one is not used again.
func (w *writer) rollBack() {
	if err := w.command("ROLLBACK"); err != nil && w.renew != nil {
		w.conn.Conn.Close()
	}
}

// open begins a transaction, on another connection where this one turns out to be cut:
// nothing was begun on it.
func (w *writer) open() error {
	err := w.command(w.begin + w.fence)
	if err == nil || w.renew == nil || errors.Is(classify(err), ErrFenced) {
		return err
	}
	w.conn.Conn.Close()
	another, err := w.renew()
	if err != nil {
		return err
	}
	w.conn.Conn = another
	return w.command(w.begin + w.fence)
}

// unprepared are statements that the connection prepares by itself.
func (w *writer) unprepared() *statements {
	return newStatements(func(query string) (statement, error) { return plain{w.conn, w.translate(query)}, nil }, w.patience)
}

// transact returns an error where nothing of the batch is known to be on record.
func (w *writer) transact(batch []*operation) error {
	if err := w.open(); err != nil {
		return err
	}
	for _, op := range batch {
		if err := w.runOne(op); err != nil {
			return err
		}
	}
	if w.announce == nil {
		return w.command("COMMIT")
	}
	return w.once(w.announce(wakesOf(batch)) + "COMMIT")
}

// wakesOf are all that a batch gives.
func wakesOf(batch []*operation) map[string]wake {
	all := map[string]wake{}
	for _, op := range batch {
		for experiment, kinds := range op.wakes {
			if op.err == nil {
				all[experiment] |= kinds
			}
		}
	}
	return all
}

// runOne runs an operation in its savepoint. The operation's own failure stays
// with it; the error returned is one that spoils the whole transaction.
func (w *writer) runOne(op *operation) error {
	if op.err = op.ctx.Err(); op.err != nil {
		return nil
	}
	if err := w.command("SAVEPOINT operation"); err != nil {
		return err
	}
	op.wakes = map[string]wake{}
	t := &transaction{querier{context.Background(), w.prepared}, time.Now().UTC(), op.wakes, w.announce != nil, w.share}
	if failure := op.run(t); failure != nil {
		if err := w.command("ROLLBACK TO operation"); err != nil {
			return failure
		}
		op.err = classify(failure)
	}
	return w.command("RELEASE operation")
}

func (w *writer) command(text string) error {
	statement, err := w.prepared.get(text)
	if err != nil {
		return err
	}
	return w.execute(func(ctx context.Context) (sql.Result, error) { return statement.ExecContext(ctx) })
}

// once runs a command that is not run again.
func (w *writer) once(text string) error {
	return w.execute(func(ctx context.Context) (sql.Result, error) { return w.conn.ExecContext(ctx, text) })
}

func (w *writer) execute(run func(context.Context) (sql.Result, error)) error {
	ctx, done := w.prepared.bounded(context.Background())
	defer done()
	_, err := run(ctx)
	return timedOut(ctx, err)
}

// alone runs a command outside of any transaction. It may run after its caller has
// given up.
func (w *writer) alone(ctx context.Context, text string) error {
	command := apart{text, make(chan error, 1)}
	select {
	case w.apart <- command:
	case <-ctx.Done():
		return ctx.Err()
	case <-w.ended:
		return errClosed
	}
	select {
	case err := <-command.answer:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// do hands an operation in and waits for its answer. answered is false where the
// operation may still be running.
func (w *writer) do(ctx context.Context, run func(*transaction) error) (answered bool, err error) {
	op := &operation{ctx: ctx, run: run, answer: make(chan error, 1)}
	select {
	case w.waiting <- op:
	case <-ctx.Done():
		return false, ctx.Err()
	case <-w.ended:
		return false, errClosed
	}
	select {
	case err := <-op.answer:
		return true, err
	case <-ctx.Done():
		return false, ctx.Err()
	case <-w.ended:
		return op.answeredAtEnd()
	}
}

func (op *operation) answeredAtEnd() (bool, error) {
	select {
	case err := <-op.answer:
		return true, err
	default:
		return false, errClosed
	}
}

// change runs an operation and returns its result once that is durable.
func change[T any](ctx context.Context, s *Store, run func(*transaction) (T, error)) (T, error) {
	var result, none T
	if s.writer == nil {
		return none, errors.New("the record is open for reading only")
	}
	answered, err := s.writer.do(ctx, func(t *transaction) (err error) {
		result, err = run(t)
		return err
	})
	if !answered || err != nil {
		return none, err
	}
	return result, nil
}

// update is change for operations without a result.
func (s *Store) update(ctx context.Context, run func(*transaction) error) error {
	_, err := change(ctx, s, func(t *transaction) (struct{}, error) { return struct{}{}, run(t) })
	return err
}
