package command

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"charm.land/lipgloss/v2"
	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/assessors"
	"github.com/perennial-ml/perennial/tuners"
)

func TestEveryBuiltInAlgorithmIsListedWithItsArguments(t *testing.T) {
	seen := map[string]bool{}
	for _, algorithm := range builtIn() {
		seen[algorithm.Kind+" "+algorithm.Name] = true
		for _, argument := range algorithm.Arguments {
			require.NotEmpty(t, argument.Takes, "%s %s", algorithm.Name, argument.Name)
			require.NotEmpty(t, argument.Meaning, "%s %s", algorithm.Name, argument.Name)
		}
		if algorithm.Name != "Batch" {
			require.NotEmpty(t, algorithm.Arguments, algorithm.Name)
		}
	}
	for _, name := range tuners.Names() {
		require.True(t, seen["tuner "+name], name)
	}
	for _, name := range assessors.Names() {
		require.True(t, seen["assessor "+name], name)
	}
}

func TestTheTableOfAlgorithmsFitsItsTerminalAndSaysWhatEachArgumentDoes(t *testing.T) {
	s := newStage(t)
	s.World.Env = []string{"NO_COLOR=1"}
	for _, width := range []int{80, 110} {
		s.World.Width = func() int { return width }
		require.Equal(t, ExitDone, s.run("tuner"))
		for line := range strings.Lines(s.out.String()) {
			require.LessOrEqual(t, lipgloss.Width(strings.TrimSuffix(line, "\n")), width)
		}
		require.Regexp(t, `(?m)^  kappa +5 +for ucb`, s.out.String())
	}
}

func TestABuiltInAlgorithmAnswersJSONLines(t *testing.T) {
	var out strings.Builder
	in := strings.Join([]string{
		`{"op":"open","searchSpace":{"x":{"_type":"choice","_value":["a","b"]}},"mode":"minimize","seed":1,"arguments":{}}`,
		`{"op":"suggest","trial":0}`, `{"op":"suggest","trial":1}`, `{"op":"suggest","trial":2}`,
	}, "\n")
	require.NoError(t, World{In: strings.NewReader(in), Out: &out}.serveAlgorithm("gridsearch"))
	require.Equal(t, `{"trial":0,"parameters":{"x":"a"}}`+"\n"+`{"trial":1,"parameters":{"x":"b"}}`+"\n"+`{"trial":2,"exhausted":true}`+"\n", out.String())
	require.ErrorContains(t, World{}.serveAlgorithm("Magic"), `there is no built-in algorithm "Magic": choose one of ASHA, `)
}

func TestABuiltInAlgorithmTakesItsModeFromTheOpening(t *testing.T) {
	for _, mode := range []string{"minimize", "maximize"} {
		var in, out strings.Builder
		fmt.Fprintf(&in, `{"op":"open","searchSpace":{"x":{"_type":"uniform","_value":[0,1]}},"mode":%q,"seed":1}`+"\n", mode)
		for n := range 60 {
			fmt.Fprintf(&in, `{"op":"asked","trial":%d,"parameters":{"x":%g}}`+"\n", n, float64(n)/60)
			fmt.Fprintf(&in, `{"op":"observe","trial":%d,"status":"succeeded","value":%d}`+"\n", n, n)
		}
		for n := range 10 {
			fmt.Fprintf(&in, `{"op":"suggest","trial":%d}`+"\n", 60+n)
		}
		require.NoError(t, World{In: strings.NewReader(in.String()), Out: &out}.serveAlgorithm("GP"))
		sum := 0.0
		for line := range strings.Lines(out.String()) {
			var answer struct{ Parameters struct{ X float64 } }
			require.NoError(t, json.Unmarshal([]byte(line), &answer))
			sum += answer.Parameters.X
		}
		require.Equal(t, mode == "maximize", sum/10 > 0.5, "%s: mean %g", mode, sum/10)
	}
}
