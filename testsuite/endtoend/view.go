package endtoend

import (
	"encoding/json"
	"strconv"

	"github.com/stretchr/testify/require"
)

// Trial is a trial as `trials --output json` lists it.
type Trial struct {
	ID       string `json:"id"`
	Sequence int    `json:"sequence"`
	State    string `json:"state"`
	Reason   struct {
		Code string `json:"code"`
		Text string `json:"text"`
	} `json:"reason"`
	Attempts int      `json:"attempts"`
	Start    *string  `json:"start"`
	End      *string  `json:"end"`
	Metric   *float64 `json:"metric"`
}

// View is an experiment as `show --output json` shows it.
type View struct {
	ID     string `json:"id"`
	Status string `json:"status"`
	Paused bool   `json:"paused"`
	Reason struct {
		Code string `json:"code"`
		Text string `json:"text"`
	} `json:"reason"`
	Limits struct {
		Concurrency int  `json:"concurrency"`
		MaxTrials   *int `json:"maxTrials"`
		MaxDuration *int `json:"maxDuration"`
	} `json:"limits"`
	Trials map[string]int `json:"trials"`
	Best   *struct {
		ID     string  `json:"id"`
		Metric float64 `json:"metric"`
	} `json:"best"`
	Recovered *struct {
		TakenIn int      `json:"takenIn"`
		Ended   []string `json:"ended"`
		Missing int      `json:"missing"`
		Behind  bool     `json:"behind"`
	} `json:"recovered"`
	Temporal struct {
		Address    string `json:"address"`
		Namespace  string `json:"namespace"`
		WorkflowID string `json:"workflowId"`
		WebUI      string `json:"webUI"`
		TokenFile  string `json:"tokenFile"`
	} `json:"temporal"`
}

// Exported is a trial as `export --format json --intermediate` writes it.
type Exported struct {
	Parameter    json.RawMessage `json:"parameter"`
	Value        string          `json:"value"`
	Trial        string          `json:"trialJobId"`
	Intermediate []string        `json:"intermediate"`
}

// Trials lists an experiment's trials.
func (h *Home) Trials(id string) (trials []Trial) {
	h.t.Helper()
	h.read(&trials, "trials", id, "--output", "json")
	return trials
}

// Trial is one trial by its number; zero where it was not asked yet.
func (h *Home) Trial(id string, sequence int) Trial {
	h.t.Helper()
	for _, found := range h.Trials(id) {
		if found.Sequence == sequence {
			return found
		}
	}
	return Trial{}
}

// Show shows an experiment.
func (h *Home) Show(id string) (view View) {
	h.t.Helper()
	h.read(&view, "show", id, "--output", "json")
	return view
}

// Export exports results with all that was reported on the way.
func (h *Home) Export(id string) map[string]Exported {
	h.t.Helper()
	var list []Exported
	h.read(&list, "export", id, "--format", "json", "--intermediate")
	byTrial := map[string]Exported{}
	for _, exported := range list {
		require.NotContains(h.t, byTrial, exported.Trial, "exported twice")
		byTrial[exported.Trial] = exported
	}
	return byTrial
}

func (h *Home) read(into any, args ...string) {
	h.t.Helper()
	out := h.Must(args...)
	require.NoError(h.t, json.Unmarshal([]byte(out), into), "starter %v: %s", args, out)
}

// AwaitState waits until a trial is in a state, in its attempt's number or later.
func (h *Home) AwaitState(id string, sequence int, state string, attempt int) Trial {
	h.t.Helper()
	var found Trial
	h.Await("trial "+strconv.Itoa(sequence)+" "+state, func() bool {
		found = h.Trial(id, sequence)
		return found.State == state && found.Attempts >= attempt
	})
	return found
}

// AwaitRunning waits until so many trials are RUNNING.
func (h *Home) AwaitRunning(id string, count int) (running []Trial) {
	h.t.Helper()
	h.Await(strconv.Itoa(count)+" trials RUNNING", func() bool {
		running = nil
		for _, found := range h.Trials(id) {
			if found.State == "RUNNING" {
				running = append(running, found)
			}
		}
		return len(running) >= count
	})
	return running
}

// only is the id of the one experiment there is.
func (h *Home) only() string {
	h.t.Helper()
	var list []View
	h.read(&list, "ls", "--output", "json")
	require.Len(h.t, list, 1)
	return list[0].ID
}
