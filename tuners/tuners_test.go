package tuners_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/perennial-ml/perennial/searchspace"
	"github.com/perennial-ml/perennial/testsuite/tunertest"
	"github.com/perennial-ml/perennial/trial"
	"github.com/perennial-ml/perennial/tuners"
)

func TestRandomKeepsTheTunersPromises(t *testing.T) {
	tunertest.Run(t, tuners.New, tunertest.Options{
		Spec:   tuners.Spec{Name: "Random", Seed: 42},
		Finite: tunertest.FiniteSpaces(),
	})
}

func TestGridSearchKeepsTheTunersPromises(t *testing.T) {
	tunertest.Run(t, tuners.New, tunertest.Options{
		Spec:   tuners.Spec{Name: "GridSearch"},
		Finite: tunertest.FiniteSpaces(),
	})
}

func TestBatchKeepsTheTunersPromises(t *testing.T) {
	tunertest.Run(t, tuners.New, tunertest.Options{
		Spec:   tuners.Spec{Name: "BatchTuner"},
		Spaces: rapid.Map(tunertest.Batches(), func(f tunertest.Finite) json.RawMessage { return f.Space }),
		Admits: tunertest.InBatch,
		Finite: tunertest.Batches(),
	})
}

// experiment asks a tuner trial after trial.
type experiment struct {
	t     testing.TB
	tuner tuners.Tuner
	next  int
}

func begin(t testing.TB, name, space string) *experiment {
	tuner, err := tuners.New(tuners.Spec{Name: name, Space: json.RawMessage(space), Seed: 1})
	require.NoError(t, err)
	return &experiment{t: t, tuner: tuner}
}

// run asks up to n trials and returns their parameters, "end" behind the last.
func (e *experiment) run(n int) []string {
	var sets []string
	for range n {
		proposal, err := e.tuner.Propose(e.next)
		require.NoError(e.t, err)
		if proposal.Answer == tuners.Exhausted {
			return append(sets, "end")
		}
		sets = append(sets, string(proposal.Parameters))
		e.apply(trial.KindAsked, trial.Asked{Parameters: proposal.Parameters, Source: trial.SourceAlgorithm, ParameterID: proposal.ParameterID})
		e.next++
	}
	return sets
}

func (e *experiment) apply(kind trial.Kind, data any) {
	raw, err := json.Marshal(data)
	require.NoError(e.t, err)
	require.NoError(e.t, e.tuner.Apply(trial.Event{Kind: kind, Sequence: e.next, Data: raw}))
}

func (e *experiment) setSpace(space string) {
	e.apply(trial.KindCommand, trial.Command{Name: trial.SetSearchSpace, Value: json.RawMessage(space)})
}

func TestGridSearchGoesOnWithANewSpaceWithoutWhatItTried(t *testing.T) {
	e := begin(t, "gridsearch", `{"a": {"_type": "choice", "_value": [1, 2]}, "b": {"_type": "choice", "_value": [0]}}`)
	require.Equal(t, []string{`{"a":1,"b":0}`}, e.run(1))
	e.setSpace(`{"b": {"_type": "choice", "_value": [0, 1]}, "a": {"_type": "choice", "_value": [1, 1.0]}}`)
	require.Equal(t, []string{`{"b":0,"a":1.0}`, `{"b":1,"a":1}`, `{"b":1,"a":1.0}`, "end"}, e.run(9))
	e.setSpace(`{"b": {"_type": "choice", "_value": [2]}, "a": {"_type": "choice", "_value": [1]}}`)
	require.Equal(t, []string{`{"b":2,"a":1}`, "end"}, e.run(9))
}

func TestBatchHandsOutItsListInOrderByteForByte(t *testing.T) {
	e := begin(t, "Batch", `{"all": {"_type": "choice", "_value": [{"b": 1.0, "a": 2}, {"a": 1e3}, {"a": 1e3}]}}`)
	require.Equal(t, []string{`{"b": 1.0, "a": 2}`, `{"a": 1e3}`, `{"a": 1e3}`, "end"}, e.run(9))
	e.setSpace(`{"all": {"_type": "choice", "_value": [{"a":7}, {"a":2, "b":1.0}, {"a":1e3}, {"a":1e3}, {"a":1e3}]}}`)
	require.Equal(t, []string{`{"a":7}`, `{"a":1e3}`, "end"}, e.run(9))
}

func TestBatchHandsOutPlainValuesAsNNIs(t *testing.T) {
	e := begin(t, "Batch", `{"size": {"_type": "choice", "_value": [16, "a", 64.0]}}`)
	require.Equal(t, []string{`16`, `"a"`, `64.0`, "end"}, e.run(9))
}

func TestEveryTunerTakesRangesOfOneValue(t *testing.T) {
	const space = `{"a": {"_type": "uniform", "_value": [2, 2]}, "b": {"_type": "loguniform", "_value": [1, 1]},
		"c": {"_type": "qnormal", "_value": [3, 0, 1]}, "d": {"_type": "uniform", "_value": [0, 1]}}`
	for _, name := range tuners.Names() {
		if name == "Batch" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			p := play(t, name, "", space)
			for range 30 {
				a := p.ask()
				require.Contains(t, string(a.raw), `"a":2.0,"b":1.0,"c":3.0,"d":`)
				p.succeed(a, 0.5)
			}
		})
	}
}

