// Package poller observes the attempts of one platform: one batched poll for all
// of them, their journals collected beside it, and all of it put on record. It
// starts from the record alone, so that a host that comes back sees its trials
// before its workers do. It decides nothing.
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
	// listAgain is how soon the platform is asked again for all runs of an experiment
	// when it knew nothing of an attempt that may yet be submitted: whoever submits
	// it puts its handle on record, so that only a run begun by others is found late.
	listAgain = 30 * time.Second
	// hintsKept bounds the hints that wait; what is beyond them waits for a round.
	hintsKept = 1024
)

// Poller observes one platform. Its methods are safe for concurrent use.
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
	working sync.WaitGroup
	slots   chan struct{}
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
	cursor platforms.Cursor
	gone   int       // definite observations that it is lost or was never there
	missed time.Time // when a list was without it, the last time
}

// New returns a poller of a platform; Run makes it work.
func New(platform platforms.Platform, store *record.Store, logger *slog.Logger) *Poller {
	traits := platform.Traits()
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
	}
}

func endsOf(platform platforms.Platform) <-chan trial.Key {
	if telling, can := platform.(platforms.WithEnds); can {
		return telling.Ends()
	}
	return nil
}

// Run observes, from the record's open attempts on, until the context ends. Its
// error is the record's, when that could not be read until then.
func (p *Poller) Run(ctx context.Context) error {
	if err := p.adoptOpen(ctx); err != nil {
		return err
	}
	defer p.working.Wait()
	for quiet := 0; ctx.Err() == nil; quiet++ {
		started := time.Now()
		p.round(ctx)
		if p.changed.Swap(false) {
			quiet = 0
		}
		p.rest(ctx, started, quiet)
	}
	return nil
}

// adoptOpen adopts what the record says is open. Nobody would observe anything
// without it, so a record that cannot be read is asked again.
func (p *Poller) adoptOpen(ctx context.Context) error {
	for {
		open, err := p.store.OpenAttempts(ctx, p.traits.Name)
		if ctx.Err() != nil {
			return err
		}
		p.log.problem("", "read the record", err)
		for _, attempt := range open {
			if err == nil && !attempt.Drained {
				p.adopt(attempt)
			}
		}
		if err == nil {
			return nil
		}
		p.rest(ctx, time.Now(), 0)
	}
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
	p.poll(ctx, ready)
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
	}
}

// Add has a run observed from now on, whose attempt is on record.
func (p *Poller) Add(handle platforms.Handle) {
	p.add(handle.Key, &handle)
}

// adopt watches an attempt with what the record knows of it.
func (p *Poller) adopt(attempt record.Attempt) *watched {
	handle, err := handleOf(attempt)
	if err != nil {
		p.log.problem(attempt.Key.String(), "read the handle on record", err)
	}
	return p.add(attempt.Key, handle)
}

func (p *Poller) add(key trial.Key, handle *platforms.Handle) *watched {
	p.mu.Lock()
	defer p.mu.Unlock()
	w, known := p.watched[key]
	if !known {
		w = &watched{key: key, over: make(chan struct{})}
		p.watched[key] = w
	}
	if handle != nil {
		w.handle = handle
		p.hint(key)
	}
	select {
	case p.added <- struct{}{}:
	default:
	}
	return w
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
	handles := p.handles(all)
	limited, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	reports, err := p.platform.Poll(limited, handles)
	if err == nil && len(reports) != len(handles) {
		err = platforms.Errorf(platforms.Transient, "poll", "%d reports for %d runs", len(reports), len(handles))
	}
	if ctx.Err() != nil {
		return
	}
	p.log.problem("", "poll", err)
	if err != nil {
		p.unreachable(ctx, all, err)
		return
	}
	p.followUp(ctx, all, handles, reports)
}

func (p *Poller) handles(all []*watched) []platforms.Handle {
	p.mu.Lock()
	defer p.mu.Unlock()
	handles := make([]platforms.Handle, len(all))
	for i, w := range all {
		handles[i] = *w.handle
	}
	return handles
}

// sighting is one attempt with what was reported of it.
type sighting struct {
	*watched
	handle platforms.Handle
	report platforms.Report
}

// followUp treats every report on its own, ends first: slots wait for those.
func (p *Poller) followUp(ctx context.Context, all []*watched, handles []platforms.Handle, reports []platforms.Report) {
	sightings := make([]sighting, len(all))
	for i, w := range all {
		sightings[i] = sighting{w, handles[i], reports[i]}
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
	close(w.over)
}
