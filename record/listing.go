package record

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/perennial-ml/perennial/trial"
)

// Order is what a Listing is sorted by. Trials that lack it come last, and equal
// ones stand by their number.
type Order string

// The orders of trials.
const (
	ByNumber    Order = ""          // the first one asked for first
	ByMetric    Order = "metric"    // the best first, as the experiment optimises
	ByDuration  Order = "duration"  // the longest first
	ByParameter Order = "parameter" // numbers before texts, the least first
)

// Listing says which trials of an experiment are wanted, and in which order.
type Listing struct {
	States    []trial.State // any of these; none means all
	Numbers   []int         // these alone; nil means all
	Measured  bool          // only those that have a default metric
	Order     Order
	Parameter string // ByParameter: its name, "outer/inner" within a nested choice
	Reverse   bool
	Limit     int // how many at most; 0 means all
	// Text is what the parameters or the reason must have in them, whatever the case of
	// letters; or it is the number of the trial or the beginning of its id.
	Text string
	// After leaves out all up to this trial, in the order of the listing; nil: none.
	After *int
	Skip  int // how many of the first to leave out; it needs a Limit
}

// List returns the trials that a listing wants, and reads no others into memory.
func (s *Store) List(ctx context.Context, experiment string, listing Listing) ([]Trial, error) {
	query, err := s.selection(ctx, experiment, listing)
	if err != nil {
		return nil, err
	}
	var all []Trial
	err = s.query(ctx).each(func(row scanner) error {
		var n trialRow
		err := n.scan(row)
		all = append(all, n.Trial)
		return err
	}, query.text.String(), query.args...)
	return all, classify(err)
}

// Count returns how many trials a listing would have without its Limit, Skip and After.
func (s *Store) Count(ctx context.Context, experiment string, listing Listing) (count int, err error) {
	query := selection{experiment: experiment}
	query.add("SELECT count(*) FROM trials")
	if err := query.filter(ctx, s, listing); err != nil {
		return 0, err
	}
	err = s.query(ctx).one(into(&count), query.text.String(), query.args...)
	return count, classify(err)
}

func (s *Store) selection(ctx context.Context, experiment string, listing Listing) (*selection, error) {
	query := &selection{experiment: experiment, now: time.Now()}
	query.add(trialColumns)
	if err := query.filter(ctx, s, listing); err != nil {
		return nil, err
	}
	return query, query.sort(ctx, s, listing)
}

// selection is a listing as SQL: one of a few texts, with arguments.
type selection struct {
	experiment string
	now        time.Time
	text       strings.Builder
	args       []any
}

func (q *selection) add(text string, args ...any) {
	q.text.WriteString(text)
	q.args = append(q.args, args...)
}

func (q *selection) filter(ctx context.Context, s *Store, l Listing) error {
	q.add(" WHERE experiment = ?", q.experiment)
	if len(l.States) > 0 {
		q.add(" AND state IN (SELECT value FROM json_each(?))", list(l.States))
	}
	if l.Numbers != nil {
		q.add(" AND sequence IN (SELECT value FROM json_each(?))", list(l.Numbers))
	}
	if l.Measured {
		q.add(" AND value IS NOT NULL")
	}
	if l.Text == "" {
		return nil
	}
	numbers, err := s.called(ctx, q.experiment, l.Text)
	text := "%" + likeEscapes.Replace(l.Text) + "%"
	q.add(` AND (parameters LIKE ? ESCAPE '\' OR reason_text LIKE ? ESCAPE '\' OR sequence IN (SELECT value FROM json_each(?)))`, text, text, list(numbers))
	return err
}

var likeEscapes = strings.NewReplacer("\\", "\\\\", "%", "\\%", "_", "\\_")

// called returns the numbers of the trials whose number a text is, or whose ids begin
// with it: ids are computed, and on record nowhere.
func (s *Store) called(ctx context.Context, experiment, text string) ([]int, error) {
	e, err := s.query(ctx).experiment(experiment)
	if err != nil {
		return nil, err
	}
	numbers := []int{}
	if n, err := strconv.Atoi(text); err == nil {
		numbers = append(numbers, n)
	}
	if len(text) > trial.IDLength {
		return numbers, nil
	}
	for n := range e.Asked {
		if strings.HasPrefix(trial.ID(experiment, n), strings.ToLower(text)) {
			numbers = append(numbers, n)
		}
	}
	return numbers, nil
}

func (q *selection) sort(ctx context.Context, s *Store, l Listing) error {
	key, args, falling := "sequence", []any(nil), l.Reverse
	switch l.Order {
	case ByMetric:
		e, err := s.query(ctx).experiment(q.experiment)
		if err != nil {
			return err
		}
		key, falling = "value", e.Minimize == l.Reverse
	case ByDuration:
		key = "CASE WHEN started > 0 THEN CASE WHEN ended > 0 THEN ended ELSE ? END - started END"
		args, falling = []any{nanoseconds(q.now)}, !l.Reverse
	case ByParameter:
		// A name may have the slash itself or mean what lies in a nested choice.
		key, args = s.parameterKey, s.parameterPaths([]string{l.Parameter}, strings.Split(l.Parameter, "/"))
	}
	if l.After != nil {
		if err := q.after(ctx, s, key, args, falling, *l.After); err != nil {
			return err
		}
	}
	q.orderBy(key, args, falling)
	if l.Limit > 0 {
		q.add(" LIMIT ? OFFSET ?", l.Limit, l.Skip)
	}
	return nil
}

