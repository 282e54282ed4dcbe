package poller_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/activities/poller"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/trial"
)

// venue has places for some, and counts who asks.
type venue struct {
	*testing.T
	room *poller.Room

	mu     sync.Mutex
	places int
	tries  int
	in     []int       // in the order in which they came in
	told   map[int]int // how often who waits has been told why
}

func (v *venue) try(n int) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.tries++
	if len(v.in) >= v.places {
		return &platforms.Error{Code: platforms.Exhausted, Verb: "submit", After: 5 * time.Millisecond, Err: errors.New("all places are taken")}
	}
	v.in = append(v.in, n)
	return nil
}

// arrive waits for a place.
func (v *venue) arrive(n int) {
	ticket := v.room.Ticket(trial.Key{Sequence: n})
	defer ticket.Close()
	explain := func(error) error {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.told[n]++
		return nil
	}
	for {
		turn, err := ticket.Await(v.Context(), explain)
		if err != nil {
			return
		}
		if !turn {
			continue
		}
		err = v.try(n)
		ticket.Done(err)
		if err == nil {
			return
		}
	}
}

func (v *venue) until(holds func() bool) {
	v.Helper()
	require.Eventually(v, func() bool {
		v.mu.Lock()
		defer v.mu.Unlock()
		return holds()
	}, 20*time.Second, time.Millisecond)
}

// crowd has so many wait where there is no place, after the first found that out.
func crowd(t *testing.T, count int) *venue {
	v := &venue{T: t, room: poller.NewRoom(), told: map[int]int{}}
	go v.arrive(0)
	v.until(func() bool { return v.tries > 0 })
	for n := 1; n < count; n++ {
		go v.arrive(n)
		v.until(func() bool { return v.told[n] > 0 })
	}
	return v
}

func TestAThousandWhoWaitForRoomCostWhatOneDoes(t *testing.T) {
	v := crowd(t, 1000)
	v.mu.Lock()
	before, since := v.tries, time.Now()
	v.mu.Unlock()
	v.until(func() bool { return v.tries >= before+20 })
	v.mu.Lock()
	defer v.mu.Unlock()
	require.LessOrEqual(t, v.tries-before, int(time.Since(since)/(5*time.Millisecond))+1, "one try in each pause")
	for n := 1; n < 1000; n++ {
		require.Equal(t, 1, v.told[n], "who has not tried is told once")
	}
}

// TestWhoCameFirstIsServedFirst but for those who try at the same time.
func TestWhoCameFirstIsServedFirst(t *testing.T) {
	v := crowd(t, 40)
	v.mu.Lock()
	v.places = 1
	v.mu.Unlock()
	v.until(func() bool { return len(v.in) == 1 })
	require.Equal(t, []int{0}, v.in)
	for places := 2; places <= 5; places++ {
		v.mu.Lock()
		v.places = places
		v.mu.Unlock()
		v.room.Vacated()
		v.until(func() bool { return len(v.in) == places })
	}
	require.LessOrEqual(t, slices.Max(v.in), 6)
}

func TestAllWhoFindRoomGetItSoon(t *testing.T) {
	v := crowd(t, 300)
	v.mu.Lock()
	v.places = 300
	v.mu.Unlock()
	v.room.Vacated()
	v.until(func() bool { return len(v.in) == 300 })
	sorted := slices.Sorted(slices.Values(v.in))
	require.Equal(t, 299, sorted[299])
	v.mu.Lock()
	defer v.mu.Unlock()
	require.Less(t, v.tries, 600)
}

func TestWhoIsWokenLooksWhetherHeIsStillWanted(t *testing.T) {
	room := poller.NewRoom()
	first, second := trial.Key{Sequence: 1}, trial.Key{Sequence: 2}
	ticket := room.Ticket(first)
	turn, err := ticket.Await(t.Context(), nil)
	require.NoError(t, err)
	require.True(t, turn)
	ticket.Done(&platforms.Error{Code: platforms.Exhausted, After: time.Hour, Err: errors.New("full")})
	waiting := room.Ticket(second)
	answer := make(chan bool)
	told := make(chan error, 1)
	go func() {
		turn, _ := waiting.Await(context.Background(), func(denial error) error { told <- denial; return nil })
		answer <- turn
	}()
	require.ErrorContains(t, <-told, "full")
	room.Wake(second)
	require.False(t, <-answer)
	room.Wake(second) // before it waits
	turn, err = waiting.Await(t.Context(), nil)
	require.NoError(t, err)
	require.False(t, turn)
}

func TestADenialOfOneJobAloneKeepsNobodyElseOut(t *testing.T) {
	room := poller.NewRoom()
	for n := range 3 {
		ticket := room.Ticket(trial.Key{Sequence: n})
		turn, err := ticket.Await(t.Context(), nil)
		require.NoError(t, err)
		require.True(t, turn)
		ticket.Done(&platforms.Error{Code: platforms.Exhausted, Own: true, After: time.Hour, Err: errors.New("its machine is full")})
	}
}

func TestWhoGivesUpHisTurnLeavesItToTheNext(t *testing.T) {
	v := crowd(t, 2)
	leaving := v.room.Ticket(trial.Key{Sequence: 99})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := leaving.Await(ctx, func(error) error { return nil })
	if err != nil {
		require.ErrorIs(t, err, context.Canceled)
	}
	leaving.Close()
	v.mu.Lock()
	v.places = 2
	v.mu.Unlock()
	v.until(func() bool { return len(v.in) == 2 })
}
