package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/testsuite/machine"
)

// notebook is a contender that writes down what it is told.
type notebook struct {
	version string
	log     []string
}

func (n *notebook) Name() string    { return "Notebook" }
func (n *notebook) Version() string { return n.version }
func (n *notebook) Close() error    { return nil }

func (n *notebook) Begin(json.RawMessage, uint64) (Search, error) { return n, nil }

func (n *notebook) Suggest(trial int) (json.RawMessage, error) {
	n.log = append(n.log, fmt.Sprint("ask ", trial))
	return json.RawMessage(fmt.Sprintf(`{"x0": %d, "x1": 3}`, trial)), nil
}

func (n *notebook) Observe(trial int, value float64) error {
	n.log = append(n.log, fmt.Sprintf("%d is %.3f", trial, value))
	return nil
}

func TestOneAtATimeEverySuggestionIsEvaluatedBeforeTheNext(t *testing.T) {
	n := &notebook{}
	curve, err := Job{Function: "Branin01", AtOnce: 1, Trials: 3}.run(n)
	require.NoError(t, err)
	require.Equal(t, []string{"ask 0", "0 is 28.602", "ask 1", "1 is 17.552", "ask 2", "2 is 6.115"}, n.log)
	require.Len(t, curve, 3)
	require.InDelta(t, 6.115-0.398, curve[2], 1e-3)
}

func TestAtOnceNoMoreAreOutstandingAndTheOrderIsTheSameForAll(t *testing.T) {
	first, second := &notebook{}, &notebook{}
	job := Job{Function: "Branin01", Seed: 5, AtOnce: 4, Trials: 10}
	curve, err := job.run(first)
	require.NoError(t, err)
	require.IsNonIncreasing(t, curve)
	_, err = job.run(second)
	require.NoError(t, err)
	require.Equal(t, first.log, second.log)
	require.Equal(t, []string{"ask 0", "ask 1", "ask 2", "ask 3"}, first.log[:4])
	require.Len(t, first.log, 20)
	require.NotEqual(t, "ask", first.log[4][:3])
}

func TestCurvesOfAVersionAreKeptAndOthersAreNot(t *testing.T) {
	folder := t.TempDir()
	job := Job{Function: "Branin01", AtOnce: 1, Trials: 5}
	for _, version := range []string{"1.0", ""} {
		for _, asks := range []int{10, map[string]int{"1.0": 0, "": 10}[version]} {
			n, m := &notebook{version: version}, newMeasured(folder)
			require.NoError(t, m.load(n))
			require.NoError(t, m.measure(n, job))
			require.Len(t, n.log, asks, version)
			require.Len(t, m.of("Notebook", job), 5)
		}
	}
}

func TestHalfALineOfKeptResultsIsMeasuredAgain(t *testing.T) {
	folder := t.TempDir()
	n, m := &notebook{version: "2"}, newMeasured(folder)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "Notebook-2.jsonl"), []byte(`{"Function":"Bra`), 0o600))
	require.NoError(t, m.load(n))
	require.Nil(t, m.of("Notebook", Job{Function: "Branin01", AtOnce: 1, Trials: 5}))
}

func TestAPartIsWrittenBetweenItsMarksOnly(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	text := "before\n<!-- measured: x, by make bench-tuners -->\nold\n<!-- end of x -->\nafter\n"
	require.NoError(t, os.WriteFile(page, []byte(text), 0o600))
	b := &Bench{Options: Options{Page: page}}
	require.NoError(t, b.publish("x", "new\n"))
	got, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Equal(t, "before\n<!-- measured: x, by make bench-tuners -->\nnew\n<!-- end of x -->\nafter\n", string(got))
	require.ErrorContains(t, b.publish("y", ""), "has no marks for y")
}

// The bound is far from what is measured, and so from chance.
func TestTPEIsFarBetterThanRandom(t *testing.T) {
	b := &Bench{Options: Options{Tuners: []string{"TPE"}, Beside: []string{"Random"}, Functions: []string{"Branin01", "Hartmann3", "Ackley"},
		Seeds: 5, Budgets: []int{60}, AtOnce: []int{1, 8}, Jobs: 2, Folder: t.TempDir()}}
	b.measured = newMeasured(b.Folder)
	text, err := regrets(b)
	require.NoError(t, err)
	require.Contains(t, text, "| Branin01 (2) |")
	for _, atOnce := range b.AtOnce {
		s := b.score(side{"TPE", atOnce}, side{"Random", atOnce}, 60)
		require.Less(t, geometricMean(s.ratios), 0.6)
		require.Zero(t, s.worse)
	}
}

func TestNNIAnswersAsAContender(t *testing.T) {
	c, err := newPython("NNI", "nni.py", machine.PythonWithNNI(t, "3.0"), t.TempDir())
	require.NoError(t, err)
	require.NotEmpty(t, c.Version())
	first, err := Job{Function: "Branin01", Seed: 1, AtOnce: 3, Trials: 25}.run(c)
	require.NoError(t, err)
	again, err := Job{Function: "Branin01", Seed: 1, AtOnce: 3, Trials: 25}.run(c)
	require.NoError(t, err)
	require.Equal(t, first, again, "one search leaves no trace in the next")
	require.NoError(t, c.Close())
}
