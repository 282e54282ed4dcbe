package endtoend

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var cuts = flag.Int("cuts", 10, "how many power cuts")

func TestStory10_TheMachineLosesPower(t *testing.T) {
	for n := range *cuts {
		t.Run(fmt.Sprintf("cut-%d", n), func(t *testing.T) {
			t.Parallel()
			powerCut(t, rand.New(rand.NewPCG(uint64(n), 0)))
		})
	}
}

func powerCut(t *testing.T, random *rand.Rand) {
	disk, h := NewDisk(t)
	run := h.Follow(h.Experiment(Plan{Trials: 10, Concurrency: 4, Steps: "1 + PERENNIAL_SEQUENCE % 3", Pause: "0.4"}))
	id := run.ID()
	time.Sleep(500*time.Millisecond + time.Duration(random.Int64N(int64(3*time.Second))))
	ran := disk.CutPower()
	seen := run.Events()
	finished := exitRecords(t, h, id)
	before := h.Ledger()
	t.Logf("power cut with %d runners; %d attempts had an exit record", len(ran), len(finished))
	lost := map[string]bool{}
	for trial, attempts := range before {
		for attempt := range attempts {
			if name := fmt.Sprintf("%s/%d", trial, attempt); !finished[name] {
				lost[name] = true
			}
		}
	}
	for _, process := range ran {
		if !finished[process.Attempt()] {
			lost[process.Attempt()] = true
		}
	}
	require.Equal(t, "DONE", h.Start("resume", id, "--output", "json").Finished(2*Patience).Status)
	h.RequireExactlyOnce(id, 10, lost)
	requireStands(t, seen, h.Trials(id))
	h.RequireNothingLeft()
}

// exitRecords are the attempts, "trial/attempt", with a whole exit record on the
// disk as it is now.
func exitRecords(t *testing.T, h *Home, id string) map[string]bool {
	paths, err := filepath.Glob(filepath.Join(h.Dir, "experiments", id, "trials", "*", "attempt-*", "exit.json"))
	require.NoError(t, err)
	found := map[string]bool{}
	for _, path := range paths {
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		if !json.Valid(content) {
			continue
		}
		attempt := filepath.Dir(path)
		number := strings.TrimPrefix(filepath.Base(attempt), "attempt-")
		found[filepath.Base(filepath.Dir(attempt))+"/"+number] = true
	}
	return found
}

// requireStands checks that what users were told before the cut still holds.
func requireStands(t *testing.T, seen []Event, rows []Trial) {
	t.Helper()
	for _, event := range seen {
		if event.Trial == nil || event.Trial.State != "SUCCEEDED" {
			continue
		}
		require.Equal(t, *event.Trial, rows[event.Trial.Sequence], "it was reported before the cut")
	}
}
