// Package poller opens the sections of platforms and observes the attempts of each:
// one batched poll for all of them, their journals collected beside it, and all of it
// put on record. It starts from the record alone, so that a host that comes back sees
// its trials before its workers do. It decides nothing.
package poller

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
)

const (
	// collectors bounds how many journals are read at once.
	collectors = 16
	// callTimeout ends a call that hangs, so that it cannot blind the poller.
	callTimeout = time.Minute
	// patience is how many rounds without news make the next ones rarer, and
	// slowest how much rarer they can become: an end may then be seen that many
	// intervals late.
	patience = 32
	slowest  = 4
	// listAgain is how soon the platform is asked again for an attempt of which it
	// knew nothing and that may yet be submitted: whoever submits it puts its handle
	// on record, so that only a run begun by others is found late.
	listAgain = 30 * time.Second
	// hintsKept bounds the hints that wait; what is beyond them waits for a round.
	hintsKept = 1024
	// deniedPause is how long a platform that refuses our credentials is left alone:
	// some lock out who fails often, and a person has to renew them.
	deniedPause = 30 * time.Second
)

// Poller observes one section of a platform. Its methods are safe for concurrent use.
type Poller struct {
	platform platforms.Platform
	traits   platforms.Traits
	store    *record.Store
	log      *changeLog

	mu      sync.Mutex
	watched map[trial.Key]*watched
	added   chan struct{}    // somebody is new: look soon
	hints   chan trial.Key   // these deserve a look at once
	ends    <-chan trial.Key // the platform's own hints; nil where it gives none
	changed atomic.Bool      // something was new since the last round
	notice  time.Time        // no poll before; of Run alone
	working sync.WaitGroup
	slots   chan struct{}
	closed  chan struct{} // Run has ended: nobody observes any more
	vacated func()        // called when a run is over
	// discovered is called when a run was found whose Submit was never answered.
	discovered func(trial.Key)
}

// watched is an attempt that is not over yet, as far as anybody knows. handle and
// busy belong to Poller.mu, the rest to whoever made it busy.
type watched struct {
	key    trial.Key
	handle *platforms.Handle
	busy   bool
	again  bool          // there was a hint while busy
	over   chan struct{} // closed when the attempt is drained

	loaded bool
	stored record.Observation // what the record says of it
	cursor platforms.Cursor   // nobody else moves it
	gone   int                // definite observations that it is lost or was never there
	missed time.Time          // when a list was without it, the last time
}

// New returns a poller of a platform; Run makes it work.
func New(platform platforms.Platform, traits platforms.Traits, store *record.Store, logger *slog.Logger) *Poller {
	return &Poller{
		platform: platform,
		traits:   traits,
		store:    store,
		log:      &changeLog{logger: logger.With("platform", traits.Name), last: map[string]map[string]string{}},
		watched:  map[trial.Key]*watched{},
		added:    make(chan struct{}, 1),
		slots:    make(chan struct{}, collectors),
		hints:    make(chan trial.Key, hintsKept),
		ends:     endsOf(platform),
		vacated:  func() {},
		closed:   make(chan struct{}),

		discovered: func(trial.Key) {},
	}
}

func endsOf(platform platforms.Platform) <-chan trial.Key {
	if telling, can := Optional[platforms.WithEnds](platform); can {
		return telling.Ends()
	}
	return nil
}

// Run observes until the context ends, once.
func (p *Poller) Run(ctx context.Context) {
	defer close(p.closed)
	defer p.working.Wait()
	for quiet := 0; p.await(ctx); quiet++ {
		started := time.Now()
		p.round(ctx)
		if p.changed.Swap(false) {
			quiet = 0
		}
		p.rest(ctx, started, quiet)
	}
}

// await waits until there is somebody to observe, and is false when the context ends.
func (p *Poller) await(ctx context.Context) bool {
	for ctx.Err() == nil {
		if p.observes() {
			return true
		}
		select {
		case <-p.added:
		case <-p.ends: // of whoever is observed no more
		case <-ctx.Done():
		}
	}
	return false
}

// observes tells whether there is somebody to observe.
func (p *Poller) observes() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.watched) > 0
}

// rest waits for the next round: a poll interval, longer when little happens.
// Whoever is added does not wait longer than the interval, and whoever there is a
// hint about not at all.
func (p *Poller) rest(ctx context.Context, started time.Time, quiet int) {
	factor := min(1+quiet/patience, slowest)
	soon := time.After(time.Until(started.Add(p.traits.PollInterval)))
	late := time.After(time.Until(started.Add(time.Duration(factor) * p.traits.PollInterval)))
	for {
		select {
		case <-late:
			return
		case <-ctx.Done():
			return
		case <-p.added:
			p.changed.Store(true)
			late = soon
		case key := <-p.hints:
			p.glance(ctx, p.hinted(key))
		case key := <-p.ends:
			p.glance(ctx, p.hinted(key))
		}
	}
}

// hint asks for a look at one attempt, where one look is cheap.
func (p *Poller) hint(key trial.Key) {
	if p.ends == nil {
		return
	}
	select {
	case p.hints <- key:
	default:
	}
}

// glance looks at some attempts out of turn, at once: to a platform far away it is
// the way that takes time.
func (p *Poller) glance(ctx context.Context, keys []trial.Key) {
	var ready []*watched
	p.mu.Lock()
	for _, key := range keys {
		w, known := p.watched[key]
		switch {
		case known && w.busy:
			w.again = true
		case known && w.handle != nil && !slices.Contains(ready, w):
			ready = append(ready, w)
		}
	}
	p.mu.Unlock()
	if !time.Now().Before(p.notice) {
		p.poll(ctx, ready)
	}
}

