package tuners_test

import (
	"encoding/json"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/testsuite/tunertest"
	"github.com/perennial-ml/perennial/trial"
	"github.com/perennial-ml/perennial/tuners"
)

func TestGPKeepsTheTunersPromises(t *testing.T) {
	tunertest.Run(t, tuners.New, tunertest.Options{
		Spec:   tuners.Spec{Name: "GP", Seed: 42, Arguments: json.RawMessage(`{"cold_start_num": 2}`)},
		Finite: tunertest.FiniteSpaces(),
	})
}

// search is a tuner and a function to minimise. Trials run several at a time and end
// in the order in which they were asked.
type search struct {
	*experiment
	atOnce int
	open   []int
	values map[int]*float64
}

func newSearch(t testing.TB, spec tuners.Spec, atOnce int) *search {
	tuner, err := tuners.New(spec)
	require.NoError(t, err)
	return &search{experiment: &experiment{t: t, tuner: tuner}, atOnce: atOnce, values: map[int]*float64{}}
}

// run asks and ends trials and returns their parameters. A trial of which value is
// NaN fails.
func (s *search) run(trials int, value func(x map[string]any) float64) []string {
	var sets []string
	for range trials {
		if len(s.open) == s.atOnce {
			s.settle(s.open[0])
		}
		set := s.experiment.run(1)[0]
		sets = append(sets, set)
		var x map[string]any
		require.NoError(s.t, json.Unmarshal([]byte(set), &x))
		s.note(value(x))
	}
	for len(s.open) > 0 {
		s.settle(s.open[0])
	}
	return sets
}

func (s *search) note(value float64) {
	number := s.next - 1
	s.open = append(s.open, number)
	if !math.IsNaN(value) {
		s.values[number] = &value
	}
}

func (s *search) settle(number int) {
	next := s.next
	s.next, s.open = number, s.open[1:]
	end := trial.Ended{State: trial.Failed}
	if s.values[number] != nil {
		end = trial.Ended{State: trial.Succeeded, Value: s.values[number]}
	}
	s.apply(trial.KindEnded, end)
	s.next = next
}

// best is the least value that any trial had.
func (s *search) best() float64 {
	least := math.Inf(1)
	for _, value := range s.values {
		least = min(least, *value)
	}
	return least
}

func branin(x map[string]any) float64 {
	a, b := x["x"].(float64), x["y"].(float64)
	curve := b - 5.1/(4*math.Pi*math.Pi)*a*a + 5/math.Pi*a - 6
	return curve*curve + 10*(1-1/(8*math.Pi))*math.Cos(a) + 10
}

const braninSpace = `{"x": {"_type": "uniform", "_value": [-5, 10]}, "y": {"_type": "uniform", "_value": [0, 15]}}`

func minimising(name, space string, seed uint64) tuners.Spec {
	return tuners.Spec{Name: name, Seed: seed, Space: json.RawMessage(space), Arguments: json.RawMessage(`{"optimize_mode": "minimize"}`)}
}

func TestGPFindsTheMinimumOfBraninInThirtyTrials(t *testing.T) {
	for seed := range uint64(3) {
		s := newSearch(t, minimising("GP", braninSpace, seed), 1)
		s.run(30, branin)
		require.Less(t, s.best(), 0.3979+0.1, "random search is 1 away")
	}
}

func TestGPMaximisesUnlessToldOtherwise(t *testing.T) {
	spec := minimising("GP", braninSpace, 1)
	spec.Arguments = nil
	s := newSearch(t, spec, 1)
	s.run(30, func(x map[string]any) float64 { return -branin(x) })
	least := math.Inf(1)
	for _, value := range s.values {
		least = min(least, -*value)
	}
	require.Less(t, least, 0.3979+0.1)
}