func TestRandomTakesTheGridsNextSetInPlaceOfARepeat(t *testing.T) {
	space := `{"r": {"_type": "randint", "_value": [0, 40]}}`
	sets := begin(t, "random", space).run(99)
	require.Len(t, sets, 41)
	repeats := 0
	for n, set := range sets[:40] {
		alone, err := begin(t, "random", space).tuner.Propose(n)
		require.NoError(t, err)
		if string(alone.Parameters) == set {
			continue
		}
		repeats++
		require.Contains(t, sets[:n], string(alone.Parameters), "only a repeat is replaced")
		require.Equal(t, firstMissing(sets[:n]), set)
	}
	require.Positive(t, repeats)
}

func firstMissing(sets []string) string {
	all := strings.Join(sets, "")
	for r := 0; ; r++ {
		if set := fmt.Sprintf(`{"r":%d}`, r); !strings.Contains(all, set) {
			return set
		}
	}
}

func TestRandomDoesNotCheckForRepeatsInAContinuousSpace(t *testing.T) {
	e := begin(t, "random", `{"x": {"_type": "uniform", "_value": [0, 1]}}`)
	before, err := e.tuner.Propose(0)
	require.NoError(t, err)
	e.apply(trial.KindAsked, trial.Asked{Parameters: before.Parameters, Source: trial.SourceAlgorithm})
	after, err := e.tuner.Propose(0)
	require.NoError(t, err)
	require.Equal(t, before, after)
}

func TestTheSeedArgumentWinsOverTheSpecs(t *testing.T) {
	propose := func(seed uint64, arguments string) string {
		tuner, err := tuners.New(tuners.Spec{Name: "Random", Seed: seed, Arguments: json.RawMessage(arguments),
			Space: json.RawMessage(`{"x": {"_type": "uniform", "_value": [0, 1]}}`)})
		require.NoError(t, err)
		proposal, err := tuner.Propose(3)
		require.NoError(t, err)
		return string(proposal.Parameters)
	}
	require.Equal(t, propose(7, ""), propose(8, `{"seed": 7, "optimize_mode": "maximize"}`))
	require.Equal(t, propose(7, ""), propose(7, `{"seed": null}`))
	require.NotEqual(t, propose(7, ""), propose(8, ""))
}

func TestBadTunersAreRefusedWithWhatWouldBeRight(t *testing.T) {
	space, build := `{"x": {"_type": "choice", "_value": [{"a": 1}]}}`, strings.Join(tuners.Names(), ", ")
	for _, c := range []struct{ name, arguments, want string }{
		{"smac", "", "tuner SMAC is not in this build: choose one of " + build},
		{"PPOTuner", "", "tuner PPO is not in this build: choose one of " + build},
		{"GridSerch", "", `there is no tuner "GridSerch": did you mean GridSearch? (in this build: ` + build + ")"},
		{"Bayes", "", `there is no tuner "Bayes": choose one of ` + build},
		{"Random", `{"seed": -1, "optimise_mode": "maximize"}`,
			`tuner Random has no argument "optimise_mode": it takes optimize_mode, seed` + "\n" +
				`argument seed of tuner Random is -1: want an integer from 0 to 18446744073709551615, or null`},
		{"GridSearch", `{"optimize_mode": "max"}`,
			`argument optimize_mode of tuner GridSearch is "max": want "maximize" or "minimize"`},
		{"Batch", `{"optimize_mode": "maximize"}`, `tuner Batch has no argument "optimize_mode": it takes none`},
		{"Random", `3`, `classArgs of tuner Random is 3: want an object`},
	} {
		_, err := tuners.New(tuners.Spec{Name: c.name, Arguments: json.RawMessage(c.arguments), Space: json.RawMessage(space)})
		require.EqualError(t, err, c.want)
	}
}

func TestFaultsOfTheSpaceKeepTheirPlaces(t *testing.T) {
	for _, name := range tuners.Names() {
		_, err := tuners.New(tuners.Spec{Name: name, Space: json.RawMessage(`{"x": {"_type": "choice", "_value": []}}`)})
		var faults searchspace.Faults
		require.True(t, errors.As(err, &faults), name)
		require.Equal(t, "/x/_value", faults[0].Path)
	}
}

func TestEveryNativeTunerHasItsNNISpelling(t *testing.T) {
	known := tuners.Known()
	for name := range tuners.Native() {
		require.Contains(t, known, name)
	}
	require.Equal(t, "Batch", known["batchtuner"])
	require.Subset(t, tuners.Names(), []string{"Batch", "GridSearch", "Random"})
	require.IsIncreasing(t, tuners.Names())
}

func tenDimensions(kind string) string {
	var members []string
	for i := range 10 {
		members = append(members, fmt.Sprintf(`"p%d": {"_type": %s}`, i, kind))
	}
	return "{" + strings.Join(members, ",") + "}"
}

func BenchmarkPropose(b *testing.B) {
	spaces := map[string]string{
		"quniform": tenDimensions(`"quniform", "_value": [0, 1, 0.1]`),
		"uniform":  tenDimensions(`"uniform", "_value": [0, 1]`),
		"choice":   tenDimensions(`"choice", "_value": ["a", "b", "c", "d"]`),
	}
	for _, name := range []string{"Random", "GridSearch"} {
		for kind, space := range spaces {
			for _, trials := range []int{10, 1000, 10_000} {
				b.Run(fmt.Sprintf("%s/%s/after-%d", name, kind, trials), func(b *testing.B) {
					e := begin(b, name, space)
					e.run(trials)
					for b.Loop() {
						e.run(1) // the ask with it, lest the same answer is timed again and again
					}
				})
			}
		}
	}
}
