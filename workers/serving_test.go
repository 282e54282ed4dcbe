package workers

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// places are the platforms of a host whose workers are only counted.
type places struct {
	mu                   sync.Mutex
	onRecord, unfinished []string
	broken               error           // of the record
	refused              error           // by Temporal
	served               map[string]bool // platform → whole
	starts               int
	resting              bool
}

func (p *places) named(context.Context) ([]string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.onRecord, p.broken
}

func (p *places) needed(context.Context) ([]string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.unfinished, p.broken
}

func (p *places) start(platform string, whole bool) (func(), error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refused != nil {
		return nil, p.refused
	}
	if _, twice := p.served[platform]; twice {
		return nil, errors.New("its workers were not stopped before")
	}
	p.starts++
	p.served[platform] = whole
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.served, platform)
	}, nil
}

func (p *places) rest(resting bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.resting = resting
}

func (p *places) rests() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.resting
}

func (p *places) now() map[string]bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.served)
}

func (p *places) serving(spare time.Duration) *serving {
	p.served = map[string]bool{}
	return newServing(parts{named: p.named, needed: p.needed, start: p.start, rest: p.rest, logger: slog.New(slog.DiscardHandler), spare: spare})
}

func TestAHostWithNothingToDoServesOnlyWhatItsRecordNames(t *testing.T) {
	p := &places{onRecord: []string{"local"}}
	s := p.serving(spare)
	require.NoError(t, s.look(t.Context()))
	require.Equal(t, map[string]bool{"local": false}, p.now())
}

func TestAPlatformIsServedWholeAsLongAsAnUnfinishedExperimentNeedsIt(t *testing.T) {
	p := &places{onRecord: []string{"fake", "local"}, unfinished: []string{"fake"}}
	s := p.serving(0)
	s.spare = time.Hour
	require.NoError(t, s.look(t.Context()))
	require.Equal(t, map[string]bool{"fake": true, "local": false}, p.now())
	p.unfinished = nil
	require.NoError(t, s.look(t.Context()))
	require.True(t, p.now()["fake"], "its last trials may still be open")
	s.spare = 0
	require.NoError(t, s.look(t.Context()))
	require.Equal(t, map[string]bool{"fake": false, "local": false}, p.now())
	p.unfinished, s.spare = []string{"local"}, time.Hour
	require.NoError(t, s.look(t.Context()))
	require.True(t, p.now()["local"])
	starts := p.starts
	require.NoError(t, s.look(t.Context()))
	require.Equal(t, starts, p.starts, "what is served as it should be is left alone")
}

func TestAPlatformThatAnExperimentNamesIsServedAtOnceAndEndsWithTheHost(t *testing.T) {
	p := &places{}
	s := p.serving(spare)
	s.begin()
	require.Empty(t, p.now())
	s.want("fake")
	require.Eventually(t, func() bool { return p.now()["fake"] }, 20*time.Second, time.Millisecond)
	s.end()
	require.Empty(t, p.now())
}

func TestAHostRestsAsLongAsNobodyNeedsIt(t *testing.T) {
	p := &places{unfinished: []string{"fake"}}
	s := p.serving(time.Hour)
	s.begun = time.Now()
	require.NoError(t, s.look(t.Context()))
	p.unfinished, p.broken, s.spare = nil, errors.New("disk I/O error"), 0
	require.Error(t, s.look(t.Context()))
	require.False(t, p.rests(), "the record does not tell")
	p.broken = nil
	require.NoError(t, s.look(t.Context()))
	require.True(t, p.rests())
	s.spare = time.Hour
	s.want("fake")
	require.NoError(t, s.look(t.Context()))
	require.False(t, p.rests())
}

func TestWhatCouldNotBeStartedIsTriedAgain(t *testing.T) {
	p := &places{unfinished: []string{"fake"}, refused: errors.New("unavailable")}
	s := p.serving(spare)
	require.ErrorContains(t, s.look(t.Context()), "unavailable")
	p.refused = nil
	require.NoError(t, s.look(t.Context()))
	require.True(t, p.now()["fake"])
}

func TestNothingIsEndedWhileTheRecordDoesNotTellWhatIsNeeded(t *testing.T) {
	p := &places{unfinished: []string{"fake"}}
	s := p.serving(spare)
	require.NoError(t, s.look(t.Context()))
	p.broken, p.unfinished, s.spare = errors.New("disk I/O error"), nil, 0
	require.Error(t, s.look(t.Context()))
	require.True(t, p.now()["fake"])
	s.spare = time.Hour
	s.want("local")
	require.Error(t, s.look(t.Context()))
	require.True(t, p.now()["local"], "whoever names it need not wait")
}