func TestGPFindsTheBestOfAMixedSpace(t *testing.T) {
	space := `{"kind": {"_type": "choice", "_value": ["a", "b", "c", "d"]}, "n": {"_type": "randint", "_value": [0, 20]},
		"rate": {"_type": "loguniform", "_value": [0.0001, 1]},
		"net": {"_type": "choice", "_value": [{"_name": "deep", "step": {"_type": "quniform", "_value": [0, 10, 0.5]}}, {"_name": "flat"}]}}`
	value := func(x map[string]any) float64 {
		off := math.Abs(x["n"].(float64)-13)/20 + math.Abs(math.Log10(x["rate"].(float64))+2)
		if x["kind"] != "c" {
			off += 0.5
		}
		net := x["net"].(map[string]any)
		if net["_name"] == "flat" {
			return off + 1
		}
		return off + math.Abs(net["step"].(float64)-7)/10
	}
	for seed := range uint64(2) {
		s := newSearch(t, minimising("GP", space, seed), 1)
		s.run(50, value)
		require.Less(t, s.best(), 0.25, "the best of 50 random trials is 0.6 in the median")
	}
}

func TestGPAsksForEightDifferentPlacesAtOnce(t *testing.T) {
	for _, utility := range []string{"ei", "ucb", "poi"} {
		spec := minimising("GP", braninSpace, 1)
		spec.Arguments = json.RawMessage(fmt.Sprintf(`{"optimize_mode": "minimize", "utility": %q, "cold_start_num": 5}`, utility))
		s := newSearch(t, spec, 8)
		sets := s.run(40, func(x map[string]any) float64 { return x["x"].(float64) + x["y"].(float64) }) // best in a corner
		require.Len(t, sets, 40)
		seen := map[string]bool{}
		for _, set := range sets {
			require.False(t, seen[set], set)
			seen[set] = true
		}
	}
}

func TestGPGoesElsewhereWhereTrialsFail(t *testing.T) {
	s := newSearch(t, minimising("GP", braninSpace, 1), 1)
	failed := 0
	s.run(50, func(x map[string]any) float64 {
		if x["x"].(float64) < 2.5 {
			failed++
			return math.NaN()
		}
		return branin(x)
	})
	require.Less(t, failed, 25)
	require.Less(t, s.best(), 0.3979+0.1)
}

func TestGPBearsResultsThatAreAllAlikeOrFarApart(t *testing.T) {
	for _, value := range []func(map[string]any) float64{
		func(map[string]any) float64 { return 7 },
		func(map[string]any) float64 { return math.NaN() },
		func(x map[string]any) float64 { return math.Copysign(math.MaxFloat64, x["x"].(float64)) },
		func(x map[string]any) float64 { return math.Exp(40 * x["y"].(float64)) },
	} {
		s := newSearch(t, minimising("GP", braninSpace, 1), 3)
		require.Len(t, s.run(30, value), 30)
	}
}

func TestGPTakesTheLatestIntermediateOfATrialThatWasStoppedEarly(t *testing.T) {
	next := func(state trial.State) string {
		s := newSearch(t, minimising("GP", braninSpace, 1), 1)
		s.run(12, branin)
		s.experiment.run(1)
		s.next--
		intermediate := -100.0
		s.apply(trial.KindIntermediate, trial.Intermediate{Value: &intermediate})
		s.apply(trial.KindEnded, trial.Ended{State: state})
		s.next++
		return s.experiment.run(1)[0]
	}
	require.NotEqual(t, next(trial.Failed), next(trial.EarlyStopped))
}

