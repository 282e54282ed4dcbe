package importance

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
)

// tabulate puts parameters that vary into columns, and the ranks of results beside them:
// a result that is far from all others, as where training diverged, weighs no more than its place.
func tabulate(trials []Trial) (names []string, t *table) {
	t = &table{target: ranks(trials)}
	for _, name := range namesOf(trials) {
		column, named := columnOf(trials, name)
		if slices.Max(column) != slices.Min(column) {
			names, t.columns, t.named = append(names, name), append(t.columns, column), append(t.named, named)
		}
	}
	return names, t
}

func namesOf(trials []Trial) (names []string) {
	known := map[string]bool{}
	for _, trial := range trials {
		for name := range trial.Parameters {
			if !known[name] {
				known[name], names = true, append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// columnOf is a parameter as numbers: its own where all are, else the numbers of its texts
// in the order in which they come. A trial without it is beside all others.
func columnOf(trials []Trial, name string) (column []float64, named bool) {
	column = make([]float64, len(trials))
	for i, trial := range trials {
		value, has := trial.Parameters[name]
		if !has {
			column[i] = math.Inf(-1)
			continue
		}
		if json.Unmarshal(value, &column[i]) != nil || string(value) == "null" {
			return numbered(trials, name), true
		}
	}
	return column, false
}

func numbered(trials []Trial, name string) []float64 {
	numbers := map[string]int{}
	column := make([]float64, len(trials))
	for i, trial := range trials {
		text := string(trial.Parameters[name])
		if _, known := numbers[text]; !known {
			numbers[text] = len(numbers)
		}
		column[i] = float64(numbers[text])
	}
	return column
}

// ranks are the places of results among all, from 0 to 1; those that are alike share one.
func ranks(trials []Trial) []float64 {
	order := make([]int, len(trials))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(trials[a].Value, trials[b].Value) })
	places := make([]float64, len(trials))
	for i := 0; i < len(order); {
		same := i
		for same < len(order) && trials[order[same]].Value == trials[order[i]].Value {
			same++
		}
		for _, row := range order[i:same] {
			places[row] = float64(i+same-1) / 2 / float64(max(len(order)-1, 1))
		}
		i = same
	}
	return places
}
