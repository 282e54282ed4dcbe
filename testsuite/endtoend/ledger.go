package endtoend

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/stretchr/testify/require"
)

// script is a trial without Python. Each thing it does is appended to the ledger
// before it is reported: one line, one write. STEPS and PAUSE are replaced.
const script = `#!/bin/sh
note() { printf '%s %s %s %s\n' "$PERENNIAL_TRIAL" "$PERENNIAL_ATTEMPT" $$ "$*" >> "$LEDGER"; }
note start "$(md5sum < "$PERENNIAL_PARAMETERS" | tr -d ' -')"
step=0
while [ $step -lt $(( STEPS )) ]; do
  step=$(( step + 1 ))
  value=$(( PERENNIAL_ATTEMPT * 1000 + step ))
  note metric $value
  echo "perennial: intermediate $value"
  sleep PAUSE
done
note metric $(( PERENNIAL_SEQUENCE + 1 ))
echo "perennial: final $(( PERENNIAL_SEQUENCE + 1 ))"
note end
`

// Script is the trial that keeps the ledger, with so many steps, in shell arithmetic,
// and a pause of seconds between them.
func Script(steps, pause string) string {
	return strings.NewReplacer("STEPS", steps, "PAUSE", pause).Replace(script)
}

// Plan is an experiment for a test, with trials that keep the ledger.
type Plan struct {
	Trials, Concurrency int
	Steps               string // shell arithmetic; PERENNIAL_SEQUENCE tells trials apart
	Pause               string // seconds between two steps
	Script              string // instead of the one that keeps the ledger
	More                string // further lines of experiment.yml
	Platform            string // lines of trainingService, instead of "platform: local"
	// Code is a directory below the working directory in which the code lies, for
	// trials that run elsewhere; they must see the ledger at its path all the same.
	Code string
}

// Experiment writes the files of an experiment into the working directory and
// returns the path of its experiment.yml.
func (h *Home) Experiment(plan Plan) string {
	content := plan.Script
	if content == "" {
		content = Script(plan.Steps, plan.Pause)
	}
	if plan.Code != "" {
		require.NoError(h.t, os.MkdirAll(filepath.Join(h.Work, plan.Code), 0o755))
		content = strings.Replace(content, "#!/bin/sh\n", "#!/bin/sh\nLEDGER='"+h.LedgerFile()+"'\n", 1)
	}
	h.Write(filepath.Join(plan.Code, "trial.sh"), content)
	h.Write("space.json", `{"x": {"_type": "uniform", "_value": [0, 1]}, "n": {"_type": "choice", "_value": [5.0, 5, 1e3]}}`)
	platform := plan.Platform
	if platform == "" {
		platform = "  platform: local\n"
	}
	tuner := ""
	if !strings.Contains(plan.More, "tuner:") {
		tuner = "tuner:\n  name: Random\n"
	}
	return h.Write("experiment.yml", fmt.Sprintf(`experimentName: endtoend
searchSpaceFile: space.json
trialCommand: ./trial.sh
trialCodeDirectory: %s
trialConcurrency: %d
maxTrialNumber: %d
trainingService:
%s%s%s`, filepath.Join(".", plan.Code), plan.Concurrency, plan.Trials, platform, tuner, plan.More))
}

// LedgerFile is where trials write down what they do.
func (h *Home) LedgerFile() string { return filepath.Join(h.Work, "ledger") }

// Ran is one attempt as its own process wrote it down.
type Ran struct {
	Trial      string
	Attempt    int
	PID        int
	Starts     int
	Parameters string // checksum of the parameters' bytes
	Metrics    []string
	Ended      bool
	last       int // number of its last line in the ledger
	first      int
}

// Ledger reads what really ran: by trial and attempt.
func (h *Home) Ledger() map[string]map[int]*Ran {
	content, err := os.ReadFile(h.LedgerFile())
	if os.IsNotExist(err) {
		return nil
	}
	require.NoError(h.t, err)
	ledger := map[string]map[int]*Ran{}
	for number, line := range strings.Split(strings.TrimSpace(string(content)), "\n") {
		h.enter(ledger, number, strings.Fields(line))
	}
	return ledger
}

func (h *Home) enter(ledger map[string]map[int]*Ran, number int, words []string) {
	require.GreaterOrEqual(h.t, len(words), 4, "line %d of the ledger: %q", number+1, words)
	attempt, err := strconv.Atoi(words[1])
	require.NoError(h.t, err)
	pid, err := strconv.Atoi(words[2])
	require.NoError(h.t, err)
	if ledger[words[0]] == nil {
		ledger[words[0]] = map[int]*Ran{}
	}
	ran := ledger[words[0]][attempt]
	if ran == nil {
		ran = &Ran{Trial: words[0], Attempt: attempt, PID: pid, first: number}
		ledger[words[0]][attempt] = ran
	}
	require.Equal(h.t, ran.PID, pid, "attempt %d of trial %s ran as two processes", attempt, words[0])
	ran.last = number
	switch words[3] {
	case "start":
		ran.Starts++
		ran.Parameters = words[4]
	case "metric":
		ran.Metrics = append(ran.Metrics, words[4])
	case "end":
		ran.Ended = true
	}
}

// RequireExactlyOnce compares the record with the ledger: every trial SUCCEEDED
// and came to its end once, by its last attempt; every earlier attempt is among
// those whose runner was killed ("trial/attempt"); attempts of one trial never
// overlapped and had the same parameters; and of the last attempt every metric is
// on record once, in its order.
func (h *Home) RequireExactlyOnce(id string, trials int, killed map[string]bool) {
	h.t.Helper()
	ledger, exported, rows := h.Ledger(), h.Export(id), h.Trials(id)
	require.Len(h.t, rows, trials)
	require.Len(h.t, exported, trials)
	require.Len(h.t, ledger, trials, "trials in the ledger")
	for i, row := range rows {
		require.Equal(h.t, i, row.Sequence)
		require.Equal(h.t, "SUCCEEDED", row.State, "%+v", row)
		require.NotNil(h.t, row.Metric, "%+v", row)
		require.Equal(h.t, float64(row.Sequence+1), *row.Metric)
		h.requireAttempts(row, ledger[row.ID], killed)
		last := ledger[row.ID][row.Attempts]
		require.NotNil(h.t, last, "the last attempt of %+v never ran", row)
		require.True(h.t, last.Ended, "%+v", row)
		require.Equal(h.t, last.Metrics, exported[row.ID].Intermediate, "metrics of %+v", row)
	}
}

func (h *Home) requireAttempts(row Trial, ran map[int]*Ran, killed map[string]bool) {
	h.t.Helper()
	var before *Ran
	for attempt := 1; attempt <= row.Attempts; attempt++ {
		if attempt < row.Attempts {
			require.True(h.t, killed[fmt.Sprintf("%s/%d", row.ID, attempt)],
				"attempt %d of %+v was given up although nobody killed its runner", attempt, row)
		}
		now := ran[attempt]
		if now == nil {
			continue // its runner was killed before the command started
		}
		require.Equal(h.t, 1, now.Starts, "attempt %d of %+v", attempt, row)
		if before != nil {
			require.Less(h.t, before.last, now.first, "attempts of %+v overlapped", row)
			require.Equal(h.t, before.Parameters, now.Parameters, "parameters of %+v", row)
		}
		before = now
	}
	require.LessOrEqual(h.t, len(ran), row.Attempts, "more ran of %+v than is on record", row)
}
