package poller

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/trial"
)

const (
	// firstTries is how many may try at once before anything is known of the room, and
	// mostTries how many ever: some platforms take their time for each.
	firstTries = 256
	mostTries  = 1024
	// roomInterval is the pause between two tries for room, where the platform does
	// not say when to come again: a slot that is free stays idle so long.
	roomInterval = time.Second
	// recheck is how often somebody who waits looks whether he is still wanted, which
	// another process may have changed.
	recheck = time.Minute
)

// Room is where a section's submissions wait while their platform has no room for all.
// Then only the first of them tries, and the others cost nothing: they come in the order
// in which they came, twice as many at a time after each that found room.
type Room struct {
	mu      sync.Mutex
	limit   int // tries at once
	trying  int
	tickets int
	holders map[trial.Key]*Ticket
	queue   []*Ticket // in the order of their numbers
	closed  time.Time // no try before; only while there is no room
	denial  error     // the last one; nil while there is room
	timer   *time.Timer
}

// NewRoom returns a room of which nothing is known.
func NewRoom() *Room { return &Room{limit: firstTries, holders: map[trial.Key]*Ticket{}} }

// Ticket is somebody's place in the order of a Room.
type Ticket struct {
	room   *Room
	number int
	key    trial.Key
	turn   chan bool // true: try; false: look whether you are still wanted
	inside bool
	woken  bool // while it did not wait
}

// Ticket gives an attempt its place.
func (r *Room) Ticket(key trial.Key) *Ticket {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tickets++
	r.holders[key] = &Ticket{room: r, number: r.tickets, key: key, turn: make(chan bool, 1)}
	return r.holders[key]
}

// Close gives the place up.
func (t *Ticket) Close() {
	t.room.leave(t)
	t.room.mu.Lock()
	defer t.room.mu.Unlock()
	if t.room.holders[t.key] == t {
		delete(t.room.holders, t.key)
	}
}

// Await waits for the turn of its holder. False means that he should look first whether
// he is still wanted, and come again. Before it waits it calls explain with the platform's
// last word.
func (t *Ticket) Await(ctx context.Context, explain func(denial error) error) (turn bool, err error) {
	denial, turn, told := t.room.enter(t)
	if told {
		return turn, nil
	}
	if denial != nil {
		if err := explain(denial); err != nil {
			t.room.leave(t)
			return false, err
		}
	}
	select {
	case turn = <-t.turn:
		return turn, nil
	case <-time.After(recheck):
	case <-ctx.Done():
		err = ctx.Err()
	}
	t.room.leave(t)
	return false, err
}

// Done ends a try. An error that is platforms.Exhausted, but for one about this job
// alone, is the platform's word that there is no room.
func (t *Ticket) Done(err error) {
	r := t.room
	r.mu.Lock()
	defer r.mu.Unlock()
	if !t.inside {
		return
	}
	t.inside = false
	r.trying--
	switch {
	case err == nil:
		r.limit, r.closed, r.denial = min(2*r.limit, mostTries), time.Time{}, nil
	case platforms.NoRoom(err):
		r.limit, r.denial, r.closed = 1, err, time.Now().Add(pauseOf(err))
	}
	r.admit()
}

func pauseOf(err error) time.Duration { return cmp.Or(platforms.AfterOf(err), roomInterval) }

// enter lets somebody in, or else into the queue. told is true for whom need not wait.
func (r *Room) enter(t *Ticket) (denial error, turn, told bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t.woken {
		t.woken = false
		return nil, false, true
	}
	at, waits := slices.BinarySearchFunc(r.queue, t, func(a, b *Ticket) int { return a.number - b.number })
	if !waits {
		r.queue = slices.Insert(r.queue, at, t)
	}
	r.admit()
	select {
	case turn := <-t.turn:
		return nil, turn, true
	default:
		return r.denial, false, false
	}
}

// leave takes back what somebody may have been given who does not wait any more.
func (r *Room) leave(t *Ticket) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queue = slices.DeleteFunc(r.queue, func(other *Ticket) bool { return other == t })
	select {
	case <-t.turn:
	default:
	}
	if t.inside {
		t.inside = false
		r.trying--
		r.admit()
	}
}

// admit gives turns to the first in the queue, as many as may try now.
func (r *Room) admit() {
	for len(r.queue) > 0 && r.trying < r.limit {
		if pause := time.Until(r.closed); pause > 0 {
			r.later(pause)
			return
		}
		first := r.queue[0]
		r.queue = r.queue[1:]
		r.trying++
		first.inside = true
		first.turn <- true
	}
}

// later has the room opened again.
func (r *Room) later(pause time.Duration) {
	if r.timer != nil {
		r.timer.Stop()
	}
	r.timer = time.AfterFunc(pause, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.admit()
	})
}

// Vacated says that there may be room now: somebody has left.
func (r *Room) Vacated() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = time.Time{}
	r.admit()
}

// Wake has the holder of an attempt's ticket look whether he is still wanted.
func (r *Room) Wake(key trial.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.holders[key]
	if t == nil {
		return
	}
	if i := slices.Index(r.queue, t); i >= 0 {
		r.queue = slices.Delete(r.queue, i, i+1)
		t.turn <- false
		return
	}
	t.woken = true
}
