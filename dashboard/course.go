package dashboard

import (
	"context"
	"math"
	"sync"

	"github.com/perennial-ml/perennial/record"
)

// courseLength is how many numbers a course has at most.
const courseLength = 60

// course is the best so far as it went, up to an event.
type course struct {
	upTo   int64
	values []float64
}

// courses keeps what is the same until its experiment has another event.
type courses struct {
	mu   sync.Mutex
	kept map[string]course
}

func (c *courses) of(ctx context.Context, store *record.Store, e record.Experiment) ([]float64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, has := c.kept[e.ID]; has && known.upTo == e.LastEvent {
		return known.values, nil
	}
	finals, err := store.Finals(ctx, e.ID)
	if err != nil {
		return nil, err
	}
	if c.kept == nil {
		c.kept = map[string]course{}
	}
	c.kept[e.ID] = course{e.LastEvent, bestSoFar(finals, e.Minimize)}
	return c.kept[e.ID].values, nil
}

// bestSoFar is the best up to each of some results, the last one always among them.
func bestSoFar(finals []float64, minimize bool) []float64 {
	thinned := []float64{}
	best := math.NaN()
	every := (len(finals) + courseLength - 1) / courseLength
	for i, value := range finals {
		if !math.IsInf(value, 0) && (math.IsNaN(best) || minimize == (value < best) && value != best) {
			best = value
		}
		if !math.IsNaN(best) && (len(finals)-1-i)%every == 0 {
			thinned = append(thinned, best)
		}
	}
	return thinned
}
