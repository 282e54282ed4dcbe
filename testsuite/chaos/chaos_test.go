package chaos

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	rounds  = flag.Int("rounds", 20, "how many rounds")
	first   = flag.Uint64("seed", 1, "seed of the first round; the next ones count on")
	results = flag.String("results", "", "file that keeps finished rounds, so that they are not run again")
)

// TestMain has four rounds at a time: each mostly waits.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// result is a line of the results file.
type result struct {
	Seed    uint64  `json:"seed"`
	Passed  bool    `json:"passed"`
	Kills   int     `json:"kills"`
	Seconds float64 `json:"seconds"`
}

func TestNothingIsLostAndNothingRunsTwiceWhateverIsKilled(t *testing.T) {
	passed := passedBefore(t)
	for n := range *rounds {
		seed := *first + uint64(n)
		if passed[seed] {
			continue
		}
		t.Run(fmt.Sprintf("seed-%d", seed), func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			outcome := result{Seed: seed}
			t.Cleanup(func() {
				outcome.Passed, outcome.Seconds = !t.Failed(), time.Since(began).Seconds()
				keep(t, outcome)
				if t.Failed() {
					t.Logf("run this round again: go test ./testsuite/chaos -count=1 -rounds 1 -seed %d", seed)
				}
			})
			outcome.Kills = Round(t, seed)
			t.Logf("%d processes killed in %v", outcome.Kills, time.Since(began).Round(time.Second))
		})
	}
}

// passedBefore are the seeds that the results file says have passed.
func passedBefore(t *testing.T) map[uint64]bool {
	passed := map[uint64]bool{}
	if *results == "" {
		return passed
	}
	file, err := os.Open(*results)
	if errors.Is(err, fs.ErrNotExist) {
		return passed
	}
	require.NoError(t, err)
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var before result
		if json.Unmarshal(lines.Bytes(), &before) == nil && before.Passed {
			passed[before.Seed] = true
		}
	}
	return passed
}

var keeping sync.Mutex

func keep(t *testing.T, outcome result) {
	if *results == "" {
		return
	}
	keeping.Lock()
	defer keeping.Unlock()
	line, err := json.Marshal(outcome)
	require.NoError(t, err)
	file, err := os.OpenFile(*results, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	require.NoError(t, err)
	defer file.Close()
	_, err = file.Write(append(line, '\n'))
	require.NoError(t, err)
}
