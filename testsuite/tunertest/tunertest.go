// Package tunertest is the suite of promises that every tuner keeps, whatever its
// algorithm: proposals lie in the space, proposing changes nothing, the log alone
// decides, and a restart anywhere goes unnoticed.
package tunertest

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/perennial-ml/perennial/trial"
	"github.com/perennial-ml/perennial/tuners"
)

// Build makes the tuner under test: tuners.New, or a constructor of one's own.
type Build func(tuners.Spec) (tuners.Tuner, error)

// Options say what the tuner under test can be asked to do.
type Options struct {
	Spec tuners.Spec // name, arguments, seed; the suite fills in the space

	// Spaces draws search spaces that the tuner takes; Spaces() if nil.
	Spaces *rapid.Generator[json.RawMessage]

	// Admits says what is wrong with a proposal for a space; InSpace if nil.
	Admits func(space, parameters json.RawMessage) error

	// Finite draws spaces in which the tuner promises to propose every set exactly
	// once and then to be exhausted. Nil if it promises no such thing.
	Finite *rapid.Generator[Finite]
}

// suite is the tuner under test with its options filled in.
type suite struct {
	build   Build
	options Options
}

// Run runs the suite on the tuners that build makes.
func Run(t *testing.T, build Build, options Options) {
	if options.Spaces == nil {
		options.Spaces = Spaces()
	}
	if options.Admits == nil {
		options.Admits = InSpace
	}
	s := suite{build, options}
	t.Run("every proposal lies in the space that holds", s.always(proposalLiesInSpace))
	t.Run("proposing changes nothing", s.always(proposingChangesNothing))
	t.Run("a restart at any event goes unnoticed", s.always(restartGoesUnnoticed))
	t.Run("a long life, restarted again and again", s.longLife)
	t.Run("trials of the user's own leave no trace", s.always(customizedLeaveNoTrace))
	t.Run("it never waits for nothing", s.always(neverWaitsForNothing))
	t.Run("an event it cannot read changes nothing", s.always(unreadableChangesNothing))
	t.Run("unknown arguments are refused by name", s.unknownArguments)
	t.Run("a bad space is refused", s.badSpace)
	if options.Finite != nil {
		t.Run("a finite space is used up, each set once", s.finiteSpace)
	}
}

// always makes a test that holds check to be true after every event of random
// histories: several trials open at a time, results out of order, failed and
// without a number, new search spaces, asks recorded by others.
func (s suite) always(check func(*history)) func(*testing.T) {
	return func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			h := newHistory(t, s)
			check(h)
			for range rapid.IntRange(1, 15).Draw(t, "events") {
				h.step()
				check(h)
			}
		})
	}
}

func proposalLiesInSpace(h *history) {
	if proposal := h.propose(h.live); proposal.Answer == tuners.Try {
		require.NoError(h.t, h.suite.options.Admits(h.space, proposal.Parameters))
	}
}

func proposingChangesNothing(h *history) {
	first := h.propose(h.live)
	_, err := h.live.Propose(h.next + 3)
	require.NoError(h.t, err)
	require.Equal(h.t, first, h.propose(h.live))
}

func restartGoesUnnoticed(h *history) {
	require.Equal(h.t, h.propose(h.live), h.propose(h.rebuilt(everything)))
}

// longLife goes on until algorithms that learn have learned: trials mostly succeed,
// some are always open, and results come in any order.
func (s suite) longLife(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		if rapid.IntRange(0, 24).Draw(t, "rarely, for it takes long") > 0 {
			return
		}
		h := newHistory(t, s)
		for range 70 {
			h.refill(4)
			proposalLiesInSpace(h)
			if rapid.IntRange(0, 5).Draw(t, "restart") == 0 {
				restartGoesUnnoticed(h)
				h.live = h.rebuilt(everything)
			}
			h.end()
		}
		restartGoesUnnoticed(h)
	})
}

func customizedLeaveNoTrace(h *history) {
	without := h.rebuilt(func(event trial.Event) bool { return !h.customized(event) })
	require.Equal(h.t, h.propose(without), h.propose(h.live))
}

func neverWaitsForNothing(h *history) {
	if len(h.open) == 0 {
		require.NotEqual(h.t, tuners.Wait, h.propose(h.live).Answer, "it would wait for ever")
	}
}

func unreadableChangesNothing(h *history) {
	before := h.propose(h.live)
	ask := h.event(trial.KindAsked, h.next, "no object")
	require.Error(h.t, h.live.Apply(ask))
	space := h.event(trial.KindCommand, trial.NoTrial, trial.Command{Name: trial.SetSearchSpace, Value: json.RawMessage("{}")})
	require.Error(h.t, h.live.Apply(space))
	require.Equal(h.t, before, h.propose(h.live))
}

func (s suite) unknownArguments(t *testing.T) {
	spec := s.options.Spec
	spec.Space = s.options.Spaces.Example(1)
	spec.Arguments = json.RawMessage(`{"no_such_argument": 1}`)
	_, err := s.build(spec)
	require.ErrorContains(t, err, "no_such_argument")
}

func (s suite) badSpace(t *testing.T) {
	for _, space := range []string{"", "{}", "[]", `{"x": {"_type": "choice", "_value": []}}`, `{"x": {"_type": "nothing", "_value": [1]}}`} {
		spec := s.options.Spec
		spec.Space = json.RawMessage(space)
		_, err := s.build(spec)
		require.Error(t, err, space)
	}
}

// finiteSpace begins with another space, so that what was tried there is not tried
// again, and restarts the tuner halfway.
func (s suite) finiteSpace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		finite := s.options.Finite.Draw(t, "finite")
		h := newHistory(t, s)
		for range rapid.IntRange(0, 5).Draw(t, "before") {
			h.ask()
		}
		tried := h.tried(finite.Space)
		h.append(h.event(trial.KindCommand, trial.NoTrial, trial.Command{Name: trial.SetSearchSpace, Value: finite.Space}))
		for len(tried) < finite.Sets {
			proposal := h.propose(h.live)
			require.Equal(t, tuners.Try, proposal.Answer, "%d of %d sets were tried", len(tried), finite.Sets)
			require.NoError(t, s.options.Admits(finite.Space, proposal.Parameters))
			require.False(t, tried[spelling(proposal.Parameters)], "%s was tried", proposal.Parameters)
			tried[spelling(proposal.Parameters)] = true
			h.ask()
			if len(tried) == finite.Sets/2 {
				h.live = h.rebuilt(everything)
			}
		}
		require.Equal(t, tuners.Exhausted, h.propose(h.live).Answer)
		require.Equal(t, tuners.Exhausted, h.propose(h.rebuilt(everything)).Answer)
	})
}

// tried is which sets of a space were asked so far.
func (h *history) tried(space json.RawMessage) map[string]bool {
	sets := map[string]bool{}
	for _, event := range h.log {
		var ask trial.Asked
		require.NoError(h.t, json.Unmarshal(event.Data, &ask))
		if h.suite.options.Admits(space, ask.Parameters) == nil {
			sets[spelling(ask.Parameters)] = true
		}
	}
	return sets
}
