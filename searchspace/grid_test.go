package searchspace

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func walk(space *Space, limit int) []string {
	var sets []string
	grid := NewGrid(space)
	for len(sets) < limit {
		point, ok := grid.Next()
		if !ok {
			return append(sets, "end")
		}
		sets = append(sets, string(space.Parameters(point)))
	}
	return sets
}

func TestTheGridGoesAsNNIs(t *testing.T) {
	for _, c := range []struct{ space, want string }{
		{`{"c": {"_type": "choice", "_value": ["x", "y"]}, "r": {"_type": "randint", "_value": [0, 3]}}`,
			`{"c":"x","r":0} {"c":"x","r":1} {"c":"x","r":2} {"c":"y","r":0} {"c":"y","r":1} {"c":"y","r":2} end`},
		{`{"x": {"_type": "uniform", "_value": [0, 1]}}`,
			`{"x":0.5} {"x":0.25} {"x":0.75} {"x":0.125} {"x":0.375} {"x":0.625} {"x":0.875} {"x":0.0625} {"x":0.1875}`},
		{`{"x": {"_type": "quniform", "_value": [2, 10, 5]}}`,
			`{"x":5.0} {"x":10.0} {"x":2.0} end`},
		{`{"x": {"_type": "quniform", "_value": [0.6, 1.6, 1]}}`,
			`{"x":1.0} {"x":1.6} end`},
		{`{"x": {"_type": "qloguniform", "_value": [1, 100, 10]}}`,
			`{"x":10.0} {"x":1.0} {"x":30.0} {"x":20.0} {"x":60.0} {"x":40.0} {"x":70.0} {"x":50.0} {"x":90.0} {"x":80.0} {"x":100.0} end`},
		{`{"x": {"_type": "uniform", "_value": [0, 1]}, "c": {"_type": "choice", "_value": [1, 2]}}`,
			`{"x":0.5,"c":1} {"x":0.5,"c":2} {"x":0.25,"c":1} {"x":0.25,"c":2} {"x":0.75,"c":1} {"x":0.75,"c":2} {"x":0.125,"c":1}`},
		{`{"n": {"_type": "choice", "_value": [{"_name": "A", "k": {"_type": "choice", "_value": [1, 2]}}, {"_name": "B"}]}}`,
			`{"n":{"_name":"A","k":1}} {"n":{"_name":"A","k":2}} {"n":{"_name":"B"}} end`},
		{`{"q": {"_type": "quniform", "_value": [2, 10, 5]}, "c": {"_type": "choice", "_value": [1, 2]}}`,
			`{"q":5.0,"c":1} {"q":5.0,"c":2} {"q":10.0,"c":1} {"q":10.0,"c":2} {"q":2.0,"c":1} {"q":2.0,"c":2} end`},
		{`{"c": {"_type": "choice", "_value": [1, 2]}, "q": {"_type": "quniform", "_value": [2, 10, 5]}}`,
			`{"c":1,"q":5.0} {"c":2,"q":5.0} {"c":1,"q":10.0} {"c":2,"q":10.0} {"c":1,"q":2.0} {"c":2,"q":2.0} end`},
		{twoLevels, `{"z":{"_name":"A","k":{"_name":"deep","q":5.0}},"a":0} {"z":{"_name":"A","k":{"_name":"deep","q":5.0}},"a":1} ` +
			`{"z":{"_name":"A","k":{"_name":"flat"}},"a":0} {"z":{"_name":"A","k":{"_name":"flat"}},"a":1} ` +
			`{"z":{"_name":"B"},"a":0} {"z":{"_name":"B"},"a":1} ` +
			`{"z":{"_name":"A","k":{"_name":"deep","q":10.0}},"a":0} {"z":{"_name":"A","k":{"_name":"deep","q":10.0}},"a":1} ` +
			`{"z":{"_name":"A","k":{"_name":"deep","q":2.0}},"a":0} {"z":{"_name":"A","k":{"_name":"deep","q":2.0}},"a":1} end`},
	} {
		want := strings.Split(c.want, " ")
		require.Equal(t, want, walk(parse(t, c.space), len(want)), c.space)
	}
}

func TestTheGridOfAnUnboundedDistributionGoesByItsQuantiles(t *testing.T) {
	for definition, want := range map[string][]float64{
		`"normal", "_value": [0, 1]`:        {0, -0.67449, 0.67449, -1.15035, -0.31864},
		`"loguniform", "_value": [1e-4, 1]`: {1e-2, 1e-3, 1e-1, 0.00031623, 0.0031623},
	} {
		space := parse(t, `{"x": {"_type": `+definition+`}}`)
		grid := NewGrid(space)
		for _, x := range want {
			point, ok := grid.Next()
			require.True(t, ok)
			require.InDelta(t, x, space.Dimensions[0].Value(point[0]), 1e-5)
		}
	}
}

func TestTheGridOfAQuantisedNormalEnds(t *testing.T) {
	sets := walk(parse(t, `{"x": {"_type": "qnormal", "_value": [0, 1, 1]}}`), 1000)
	require.Equal(t, "end", sets[len(sets)-1])
	require.Contains(t, sets, `{"x":-5.0}`)
	require.Contains(t, sets, `{"x":5.0}`)
}

// slowWalk is the grid by its definition: in each round the whole product, less
// what an earlier round had.
func slowWalk(space *Space, limit int) []string {
	grid := NewGrid(space)
	var sets []string
	for !grid.over {
		grid.everyVector(0, func() {
			if grid.newBefore(len(grid.axes)) {
				sets = append(sets, string(space.Parameters(grid.point())))
			}
		})
		if len(sets) >= limit {
			return sets[:limit]
		}
		grid.refine()
	}
	return append(sets, "end")[:min(limit, len(sets)+1)]
}

func (g *Grid) everyVector(i int, visit func()) {
	if i == len(g.axes) {
		visit()
		return
	}
	size := g.axes[i].size
	g.vector[i] = 0
	if !g.space.Active(i, g.vector) {
		size = 1
	}
	for v := range size {
		g.vector[i] = float64(v)
		g.everyVector(i+1, visit)
	}
}

func drawnSpace(t *rapid.T, depth int) string {
	var members []string
	for i := range rapid.IntRange(1, 3).Draw(t, "keys") {
		members = append(members, fmt.Sprintf(`"p%d": %s`, i, drawnParameter(t, depth)))
	}
	return strings.Join(members, ", ")
}

func drawnParameter(t *rapid.T, depth int) string {
	kinds := []string{
		`{"_type": "choice", "_value": [1, 2]}`,
		`{"_type": "randint", "_value": [0, 2]}`,
		`{"_type": "uniform", "_value": [0, 1]}`,
		`{"_type": "quniform", "_value": [2, 10, 5]}`,
		`{"_type": "qnormal", "_value": [0, 1, 3]}`,
	}
	chosen := rapid.IntRange(0, len(kinds)).Draw(t, "kind")
	if chosen < len(kinds) {
		return kinds[chosen]
	}
	elements := []string{`{"_name": "empty"}`}
	if depth > 0 {
		elements = append(elements, `{"_name": "full", `+drawnSpace(t, depth-1)+`}`)
	}
	elements = rapid.Permutation(elements).Draw(t, "elements")
	return `{"_type": "choice", "_value": [` + strings.Join(elements, ", ") + `]}`
}

func TestSkippingWhatEarlierRoundsHadSkipsNothingElse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		space, err := Parse(json.RawMessage(`{` + drawnSpace(t, 2) + `}`))
		require.NoError(t, err)
		require.Equal(t, slowWalk(space, 200), walk(space, 200))
	})
}
