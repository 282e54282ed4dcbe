package tuners

import (
	"cmp"
	"math"
	"slices"
	"sort"
)

// How noise is judged and borne. The numbers are a choice of ours by measurement,
// docs/tuner-quality.md.
const (
	leastJudged = 50  // results there are before noise is looked for
	neighbours  = 15  // trials that are looked at around each
	fullTrust   = 0.5 // the correlation with the neighbours from which a result stands for itself
)

// steadied reorders the better half of trials, which are sorted by their loss, where
// results have noise: the trial that looks best may have been lucky, and those around
// it tell. Each gets a place between its own and the mean of its neighbours', the
// nearer to theirs the more noise there is. Without noise the order stays.
func steadied(ranked []observed, dimensions []int) []observed {
	if len(ranked) < leastJudged {
		return ranked
	}
	around := meanRanks(ranked, min(len(ranked)/2, historyBest), dimensions)
	distrust := noise(around) * neighbours / (neighbours + 1)
	if distrust == 0 {
		return ranked
	}
	return reordered(ranked, func(rank int) float64 {
		return float64(rank) + float64(distrust*(around[rank]-float64(rank)))
	}, len(around))
}

// noise is how little the ranks of the best trials say, from 0 to 1: 0 where those
// around them have similar ranks, 1 where these are as if by chance. Results without
// noise are like their neighbours' as soon as the search closes in anywhere.
func noise(around []float64) float64 {
	return min(max(1-rankCorrelation(around)/fullTrust, 0), 1)
}

// rankCorrelation is Pearson's correlation between values and their indices.
func rankCorrelation(values []float64) float64 {
	mean, middle := 0.0, float64(len(values)-1)/2
	for _, value := range values {
		mean += value / float64(len(values))
	}
	var both, ranks, spread float64
	for rank, value := range values {
		a, b := float64(rank)-middle, value-mean
		both, ranks, spread = both+float64(a*b), ranks+float64(a*a), spread+float64(b*b)
	}
	return both / max(math.Sqrt(ranks*spread), math.SmallestNonzeroFloat64)
}

// meanRanks is, for each of the best trials, the mean rank of those around it.
func meanRanks(ranked []observed, best int, dimensions []int) []float64 {
	means := make([]float64, best)
	for rank := range means {
		for _, other := range nearest(ranked, rank, dimensions) {
			means[rank] += float64(other.rank) / neighbours
		}
	}
	return means
}

// neighbour is a trial, by its rank, and how far off it is.
type neighbour struct {
	rank     int
	distance float64
}

// nearest is the trials nearest to that of a rank, the nearest first.
func nearest(ranked []observed, rank int, dimensions []int) []neighbour {
	near := make([]neighbour, 0, neighbours+1)
	for other := range ranked {
		n := neighbour{other, distance(ranked[rank].vector, ranked[other].vector, dimensions)}
		if other == rank || len(near) == neighbours && n.distance >= near[neighbours-1].distance {
			continue
		}
		at := sort.Search(len(near), func(i int) bool { return near[i].distance > n.distance })
		near = slices.Insert(near, at, n)
		near = near[:min(len(near), neighbours)]
	}
	return near
}

// distance is the squared distance in some dimensions; two categories are as far
// apart as the ends of a range.
func distance(a, b []float64, dimensions []int) (sum float64) {
	for _, i := range dimensions {
		apart := a[i] - b[i]
		sum += min(float64(apart*apart), 1)
	}
	return sum
}

// reordered sorts the first of some trials by the places they are given.
func reordered(ranked []observed, place func(rank int) float64, first int) []observed {
	places, order := make([]float64, first), make([]int, first)
	for rank := range order {
		places[rank], order[rank] = place(rank), rank
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(places[a], places[b]) })
	again := slices.Clone(ranked)
	for to, from := range order {
		again[to] = ranked[from]
	}
	return again
}
