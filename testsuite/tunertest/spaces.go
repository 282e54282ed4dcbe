package tunertest

import (
	"encoding/json"
	"fmt"
	"strings"

	"pgregory.net/rapid"
)

// Spaces draws search spaces with parameters of every kind and choices nested two
// deep, finite ones among them.
func Spaces() *rapid.Generator[json.RawMessage] {
	return rapid.Custom(func(t *rapid.T) json.RawMessage {
		if rapid.Bool().Draw(t, "finite") {
			return FiniteSpaces().Draw(t, "space").Space
		}
		definitions := append(continuous(), finite(t, 2).text, finite(t, 2).text)
		chosen := rapid.SliceOfN(rapid.SampledFrom(definitions), 1, 5).Draw(t, "parameters")
		return json.RawMessage(object(chosen))
	})
}

func continuous() []string {
	return []string{
		`{"_type": "uniform", "_value": [-1, 1]}`,
		`{"_type": "loguniform", "_value": [0.0001, 1]}`,
		`{"_type": "qloguniform", "_value": [1, 100, 10]}`,
		`{"_type": "normal", "_value": [0, 1]}`,
		`{"_type": "qnormal", "_value": [0, 1, 0.1]}`,
		`{"_type": "lognormal", "_value": [0, 1]}`,
		`{"_type": "qlognormal", "_value": [0, 1, 0.5]}`,
		`{"_type": "choice", "_value": [{"_name": "free", "x": {"_type": "uniform", "_value": [0, 1]}}, {"_name": "none"}]}`,
	}
}

// Finite is a search space with a known number of distinct parameter sets.
type Finite struct {
	Space json.RawMessage
	Sets  int
}

// FiniteSpaces draws finite search spaces of one to three keys, nested two deep.
func FiniteSpaces() *rapid.Generator[Finite] {
	return rapid.Custom(func(t *rapid.T) Finite {
		inside := finiteObject(t, 2)
		return Finite{json.RawMessage("{" + inside.text + "}"), inside.sets}
	}).Filter(func(f Finite) bool { return f.Sets <= mostSets })
}

// mostSets bounds the spaces, which tests use up.
const mostSets = 500

// counted is a piece of a search space and how many sets it allows.
type counted struct {
	text string
	sets int
}

func finiteObject(t *rapid.T, depth int) counted {
	product := counted{sets: 1}
	var members []string
	for i := range rapid.IntRange(1, 3).Draw(t, "keys") {
		parameter := finite(t, depth)
		members = append(members, fmt.Sprintf(`"p%d": %s`, i, parameter.text))
		product.sets *= parameter.sets
	}
	product.text = strings.Join(members, ", ")
	return product
}

func finite(t *rapid.T, depth int) counted {
	plain := []counted{
		{`{"_type": "choice", "_value": [1, 1.0, "<one>"]}`, 3},
		{`{"_type": "choice", "_value": [{"a": 2.50}, null, 2, 2]}`, 3},
		{`{"_type": "randint", "_value": [-1, 1]}`, 2},
		{`{"_type": "quniform", "_value": [2, 10, 5]}`, 3},
		{`{"_type": "qloguniform", "_value": [1, 10, 5]}`, 3},
	}
	chosen := rapid.IntRange(0, len(plain)).Draw(t, "definition")
	if chosen < len(plain) {
		return plain[chosen]
	}
	return nestedChoice(t, depth)
}

func nestedChoice(t *rapid.T, depth int) counted {
	sum := counted{sets: 1}
	elements := []string{`{"_name": "bare"}`}
	if depth > 0 {
		inside := finiteObject(t, depth-1)
		elements = append(elements, `{"_name": "full", `+inside.text+`}`)
		sum.sets += inside.sets
	}
	elements = rapid.Permutation(elements).Draw(t, "elements")
	sum.text = `{"_type": "choice", "_value": [` + strings.Join(elements, ", ") + `]}`
	return sum
}

// Batches draws search spaces of the Batch tuner, with distinct elements.
func Batches() *rapid.Generator[Finite] {
	return rapid.Custom(func(t *rapid.T) Finite {
		size := rapid.IntRange(1, 8).Draw(t, "elements")
		first := rapid.IntRange(0, 8).Draw(t, "first")
		elements := make([]string, size)
		for i := range elements {
			elements[i] = fmt.Sprintf(`{"lr": 1.0, "n": %d}`, first+i)
		}
		space := `{"all": {"_type": "choice", "_value": [` + strings.Join(elements, ", ") + `]}}`
		return Finite{json.RawMessage(space), size}
	})
}

func object(definitions []string) string {
	members := make([]string, len(definitions))
	for i, definition := range definitions {
		members[i] = fmt.Sprintf(`"p%d": %s`, i, definition)
	}
	return "{" + strings.Join(members, ", ") + "}"
}
