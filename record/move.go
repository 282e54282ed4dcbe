package record

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// A record that is being carried has one of these before its id: nobody works with it.
const (
	arriving = "moving_" // not all of it is here yet
	departed = "moved_"  // it is elsewhere
)

// usable refuses a record that is on its way.
func (s *Store) usable() error {
	switch {
	case strings.HasPrefix(s.id, arriving):
		return errors.New("the move of a record into it was interrupted: give the same \"starter record move\" again")
	case strings.HasPrefix(s.id, departed):
		return errors.New("what it held was moved elsewhere by \"starter record move\"")
	}
	return nil
}

// table is one of those that experiments have rows in, with the key that orders it.
type table struct {
	name string
	key  []string
}

// tables are in the order in which they are carried.
var tables = []table{
	{"experiments", []string{"id"}},
	{"configurations", []string{"experiment"}},
	{"events", []string{"experiment", "number"}},
	{"trials", []string{"experiment", "sequence"}},
	{"attempts", []string{"experiment", "sequence", "attempt"}},
	{"metrics", []string{"experiment", "sequence", "attempt", "number"}},
	{"decisions", []string{"experiment", "sequence", "attempt"}},
}

// parcels are carried between databases.
var parcels = table{"parcels", []string{"experiment", "path"}}

// rowsAtOnce are carried in one commit; parcels are large.
const rowsAtOnce = 500

func (t table) atOnce() int {
	if t.name == parcels.name {
		return 1
	}
	return rowsAtOnce
}

// Move carries a record to another location, which has none, and compares every row with
// what it was; then the one is the record and the other is none any more. What was
// interrupted goes on where it was when Move is called again. tell is told how many rows
// of a table were carried and compared. A HeldError says that a host works on one of the two.
func Move(ctx context.Context, from, to string, as Leader, tell func(table string, rows int)) error {
	source, err := openThere(from)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := openAny(to)
	if err != nil {
		return err
	}
	defer target.Close()
	seat, err := source.Seat(ctx, "", as.Directory)
	if err != nil {
		return err
	}
	as.Wants.Meanwhile = source.Shared() // whose own it is stays what it was
	homes, err := source.homes(ctx)
	if err != nil {
		return err
	}
	for _, s := range []*Store{source, target} {
		if err := s.Lead(ctx, as); err != nil {
			return err
		}
		if err := s.solitary(ctx); err != nil {
			return err
		}
	}
	return move{ctx: ctx, source: source, target: target, seat: seat, homes: homes, tell: tell}.run()
}

// openThere opens a record and makes none.
func openThere(location string) (*Store, error) {
	reader, err := OpenReadOnly(location)
	if errors.Is(err, ErrNotFound) {
		return nil, err
	}
	if err == nil {
		reader.Close()
	}
	return openAny(location)
}

type move struct {
	ctx            context.Context
	source, target *Store
	seat           string
	homes          map[string]string
	tell           func(string, int)
}

func (m move) run() error {
	id := strings.TrimPrefix(m.source.id, departed)
	if m.target.id == id && m.source.id != id {
		return nil // all was done but to say so
	}
	if err := m.begin(id); err != nil {
		return err
	}
	all := tables
	if m.source.Shared() && m.target.Shared() {
		all = append(slices.Clone(tables), parcels)
	}
	for _, t := range all {
		if err := m.carry(t); err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
		rows, err := m.compare(t)
		if err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
		m.tell(t.name, rows)
	}
	if err := errors.Join(m.target.sit(m.ctx, m.seat), m.target.keepShares(m.ctx, m.homes)); err != nil {
		return err
	}
	if err := m.source.rename(m.ctx, departed+id); err != nil {
		return err
	}
	return m.target.rename(m.ctx, id)
}

// inOthers is the condition that an experiment is under way in another share than the first.
const inOthers = "share <> '' AND status IN ('RUNNING', 'STOPPING', 'REMOVING')"

// begin claims the target, unless something else is there.
func (m move) begin(id string) error {
	if strings.HasPrefix(m.source.id, arriving) {
		return m.source.usable()
	}
	if m.target.id == arriving+id {
		return nil
	}
	var filled bool
	if shared, err := m.source.Divided(m.ctx); err != nil {
		return err
	} else if shared && !m.target.Shared() {
		return errors.New("a file is for one worker, and experiments of others are under way: wait for their end, or stop them")
	}
	err := m.target.query(m.ctx).one(into(&filled), "SELECT EXISTS (SELECT 1 FROM experiments)")
	if err == nil && (filled || m.target.usable() != nil) {
		err = fmt.Errorf("there is another record at %s: name an empty place", Redacted(m.target.location))
	}
	if err != nil {
		return classify(err)
	}
	return m.target.rename(m.ctx, arriving+id)
}

