package record

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// lookEvery is how often an open record of PostgreSQL's is looked at for what
	// others changed and no word came of: of a connection that was cut, or through a
	// pooler that passes none on.
	lookEvery = time.Second
	// longestWord is what PostgreSQL passes on, less a little.
	longestWord = 7500
	// everything is a word about all experiments.
	everything = "*"
)

// wire carries words about commits between the processes that have a record open.
type wire struct {
	postgres
	store   *Store
	speaker string // this store, among all that speak
	channel string
	seen    map[string]string // versions of experiments' rows
	cancel  context.CancelFunc
	ended   sync.WaitGroup
}

func (s *Store) listen(p postgres) *wire {
	ctx, cancel := context.WithCancel(context.Background())
	w := &wire{postgres: p, store: s, speaker: rand.Text()[:8], channel: "perennial_" + s.id, cancel: cancel}
	w.ended.Go(func() {
		for ctx.Err() == nil {
			w.hear(ctx)
			w.look(ctx) // a word may have come while nobody listened
			w.pause(ctx)
		}
	})
	return w
}

func (w *wire) close() {
	w.cancel()
	w.ended.Wait()
}

func (w *wire) pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(lookEvery):
	}
}

// hear wakes whoever watches what others tell of, until the connection fails.
func (w *wire) hear(ctx context.Context) {
	conn, err := pgx.ConnectConfig(ctx, w.config.Copy())
	if err != nil {
		return
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(ctx, "LISTEN "+w.channel); err != nil {
		return
	}
	for ctx.Err() == nil && w.look(ctx) == nil {
		for w.word(ctx, conn) {
		}
		if conn.IsClosed() {
			return
		}
	}
}

// word waits for one word, but not for long.
func (w *wire) word(ctx context.Context, conn *pgx.Conn) bool {
	ctx, cancel := context.WithTimeout(ctx, lookEvery)
	defer cancel()
	said, err := conn.WaitForNotification(ctx)
	if err != nil {
		return false
	}
	speaker, about, _ := strings.Cut(said.Payload, " ")
	switch {
	case speaker == w.speaker:
	case about == everything:
		w.store.watchers.wakeAll()
	default:
		w.store.watchers.wake(understood(about))
	}
	return true
}

// say is the SQL that tells the others, with the commit, who must hear of it.
func (w *wire) say(wakes map[string]wake) string {
	if len(wakes) == 0 {
		return ""
	}
	var about []string
	length := 0
	for experiment, kinds := range wakes {
		part := experiment + ":" + strconv.Itoa(int(kinds))
		length += len(part) + 1
		about = append(about, part)
	}
	words := strings.Join(about, ",")
	if length > longestWord || strings.ContainsAny(words, `'\`) {
		words = everything
	}
	return fmt.Sprintf("NOTIFY %s, '%s %s';", w.channel, w.speaker, words)
}

// understood is the contrary of say.
func understood(about string) map[string]wake {
	wakes := map[string]wake{}
	for part := range strings.SplitSeq(about, ",") {
		experiment, kinds, _ := strings.Cut(part, ":")
		bits, err := strconv.Atoi(kinds)
		if err != nil {
			bits = int(wakeLog | wakeNews | wakeRows)
		}
		wakes[experiment] |= wake(bits)
	}
	return wakes
}

// look wakes whoever watches an experiment whose row has changed since the last look.
// Each commit that wakes anybody writes that row.
func (w *wire) look(ctx context.Context) error {
	if !w.store.watchers.any() {
		w.seen = nil
		return nil
	}
	seen, changed := map[string]string{}, map[string]wake{}
	err := w.store.query(ctx).each(func(row scanner) error {
		var id, version string
		err := row.Scan(&id, &version)
		if seen[id] = version; w.seen[id] != version {
			changed[id] = wakeLog | wakeNews | wakeRows
		}
		return err
	}, "SELECT id, xmin::text FROM experiments")
	for id := range w.seen {
		if seen[id] == "" {
			changed[id] = wakeRows // it was removed
		}
	}
	if err == nil {
		w.seen = seen
		w.store.watchers.wake(changed)
	}
	return err
}
