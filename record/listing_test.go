package record

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/trial"
)

// listed asks for a listing and returns the numbers of what came.
func (f *fixture) listed(l Listing) []int {
	f.Helper()
	rows, err := f.List(context.Background(), exp, l)
	require.NoError(f, err)
	numbers := []int{}
	for _, row := range rows {
		numbers = append(numbers, row.Sequence)
	}
	return numbers
}

// tried is an experiment of six trials: three that succeeded with 0.2, 0.9 and 0.5,
// one without a number, one that runs, one that waits.
func tried(t *testing.T, tuner string) *fixture {
	f := newFixtureWith(t, tuner)
	for n, parameters := range []string{`{"lr": 10}`, `{"lr": 9.5, "net": {"_name": "cnn", "layers": 3}}`,
		`{"lr": 0.1, "net": {"_name": "cnn", "layers": 2}}`, `{"a/b": 1}`, `{"lr": "auto"}`, `{}`} {
		ask := algorithmic(n)
		ask.Asked.Parameters = json.RawMessage(parameters)
		_, err := f.Ask(context.Background(), exp, []Ask{ask})
		require.NoError(f, err)
	}
	for n, value := range []float64{0.2, 0.9, 0.5} {
		f.settle(f.begin(n), succeeded(value))
	}
	f.settle(f.begin(3), Settlement{Outcome: OutcomeEnded, Ended: &trial.Ended{State: trial.Failed}})
	require.NoError(f, f.Observe(context.Background(), f.begin(4), Observation{Phase: phaseRunning, Started: time.Now().Add(-time.Hour)}))
	return f
}

func TestTrialsAreListedByWhatIsAskedForAndNoMoreThanThat(t *testing.T) {
	f := tried(t, `{"name":"Random"}`)
	require.Equal(t, []int{0, 1, 2, 3, 4, 5}, f.listed(Listing{}))
	require.Equal(t, []int{5, 4}, f.listed(Listing{Reverse: true, Limit: 2}))
	require.Equal(t, []int{1, 2, 0, 3, 4, 5}, f.listed(Listing{Order: ByMetric}))
	require.Equal(t, []int{0, 2, 1, 3, 4, 5}, f.listed(Listing{Order: ByMetric, Reverse: true}), "the worst first, and still the unmeasured last")
	require.Equal(t, []int{1, 2}, f.listed(Listing{Order: ByMetric, Measured: true, Limit: 2}))
	require.Equal(t, []int{3, 4}, f.listed(Listing{States: []trial.State{trial.Failed, trial.Running}}))
	require.Equal(t, []int{1, 5}, f.listed(Listing{Numbers: []int{5, 1, 99}}))
	require.Equal(t, []int{}, f.listed(Listing{Numbers: []int{}}))
	require.Equal(t, []int{4}, f.listed(Listing{Order: ByDuration, Limit: 1}), "what runs counts until now")
}

func TestTrialsAreListedByAParameterAsANumberAndWithinANestedChoice(t *testing.T) {
	f := tried(t, `{"name":"Random"}`)
	require.Equal(t, []int{2, 1, 0, 4, 3, 5}, f.listed(Listing{Order: ByParameter, Parameter: "lr"}), "10 is more than 9.5")
	require.Equal(t, []int{4, 0, 1, 2, 3, 5}, f.listed(Listing{Order: ByParameter, Parameter: "lr", Reverse: true}))
	require.Equal(t, []int{2, 1, 0, 3, 4, 5}, f.listed(Listing{Order: ByParameter, Parameter: "net/layers"}))
	require.Equal(t, []int{3, 0, 1, 2, 4, 5}, f.listed(Listing{Order: ByParameter, Parameter: "a/b"}), "a name may have the slash itself")
}

func TestTheBestOfAnExperimentThatMinimizesIsTheLeast(t *testing.T) {
	f := tried(t, `{"name":"TPE","classArgs":{"optimize_mode":"minimize"}}`)
	require.Equal(t, []int{0, 2, 1, 3, 4, 5}, f.listed(Listing{Order: ByMetric}))
}

func TestTheLatestOfATrialIsTheNewestIntermediateOfItsNewestAttempt(t *testing.T) {
	f := newFixture(t)
	for n := range 3 {
		f.ask(n)
	}
	first := f.begin(0)
	f.collect(first, periodical(1, 0, "0.1"), periodical(2, 1, "0.2"))
	f.fault(first)
	second := f.begin(0)
	f.collect(f.begin(1), periodical(1, 0, "0.7"))
	latest, err := f.Latest(context.Background(), exp, []int{0, 1, 2})
	require.NoError(t, err)
	require.Len(t, latest, 1, "the second attempt has not reported yet")
	require.Equal(t, "0.7", latest[1].Value)
	f.collect(second, periodical(1, 0, "0.3"), periodical(2, 1, "0.4"), periodical(3, 2, "0.5"))
	latest, err = f.Latest(context.Background(), exp, []int{0})
	require.NoError(t, err)
	require.Equal(t, "0.5", latest[0].Value)
	attempts, err := f.NewestAttempts(context.Background(), exp, []int{0, 2})
	require.NoError(t, err)
	require.Len(t, attempts, 1)
	require.Equal(t, second, attempts[0].Key)
	some, err := f.Intermediates(context.Background(), second, 2)
	require.NoError(t, err)
	require.Equal(t, []string{"0.4", "0.5"}, []string{some[0].Value, some[1].Value})
}

