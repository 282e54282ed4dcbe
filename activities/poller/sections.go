package poller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/record"
)

// readAgain is the pause after a record that could not be read.
const readAgain = time.Second

// Section is an opened section of a platform with the poller that observes its runs.
type Section struct {
	platforms.Platform
	*Poller
	Traits platforms.Traits
	Room   *Room
}

// List returns the sections of an experiment, in the order of its configuration. It
// touches no platform.
type List func(ctx context.Context, experiment string) ([]platforms.Section, error)

// Options are what Sections are made of.
type Options struct {
	Registry platforms.Registry
	Only     []string // names to work for; empty: all of the registry
	Sections List
	Record   *record.Store
	Logger   *slog.Logger
}

// Sections are those that a process has open. Each is opened when somebody needs it,
// once, and observed from then on until it is closed: one poll at a time for all its
// runs.
type Sections struct {
	options Options
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu   sync.Mutex
	open map[place]*opened
	of   map[string][]platforms.Section // by experiment: that never changes
}

// place names a section.
type place struct {
	experiment string
	index      int
}

type opened struct {
	*Section
	needed time.Time // when somebody asked for it, the last time
	stop   func()
}

// Observe returns the sections, and begins with those that have open attempts on
// record: what ended while nobody was there is seen at once. Stop ends it.
func Observe(options Options) *Sections {
	s := &Sections{options: options, open: map[place]*opened{}, of: map[string][]platforms.Section{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	for name := range options.Registry {
		if s.Serves(name) {
			s.running.Go(func() { s.adoptOpen(name) })
		}
	}
	return s
}

// Stop ends observation, closes every section and leaves every run alone.
func (s *Sections) Stop() {
	s.cancel()
	s.running.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for at, section := range s.open {
		section.Close()
		delete(s.open, at)
	}
}

// Registry is the platforms of this build, served here or not.
func (s *Sections) Registry() platforms.Registry { return s.options.Registry }

// Logger is where is said what nobody waits to hear.
func (s *Sections) Logger() *slog.Logger { return s.options.Logger }

// Serves tells whether this process works for a platform.
func (s *Sections) Serves(name string) bool {
	_, known := s.options.Registry[name]
	return known && (len(s.options.Only) == 0 || slices.Contains(s.options.Only, name))
}

// Of returns the section of a trial by its number, opened now if it was not. Where
// an experiment has several, trials take turns, so a trial never moves.
func (s *Sections) Of(ctx context.Context, experiment string, sequence int) (*Section, error) {
	all, err := s.list(ctx, experiment)
	if err != nil {
		return nil, err
	}
	found := all[sequence%len(all)]
	if s.ctx.Err() != nil {
		return nil, platforms.Errorf(platforms.Transient, "open", "the host is stopping")
	}
	if !s.Serves(found.Platform) {
		return nil, platforms.Errorf(platforms.Invalid, "open", "platform %q is not served here", found.Platform)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	at := place{found.Experiment, found.Index}
	if s.open[at] == nil {
		s.open[at] = s.begin(found)
	}
	s.open[at].needed = time.Now()
	return s.open[at].Section, nil
}

// Platforms are the names of the platforms that an experiment is configured for.
func (s *Sections) Platforms(ctx context.Context, experiment string) ([]string, error) {
	all, err := s.list(ctx, experiment)
	names := make([]string, len(all))
	for i, section := range all {
		names[i] = section.Platform
	}
	return names, err
}

func (s *Sections) list(ctx context.Context, experiment string) ([]platforms.Section, error) {
	s.mu.Lock()
	known := s.of[experiment]
	s.mu.Unlock()
	if known != nil {
		return known, nil
	}
	all, err := s.options.Sections(ctx, experiment)
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("experiment %s names no platform", experiment)
	}
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of[experiment] = all
	return all, nil
}

// begin opens a section and observes it.
func (s *Sections) begin(found platforms.Section) *opened {
	kind := s.options.Registry[found.Platform]
	platform := guarded{kind.Open(found), found.Platform, s.options.Logger.With("platform", found.Platform)}
	poller, room := New(platform, kind.Traits, s.options.Record, s.options.Logger), NewRoom()
	poller.vacated, poller.discovered = room.Vacated, room.Wake
	ctx, cancel := context.WithCancel(s.ctx)
	done := make(chan struct{})
	s.running.Go(func() {
		defer close(done)
		poller.Run(ctx)
	})
	return &opened{Section: &Section{platform, poller, kind.Traits, room}, stop: func() { cancel(); <-done }}
}

// Stranger opens a section of an experiment that is not on record: nobody knows its
// options. The caller closes it.
func (s *Sections) Stranger(platform, experiment string) platforms.Platform {
	opened := s.options.Registry[platform].Open(platforms.Section{Platform: platform, Experiment: experiment})
	return guarded{opened, platform, s.options.Logger.With("platform", platform)}
}

// Retain closes the sections of all experiments but these that nobody has asked for of
// late, except where a run is still observed. Whoever needs one of them again finds it
// opened anew.
func (s *Sections) Retain(active []string, late time.Duration) {
	s.mu.Lock()
	var closing []*opened
	for at, section := range s.open {
		if !slices.Contains(active, at.experiment) && !section.observes() && time.Since(section.needed) >= late {
			closing = append(closing, section)
			delete(s.open, at)
			delete(s.of, at.experiment)
		}
	}
	s.mu.Unlock()
	for _, section := range closing {
		section.stop()
		section.Close()
	}
}

// adoptOpen observes what the record says is open on a platform. Nobody would
// observe anything without it, so a record that cannot be read is asked again.
func (s *Sections) adoptOpen(name string) {
	log := &changeLog{logger: s.options.Logger.With("platform", name), last: map[string]map[string]string{}}
	for s.ctx.Err() == nil {
		open, err := s.options.Record.OpenAttempts(s.ctx, name)
		for _, attempt := range open {
			err = errors.Join(err, s.adopt(attempt))
		}
		if s.ctx.Err() != nil {
			return
		}
		log.problem("", "read the record", err)
		if err == nil {
			return
		}
		select {
		case <-s.ctx.Done():
		case <-time.After(readAgain):
		}
	}
}

func (s *Sections) adopt(attempt record.Attempt) error {
	if attempt.Drained {
		return nil
	}
	section, err := s.Of(s.ctx, attempt.Key.Experiment, attempt.Key.Sequence)
	if err == nil {
		section.adopt(attempt)
	}
	return err
}