func (s *Store) rename(ctx context.Context, id string) error {
	err := s.update(ctx, func(t *transaction) error {
		_, err := t.exec("UPDATE identity SET id = ?", id)
		return err
	})
	if err == nil {
		s.id = id
	}
	return err
}

// page is some rows of a table, each its key and then its columns.
type page struct {
	columns []string
	rows    [][]any
}

// after reads the rows behind a key, nil for the first ones.
func (t table) after(ctx context.Context, s *Store, key []any) (page, error) {
	where := ""
	if key != nil {
		where = " WHERE (" + strings.Join(t.key, ", ") + ") > (" + places(len(key)) + ")"
	}
	text := "SELECT " + strings.Join(t.key, ", ") + ", * FROM " + t.name + where + " ORDER BY " + strings.Join(t.key, ", ") + " LIMIT ?"
	rows, err := s.read.QueryContext(ctx, s.translate(text), append(slices.Clone(key), t.atOnce())...)
	if err != nil {
		return page{}, classify(err)
	}
	defer rows.Close()
	var p page
	if p.columns, err = rows.Columns(); err != nil {
		return p, err
	}
	p.columns = p.columns[len(t.key):]
	for rows.Next() {
		values := make([]any, len(t.key)+len(p.columns))
		into := make([]any, len(values))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			return p, err
		}
		p.rows = append(p.rows, values)
	}
	return p, classify(rows.Err())
}

// last is the key of the table's last row, nil where it has none.
func (t table) last(ctx context.Context, s *Store) ([]any, error) {
	order := strings.Join(t.key, " DESC, ") + " DESC"
	key, into := make([]any, len(t.key)), make([]any, len(t.key))
	for i := range key {
		into[i] = &key[i]
	}
	err := s.query(ctx).one(func(row scanner) error { return row.Scan(into...) },
		"SELECT "+strings.Join(t.key, ", ")+" FROM "+t.name+" ORDER BY "+order+" LIMIT 1")
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return key, classify(err)
}

func places(count int) string { return strings.TrimSuffix(strings.Repeat("?, ", count), ", ") }

// carry copies what the target does not have yet of a table, in the order of its key.
func (m move) carry(t table) error {
	key, err := t.last(m.ctx, m.target)
	for err == nil {
		var some page
		if some, err = t.after(m.ctx, m.source, key); err != nil || len(some.rows) == 0 {
			break
		}
		key = some.rows[len(some.rows)-1][:len(t.key)]
		err = m.insert(t, some)
	}
	return err
}

func (m move) insert(t table, p page) error {
	row := "(" + places(len(p.columns)) + ")"
	text := "INSERT INTO " + t.name + " (" + strings.Join(p.columns, ", ") + ") VALUES " + row + strings.Repeat(", "+row, len(p.rows)-1)
	var args []any
	for _, values := range p.rows {
		for _, value := range values[len(t.key):] {
			if bytes, is := value.([]byte); is {
				value = blob(bytes)
			}
			args = append(args, value)
		}
	}
	return m.target.update(m.ctx, func(tx *transaction) error {
		_, err := tx.exec(text, args...)
		return err
	})
}

// compare reads a table on both sides and counts its rows.
func (m move) compare(t table) (count int, err error) {
	var key []any
	for {
		here, err := t.after(m.ctx, m.source, key)
		if err != nil {
			return count, err
		}
		there, err := t.after(m.ctx, m.target, key)
		if err != nil {
			return count, err
		}
		if err := same(here, there, len(t.key)); err != nil {
			return count, err
		}
		count += len(here.rows)
		if len(here.rows) == 0 {
			return count, nil
		}
		key = here.rows[len(here.rows)-1][:len(t.key)]
	}
}

// same names the first row, by its key, that is not the same on both sides.
func same(here, there page, key int) error {
	for i, row := range here.rows {
		if i >= len(there.rows) || !equal(here.columns, row[key:], there.columns, there.rows[i][key:]) {
			return fmt.Errorf("row %v did not arrive as it was; nothing was changed where it came from", row[:key])
		}
	}
	if len(there.rows) > len(here.rows) {
		return fmt.Errorf("row %v is there and not where it should have come from", there.rows[len(here.rows)][:key])
	}
	return nil
}

// equal compares two rows whose columns may be in different orders.
func equal(columns []string, row []any, others []string, other []any) bool {
	if len(columns) != len(others) {
		return false
	}
	for i, name := range columns {
		j := slices.Index(others, name)
		if j < 0 || arrived(row[i]) != arrived(other[j]) {
			return false
		}
	}
	return true
}

// arrived is a value as both databases can hold it.
func arrived(value any) any {
	switch value := value.(type) {
	case string:
		return storable(value)
	case []byte:
		return string(value) // which can be compared
	}
	return value
}