// hinted are this attempt and all others that there is a hint about by now.
func (p *Poller) hinted(key trial.Key) []trial.Key {
	keys := []trial.Key{key}
	for {
		select {
		case key := <-p.hints:
			keys = append(keys, key)
		case key := <-p.ends:
			keys = append(keys, key)
		default:
			return keys
		}
	}
}

// Watch waits until an attempt is over and all it reported is on record, and
// returns it as it is then. It may be called before or after Run began.
func (p *Poller) Watch(ctx context.Context, key trial.Key) (record.Attempt, error) {
	attempt, err := p.store.Attempt(ctx, key)
	if err != nil || attempt.Drained {
		return attempt, err
	}
	select {
	case <-p.adopt(attempt).over:
		return p.store.Attempt(ctx, key)
	case <-ctx.Done():
		return record.Attempt{}, ctx.Err()
	case <-p.closed:
		return record.Attempt{}, platforms.Errorf(platforms.Transient, "watch", "its section was closed meanwhile")
	}
}

// Handle is the handle of a run that is observed, as far as it is known by now.
func (p *Poller) Handle(key trial.Key) platforms.Handle {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w := p.watched[key]; w != nil && w.handle != nil {
		return *w.handle
	}
	return platforms.Handle{Key: key}
}

// Adopt has an attempt observed from now on, as it is on record.
func (p *Poller) Adopt(attempt record.Attempt) { p.adopt(attempt) }

// adopt watches an attempt with what the record knows of it.
func (p *Poller) adopt(attempt record.Attempt) *watched {
	handle, err := handleOf(attempt)
	if err != nil {
		p.log.problem(attempt.Key.String(), "read the handle on record", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	w, known := p.watched[attempt.Key]
	if !known {
		w = &watched{key: attempt.Key, cursor: platforms.Cursor(attempt.Cursor), over: make(chan struct{})}
		p.watched[attempt.Key] = w
	}
	p.give(w, handle)
	return w
}

// give lets an attempt have a handle, if there is one, and a look soon.
func (p *Poller) give(w *watched, handle *platforms.Handle) {
	if handle != nil && w.handle == nil {
		w.handle = handle
		p.hint(w.key)
	}
	select {
	case p.added <- struct{}{}:
	default:
	}
}

// handleOf is the attempt's handle, nil while none is on record.
func handleOf(attempt record.Attempt) (*platforms.Handle, error) {
	if attempt.Handle == nil {
		return nil, nil
	}
	handle := &platforms.Handle{}
	if err := json.Unmarshal(attempt.Handle, handle); err != nil {
		return nil, err
	}
	return handle, nil
}

// round looks once at all that nobody is busy with.
func (p *Poller) round(ctx context.Context) {
	if time.Now().Before(p.notice) {
		return
	}
	p.find(ctx, p.idle(func(w *watched) bool { return w.handle == nil }))
	p.poll(ctx, p.idle(func(w *watched) bool { return w.handle != nil }))
}

func (p *Poller) idle(wanted func(*watched) bool) []*watched {
	p.mu.Lock()
	defer p.mu.Unlock()
	var idle []*watched
	for _, w := range p.watched {
		if !w.busy && wanted(w) {
			idle = append(idle, w)
		}
	}
	return idle
}

// poll asks for everybody in one call and follows up each answer.
func (p *Poller) poll(ctx context.Context, all []*watched) {
	if len(all) == 0 {
		return
	}
	questions := p.questions(all)
	limited, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	reports, err := p.platform.Poll(limited, questions)
	if err == nil && len(reports) != len(questions) {
		err = platforms.Errorf(platforms.Transient, "poll", "%d reports for %d runs", len(reports), len(questions))
	}
	if ctx.Err() != nil {
		return
	}
	p.log.problem("", "poll", err)
	if err != nil {
		p.unanswered(ctx, all, err)
		return
	}
	p.followUp(ctx, all, questions, reports)
}

func (p *Poller) questions(all []*watched) []platforms.Question {
	p.mu.Lock()
	defer p.mu.Unlock()
	questions := make([]platforms.Question, len(all))
	for i, w := range all {
		questions[i] = platforms.Question{Handle: *w.handle, After: w.cursor}
	}
	return questions
}

// sighting is one attempt with what was reported of it.
type sighting struct {
	*watched
	handle platforms.Handle
	report platforms.Report
}

// followUp treats every report on its own, ends first: slots wait for those.
func (p *Poller) followUp(ctx context.Context, all []*watched, questions []platforms.Question, reports []platforms.Report) {
	sightings := make([]sighting, len(all))
	for i, w := range all {
		sightings[i] = sighting{w, questions[i].Handle, reports[i]}
	}
	slices.SortStableFunc(sightings, func(a, b sighting) int { return urgency(a) - urgency(b) })
	for _, s := range sightings {
		p.begin(s.watched, func() { p.treat(ctx, s) })
	}
}

func urgency(s sighting) int {
	if s.report.Phase.Definite() {
		return 0
	}
	return 1
}

// begin does something about an attempt while the rounds go on without it.
func (p *Poller) begin(w *watched, treat func()) {
	p.mu.Lock()
	w.busy = true
	p.mu.Unlock()
	p.working.Go(func() {
		p.slots <- struct{}{}
		treat()
		<-p.slots
		p.mu.Lock()
		defer p.mu.Unlock()
		if w.again {
			p.hint(w.key)
		}
		w.busy, w.again = false, false
	})
}

// finish releases whoever waits for the attempt.
func (p *Poller) finish(w *watched) {
	p.mu.Lock()
	delete(p.watched, w.key)
	p.mu.Unlock()
	p.log.forget(w.key.String())
	p.vacated()
	close(w.over)
}
