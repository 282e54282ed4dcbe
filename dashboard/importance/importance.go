// Package importance tells which parameters results depend on: by how much worse a
// random forest guesses results of trials that it has not seen once the values of one
// parameter are shuffled among them (permutation importance).
package importance

import (
	"cmp"
	"encoding/json"
	"math/rand/v2"
	"slices"
)

// Trial is what one came to with its parameters, by name; one that has not a parameter
// lacks it.
type Trial struct {
	Parameters map[string]json.RawMessage
	Value      float64
}

// Answer is what each parameter means for the result.
type Answer struct {
	Parameters []Parameter `json:"parameters" doc:"the most important first"`
	Trials     int         `json:"trials" doc:"how many results it was learned from"`
	// Explained is how much of the differences between results that it has not seen the
	// forest guesses.
	Explained float64 `json:"explained" doc:"how much of the differences between results the forest guesses where it has not seen them, at most 1; near 0 the rest means nothing"`
}

// Parameter is one of them, and its part in all that is explained.
type Parameter struct {
	Name  string  `json:"name"`
	Share float64 `json:"share" doc:"its part of 1"`
}

// Method says in words what the numbers are and what they are not.
const Method = "Permutation importance on a random forest: how much worse a forest of 100 trees guesses the rank of results " +
	"it has not seen once the values of one parameter are shuffled among them, as a part of all of that. Parameters that were tried only together " +
	"share what is theirs, one that was hardly varied seems unimportant, and a tuner that looked mostly in one place shows what matters there."

// Least is how many results there must be.
const Least = 10

const (
	trees = 100
	most  = 2000 // results: more make it slower and hardly different
	cells = 20_000
	fewer = 300 // results, where there are very many parameters
)

// Of computes it; the same trials always give the same answer. Of fewer than Least
// results, or where no parameter varies, it says nothing of any.
func Of(trials []Trial) Answer {
	random := rand.New(rand.NewPCG(1, uint64(len(trials))))
	if limit := min(most, max(fewer, cells/max(len(namesOf(trials)), 1))); len(trials) > limit {
		trials = slices.Clone(trials)
		random.Shuffle(len(trials), func(i, j int) { trials[i], trials[j] = trials[j], trials[i] })
		trials = trials[:limit]
	}
	answer := Answer{Parameters: []Parameter{}, Trials: len(trials)}
	names, t := tabulate(trials)
	if len(trials) < Least || len(names) == 0 {
		return answer
	}
	worse, explained := t.shuffled(random)
	answer.Explained = explained
	total := 0.0
	for _, w := range worse {
		total += max(w, 0)
	}
	for i, name := range names {
		answer.Parameters = append(answer.Parameters, Parameter{name, max(worse[i], 0) / max(total, 1e-12)})
	}
	slices.SortStableFunc(answer.Parameters, func(a, b Parameter) int { return cmp.Compare(b.Share, a.Share) })
	return answer
}

// shuffled is by column how much larger the squared error is with its values shuffled, and
// how much of the differences is explained as they are.
func (t *table) shuffled(random *rand.Rand) (worse []float64, explained float64) {
	worse = make([]float64, len(t.columns))
	sums, counts := make([]float64, len(t.target)), make([]float64, len(t.target))
	for range trees {
		seen, unseen := t.draw(random)
		root := t.tree(seen, random)
		for i, donor := range random.Perm(len(unseen)) {
			row := unseen[i]
			guess := t.guess(root, row, -1, row)
			sums[row], counts[row] = sums[row]+guess, counts[row]+1
			for column := range t.columns {
				worse[column] += square(t.guess(root, row, column, unseen[donor])-t.target[row]) - square(guess-t.target[row])
			}
		}
	}
	return worse, t.explained(sums, counts)
}

// draw takes as many rows as there are, some more than once, and tells which it left out.
func (t *table) draw(random *rand.Rand) (seen, unseen []int) {
	taken := make([]bool, len(t.target))
	for range t.target {
		row := random.IntN(len(t.target))
		seen, taken[row] = append(seen, row), true
	}
	for row, was := range taken {
		if !was {
			unseen = append(unseen, row)
		}
	}
	return seen, unseen
}

func (t *table) explained(sums, counts []float64) float64 {
	var wrong, spread, mean float64
	for _, target := range t.target {
		mean += target / float64(len(t.target))
	}
	for row, target := range t.target {
		if counts[row] > 0 {
			wrong += square(sums[row]/counts[row] - target)
			spread += square(mean - target)
		}
	}
	return max(0, 1-wrong/max(spread, 1e-12))
}

func square(x float64) float64 { return x * x }