func TestOfNoTrialsThereIsNothing(t *testing.T) {
	f := tried(t, `{"name":"Random"}`)
	latest, err := f.Latest(background, exp, nil)
	require.NoError(t, err)
	require.Empty(t, latest)
	attempts, err := f.NewestAttempts(background, exp, nil)
	require.NoError(t, err)
	require.Empty(t, attempts)
	require.NoError(t, f.EachIntermediate(background, exp, nil, func(Metric) { t.Fatal("of whom?") }))
}

func TestEachTrialGoesThroughAllOfThemInOrderHoweverManyThereAre(t *testing.T) {
	f := newFixture(t)
	var asks []Ask
	for n := range 2*trialsAtOnce + 1 {
		asks = append(asks, algorithmic(n))
	}
	_, err := f.Ask(background, exp, asks)
	require.NoError(t, err)
	seen := 0
	for row, err := range f.EachTrial(background, exp) {
		require.NoError(t, err)
		require.Equal(t, seen, row.Sequence)
		seen++
	}
	require.Equal(t, len(asks), seen)
	ended, cancel := context.WithCancel(background)
	cancel()
	for _, err := range f.EachTrial(ended, exp) {
		require.Error(t, err)
	}
}

func TestPagesOfAListingFollowOneAnotherInEveryOrder(t *testing.T) {
	f := tried(t, `{"name":"Random"}`)
	for _, order := range []Listing{{}, {Reverse: true}, {Order: ByMetric}, {Order: ByMetric, Reverse: true}, {Order: ByDuration},
		{Order: ByParameter, Parameter: "lr"}, {Order: ByParameter, Parameter: "lr", Reverse: true}, {Order: ByParameter, Parameter: "net/layers"}} {
		whole := f.listed(order)
		var paged, skipped []int
		for page := order; len(paged) < len(whole); page.After = &paged[len(paged)-1] {
			page.Limit = 2
			paged = append(paged, f.listed(page)...)
		}
		for skip := 0; skip < len(whole); skip += 2 {
			page := order
			page.Limit, page.Skip = 2, skip
			skipped = append(skipped, f.listed(page)...)
		}
		require.Equal(t, whole, paged, "%+v", order)
		require.Equal(t, whole, skipped, "%+v", order)
	}
	nobody := 99
	_, err := f.List(context.Background(), exp, Listing{Order: ByMetric, After: &nobody})
	require.ErrorIs(t, err, ErrNotFound)
}

func TestTrialsAreFoundByTextInParametersByNumberAndByTheBeginningOfTheirIDs(t *testing.T) {
	f := tried(t, `{"name":"Random"}`)
	require.Equal(t, []int{1, 2}, f.listed(Listing{Text: "CNN"}))
	require.Contains(t, f.listed(Listing{Text: "3"}), 3)
	require.Contains(t, f.listed(Listing{Text: trial.ID(exp, 5)}), 5)
	require.Equal(t, []int{}, f.listed(Listing{Text: "%_%"}), "these mean themselves")
	count, err := f.Count(context.Background(), exp, Listing{Text: "cnn", Limit: 1, Skip: 1})
	require.NoError(t, err)
	require.Equal(t, 2, count)
}

func TestEachIntermediateOfTheNewestAttemptsComesTrialByTrialInItsOrder(t *testing.T) {
	f := newFixture(t)
	for n := range 3 {
		f.ask(n)
	}
	first := f.begin(0)
	f.collect(first, periodical(1, 0, "0.1"))
	f.fault(first)
	f.collect(f.begin(0), periodical(1, 0, "0.2"), periodical(2, 1, "0.3"))
	f.collect(f.begin(1), periodical(1, 0, "0.7"))
	f.collect(f.begin(2), periodical(1, 0, "0.9"))
	var values []string
	require.NoError(t, f.EachIntermediate(context.Background(), exp, []int{0, 2}, func(m Metric) { values = append(values, m.Value) }))
	require.Equal(t, []string{"0.2", "0.3", "0.9"}, values)
	attempts, err := f.Tried(context.Background(), exp)
	require.NoError(t, err)
	require.Len(t, attempts, 4)
}

func TestWhoeverWatchesAllIsWokenByWhatIsNoEvent(t *testing.T) {
	f := newFixture(t)
	f.deafen()
	f.ask(0)
	key := f.begin(0)
	mine, stopMine := f.WatchAll(exp)
	defer stopMine()
	any, stopAny := f.WatchAll(AnyExperiment)
	defer stopAny()
	log, stopLog := f.WatchLog(exp)
	defer stopLog()
	require.NoError(t, f.Observe(context.Background(), key, Observation{Phase: phaseRunning, Started: time.Now()}))
	require.Len(t, mine, 1)
	require.Len(t, any, 1)
	require.Empty(t, log)
}