func TestBadArgumentsOfGPAreRefusedWithWhatWouldBeRight(t *testing.T) {
	for arguments, want := range map[string]string{
		`{"utility": "best"}`:      `argument utility of tuner GP is "best": want "ei" or "ucb" or "poi"`,
		`{"kappa": -1}`:            `argument kappa of tuner GP is -1: want a number`,
		`{"alpha": "small"}`:       `argument alpha of tuner GP is "small": want a number from 1e-12 to 1`,
		`{"cold_start_num": 0}`:    `argument cold_start_num of tuner GP is 0: want an integer from 1 to`,
		`{"optimize_mode": "max"}`: `argument optimize_mode of tuner GP is "max": want "maximize" or "minimize"`,
	} {
		_, err := tuners.New(tuners.Spec{Name: "GP", Space: json.RawMessage(braninSpace), Arguments: json.RawMessage(arguments)})
		require.ErrorContains(t, err, want)
	}
	_, err := tuners.New(tuners.Spec{Name: "GPTuner", Space: json.RawMessage(braninSpace), Arguments: json.RawMessage(
		`{"optimize_mode": "maximize", "utility": "ei", "kappa": 5.0, "xi": 0.0, "nu": 2.5, "alpha": 1e-6, "cold_start_num": 10,
		"selection_num_warm_up": 100000, "selection_num_starting_points": 250, "seed": 3}`)})
	require.NoError(t, err, "as NNI's documentation has them")
}

// logged keeps what a tuner was told.
type logged struct {
	tuners.Tuner
	log []trial.Event
}

func (l *logged) Apply(event trial.Event) error {
	l.log = append(l.log, event)
	return l.Tuner.Apply(event)
}

func TestARestartAfterManyTrialsGoesUnnoticed(t *testing.T) {
	for _, name := range []string{"GP", "CMAES", "BOHB"} {
		spec := minimising(name, mixedSpace, 7)
		s := newSearch(t, spec, 8)
		log := &logged{Tuner: s.tuner}
		s.tuner = log
		for range 9 {
			s.run(23, mixed)
			require.NoError(t, log.Apply(trial.Event{Kind: trial.KindUndriven}))
			rebuilt, err := tuners.New(spec)
			require.NoError(t, err)
			for _, event := range log.log {
				require.NoError(t, rebuilt.Apply(event))
			}
			live, err := s.tuner.Propose(s.next)
			require.NoError(t, err)
			again, err := rebuilt.Propose(s.next)
			require.NoError(t, err)
			require.Equal(t, string(live.Parameters), string(again.Parameters), "%s after %d", name, s.next)
		}
	}
}

// BenchmarkSuggestion is what a trial costs a tuner in ten dimensions, after many
// trials with results: its ask and its end with it.
func BenchmarkSuggestion(b *testing.B) {
	spaces := map[string]string{
		"uniform": tenDimensions(`"uniform", "_value": [0, 1]`),
		"choice":  tenDimensions(`"choice", "_value": ["a", "b", "c", "d"]`),
	}
	for _, name := range []string{"GP", "CMAES", "BOHB"} {
		for kind, space := range spaces {
			for _, trials := range []int{1000, 10_000} {
				b.Run(fmt.Sprintf("%s/%s/after-%d", name, kind, trials), func(b *testing.B) {
					s := afterTrials(b, name, space, trials)
					for b.Loop() {
						s.run(1, ripple)
					}
				})
			}
		}
	}
}

func ripple(x map[string]any) float64 { return math.Sin(float64(len(fmt.Sprint(x))) + float64(len(x))) }

// afterTrials is a search after many trials: random ones, as they cost less, unless
// the tuner knows only its own.
func afterTrials(b *testing.B, name, space string, trials int) *search {
	s := newSearch(b, minimising(name, space, 1), 1)
	if name == "BOHB" {
		s.run(trials, ripple)
		return s
	}
	own := s.tuner
	s.tuner = recorded{newSearch(b, minimising("Random", space, 1), 1).tuner, own}
	s.run(trials, ripple)
	s.tuner = own
	return s
}

// recorded has one tuner propose and another learn of it.
type recorded struct{ proposes, learns tuners.Tuner }

func (r recorded) Propose(n int) (tuners.Proposal, error) { return r.proposes.Propose(n) }
func (r recorded) Apply(event trial.Event) error          { return r.learns.Apply(event) }
