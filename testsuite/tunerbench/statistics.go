package main

import (
	"cmp"
	"math"
	"slices"
)

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	half := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[half]
	}
	return (sorted[half-1] + sorted[half]) / 2
}

func geometricMean(values []float64) float64 {
	sum := 0.0
	for _, value := range values {
		sum += math.Log(value)
	}
	return math.Exp(sum / float64(len(values)))
}

// floor is the regret below which no contender is told from another: without it a
// ratio of two found minima would be noise.
const floor = 1e-8

func ratio(a, b float64) float64 { return max(a, floor) / max(b, floor) }

// worse is the one-sided p-value of Wilcoxon's signed-rank test that a is not
// greater than b: how likely differences as these are by chance. The pairs belong
// together; equal ones are left out. The distribution is exact, with the mean rank
// for ties.
func worse(a, b []float64) float64 {
	var differences []float64
	for i := range a {
		if d := max(a[i], floor) - max(b[i], floor); d != 0 {
			differences = append(differences, d)
		}
	}
	ranks := doubledRanks(differences)
	sum := 0
	for i, d := range differences {
		if d > 0 {
			sum += ranks[i]
		}
	}
	return shareAtLeast(ranks, sum)
}

// doubledRanks are twice the ranks of the sizes, so that mean ranks are integers.
func doubledRanks(values []float64) []int {
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
	}
	size := func(i int) float64 { return math.Abs(values[i]) }
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(size(i), size(j)) })
	ranks := make([]int, len(values))
	for from := 0; from < len(order); {
		to := from
		for to < len(order) && size(order[to]) == size(order[from]) {
			to++
		}
		for _, i := range order[from:to] {
			ranks[i] = from + 1 + to
		}
		from = to
	}
	return ranks
}

// shareAtLeast is the share of all choices of ranks whose sum is at least least.
func shareAtLeast(ranks []int, least int) float64 {
	total := 0
	for _, rank := range ranks {
		total += rank
	}
	shares := make([]float64, total+1)
	shares[0] = 1
	for _, rank := range ranks {
		for sum := total; sum >= 0; sum-- {
			shares[sum] /= 2
			if sum >= rank {
				shares[sum] += shares[sum-rank] / 2
			}
		}
	}
	above := 0.0
	for _, share := range shares[least:] {
		above += share
	}
	return min(above, 1)
}