// after narrows to what comes after a trial: by what that one has now.
func (q *selection) after(ctx context.Context, s *Store, key string, args []any, falling bool, number int) error {
	direction := ">"
	if falling {
		direction = "<"
	}
	if key == "sequence" {
		q.add(" AND sequence "+direction+" ?", number)
		return nil
	}
	var last any
	err := s.query(ctx).one(into(&last), "SELECT "+key+" FROM trials WHERE experiment = ? AND sequence = ?",
		slices.Concat(args, []any{q.experiment, number})...)
	if err != nil {
		return found(err, "trial %d of experiment %s", number, q.experiment)
	}
	if last == nil {
		q.add(" AND ("+key+") IS NULL AND sequence > ?", append(args, number)...)
		return nil
	}
	q.add(" AND (("+key+") IS NULL OR ("+key+") "+direction+" ? OR ("+key+") = ? AND sequence > ?)",
		slices.Concat(args, args, []any{last}, args, []any{last, number})...)
	return nil
}

func (q *selection) orderBy(key string, args []any, falling bool) {
	direction := ""
	if falling {
		direction = " DESC"
	}
	if key == "sequence" {
		q.add(" ORDER BY sequence" + direction)
		return
	}
	q.add(" ORDER BY ("+key+") IS NULL, ", args...)
	q.add("("+key+")"+direction+", sequence", args...)
}

// list is a list as json_each reads it.
func list[T any](elements []T) string {
	text, err := json.Marshal(append([]T{}, elements...)) // none is [], not null
	if err != nil {
		panic(err) // numbers and names are always valid JSON
	}
	return string(text)
}

// newestOf narrows a query to the newest attempts of some trials.
const newestOf = ` WHERE experiment = ? AND (sequence, attempt) IN (SELECT sequence, attempts FROM trials
	WHERE experiment = ? AND sequence IN (SELECT value FROM json_each(?)))`

// NewestAttempts returns the newest attempt of each of these trials that has one,
// by the trial's number.
func (s *Store) NewestAttempts(ctx context.Context, experiment string, numbers []int) (map[int]Attempt, error) {
	found, err := s.query(ctx).attempts(newestOf, experiment, experiment, list(numbers))
	newest := make(map[int]Attempt, len(found))
	for _, attempt := range found {
		newest[attempt.Key.Sequence] = attempt
	}
	return newest, err
}

// Latest returns the newest intermediate that the newest attempt of each of these
// trials reported, by the trial's number.
func (s *Store) Latest(ctx context.Context, experiment string, numbers []int) (map[int]Metric, error) {
	latest := map[int]Metric{}
	err := s.query(ctx).each(func(row scanner) error {
		var m Metric
		err := m.scan(row)
		latest[m.Key.Sequence] = m
		return err
	}, metricColumns+` WHERE (experiment, sequence, attempt, number) IN (
		SELECT t.experiment, t.sequence, t.attempts, (SELECT m.number FROM metrics m WHERE m.experiment = t.experiment
			AND m.sequence = t.sequence AND m.attempt = t.attempts AND m.kind = 'PERIODICAL' ORDER BY m.number DESC LIMIT 1)
		FROM trials t WHERE t.experiment = ? AND t.sequence IN (SELECT value FROM json_each(?)))`, experiment, list(numbers))
	return latest, classify(err)
}

// Tried returns all attempts at an experiment's trials, by trial and number.
func (s *Store) Tried(ctx context.Context, experiment string) ([]Attempt, error) {
	return s.query(ctx).attempts(" WHERE experiment = ? ORDER BY sequence, attempt", experiment)
}

// EachIntermediate passes what the newest attempts of these trials reported on the way,
// trial by trial, in the journal's order.
func (s *Store) EachIntermediate(ctx context.Context, experiment string, numbers []int, pass func(Metric)) error {
	return classify(s.query(ctx).each(func(row scanner) error {
		var m Metric
		err := m.scan(row)
		pass(m)
		return err
	}, metricColumns+` m WHERE experiment = ? AND sequence IN (SELECT value FROM json_each(?)) AND kind = 'PERIODICAL'
		AND attempt = (SELECT attempts FROM trials t WHERE t.experiment = m.experiment AND t.sequence = m.sequence)
		ORDER BY sequence, number`, experiment, list(numbers)))
}

// Finals returns the default metrics of an experiment's trials that have ended, in the
// order in which they did.
func (s *Store) Finals(ctx context.Context, experiment string) ([]float64, error) {
	var all []float64
	err := s.query(ctx).each(func(row scanner) error {
		var value float64
		err := row.Scan(&value)
		all = append(all, value)
		return err
	}, "SELECT value FROM trials WHERE experiment = ? AND value IS NOT NULL AND ended > 0 ORDER BY ended, sequence", experiment)
	return all, classify(err)
}

// Intermediates returns what an attempt reported on the way, in the journal's
// order, of more than limit the newest.
func (s *Store) Intermediates(ctx context.Context, key trial.Key, limit int) ([]Metric, error) {
	var all []Metric
	err := s.query(ctx).each(func(row scanner) error {
		var m Metric
		err := m.scan(row)
		all = append(all, m)
		return err
	}, metricColumns+ofAttempt+" AND kind = 'PERIODICAL' ORDER BY number DESC LIMIT ?",
		key.Experiment, key.Sequence, key.Attempt, limit)
	slices.Reverse(all)
	return all, classify(err)
}
