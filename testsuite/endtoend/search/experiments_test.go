// Package search runs an experiment with every native tuner and assessor, all in
// one host that is killed on the way, and checks what came of each.
package search

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/testsuite/endtoend"
)

// limit is far above what all experiments take on a busy machine, a minute or two.
const limit = 8 * time.Minute

// script is a trial without Python: its results follow from its parameters, which
// score knows as well. What it does is in the ledger before it is reported. Where
// it is given checkpoints it fails without the one that it shall go on from.
const script = `#!/bin/sh
note() { printf '%s %s %s %s\n' "$PERENNIAL_EXPERIMENT/$PERENNIAL_TRIAL" "$PERENNIAL_ATTEMPT" $$ "$*" >> "$LEDGER"; }
note start "$(cksum < "$PERENNIAL_PARAMETERS" | tr ' ' '-')"
set -- $(awk 'BEGIN { RS = "[,{}]"; FS = "\"" } NF >= 3 { value = NF > 3 ? $4 : substr($3, index($3, ":") + 1); p[$2] = value }
END {
  score = 1 - (p["x"] - 0.25) * (p["x"] - 0.25) - p["k"] / 16
  print (p["load_checkpoint_dir"] == "" ? "-" : p["load_checkpoint_dir"]), (p["save_checkpoint_dir"] == "" ? "-" : p["save_checkpoint_dir"])
  for (step = 1; step <= STEPS; step++) printf "%.17g ", score * (1 - 1 / (step + 1))
  printf "%.17g\n", score
}' "$PERENNIAL_PARAMETERS")
load=$1 save=$2
shift 2
if [ "$load" != "$save" ]; then
  [ -s "$load/checkpoint" ] || { note lacks "$load"; exit 3; }
fi
while [ $# -gt 1 ]; do
  note metric $1
  echo "perennial: intermediate $1"
  sleep PAUSE
  shift
done
if [ "$save" != - ]; then
  mkdir -p "$save" && echo "$PERENNIAL_TRIAL" > "$save/checkpoint" || exit 4
fi
note metric $1
echo "perennial: final $1"
note end
`

// wide has a parameter of most kinds.
const wide = `{"x": {"_type": "uniform", "_value": [0, 1]}, "lr": {"_type": "loguniform", "_value": [0.0001, 1]},
"k": {"_type": "randint", "_value": [1, 8]}, "q": {"_type": "quniform", "_value": [0, 1, 0.25]},
"n": {"_type": "choice", "_value": [5.0, 5, 1e3]}}`

// score is what a trial's last result must be.
func (d done) score(t *testing.T) float64 {
	x, k := d.number(t, "x"), d.number(t, "k")
	return 1 - (x-0.25)*(x-0.25) - k/16
}

// plan is an experiment with one algorithm.
type plan struct {
	tuner, arguments string // classArgs as YAML in one line
	assessor         string // lines of experiment.yml
	space            string // wide by default
	trials           int    // 10 by default
	asked            int    // how many there are if not trials
	steps            int    // 3 by default
	pause            string // between two steps, "0.1" by default
	check            func(t *testing.T, o outcome)
}

// done is a trial of a finished experiment.
type done struct {
	endtoend.Trial
	parameters map[string]json.RawMessage
	raw        string // the parameters as the trial found them
}

func (d done) number(t *testing.T, name string) float64 {
	value, err := strconv.ParseFloat(string(d.parameters[name]), 64)
	require.NoError(t, err, "%s of %s", name, d.raw)
	return value
}

// configuration is the parameters less what tuners add, comparable.
func (d done) configuration() string {
	own := map[string]json.RawMessage{}
	for name, value := range d.parameters {
		if !slices.Contains([]string{"TRIAL_BUDGET", "load_checkpoint_dir", "save_checkpoint_dir"}, name) {
			own[name] = value
		}
	}
	text, _ := json.Marshal(own)
	return string(text)
}

// outcome is a finished experiment, its trials by number.
type outcome struct {
	home   *endtoend.Home
	plan   plan
	id     string
	trials []done
}

// search is a home in which experiments run, by their names.
type search struct {
	t     *testing.T
	home  *endtoend.Home
	plans map[string]plan
	ids   map[string]string
	total int
}

// begin starts all experiments at once.
func begin(t *testing.T, plans map[string]plan) *search {
	s := &search{t: t, home: endtoend.NewHome(t), plans: plans, ids: map[string]string{}}
	for name, p := range plans {
		p = p.withDefaults()
		plans[name] = p
		s.total += p.asked
		s.ids[name] = s.start(name, p)
	}
	return s
}

func (p plan) withDefaults() plan {
	p.space = defaulted(p.space, wide)
	p.pause = defaulted(p.pause, "0.1")
	p.trials = defaulted(p.trials, 10)
	p.asked = defaulted(p.asked, p.trials)
	p.steps = defaulted(p.steps, 3)
	return p
}

func defaulted[T comparable](value, otherwise T) T {
	var zero T
	if value == zero {
		return otherwise
	}
	return value
}

func (s *search) start(name string, p plan) string {
	trial := strings.ToLower(name) + ".sh"
	s.home.Write(trial, strings.NewReplacer("STEPS", strconv.Itoa(p.steps), "PAUSE", p.pause).Replace(script))
	s.home.Write("space.json", p.space)
	file := s.home.Write(name+".yml", fmt.Sprintf(`experimentName: %s
searchSpaceFile: space.json
trialCommand: ./%s
trialConcurrency: 2
maxTrialNumber: %d
tuner: {name: %s, classArgs: {%s}}
%strainingService: {platform: local}
`, name, trial, p.trials, p.tuner, strings.ReplaceAll(p.arguments, "CHECKPOINTS", s.checkpoints(name)), p.assessor))
	var event endtoend.Event
	said, _, _ := strings.Cut(s.home.Must("run", file, "--detach", "--output", "json"), "\n")
	require.NoError(s.t, json.Unmarshal([]byte(said), &event), said)
	return event.ID
}

func (s *search) checkpoints(name string) string {
	return filepath.Join(s.home.Work, "checkpoints-"+name)
}

// strike kills the host twice, each time when a random share of all trials has
// begun, and starts it again.
func (s *search) strike() {
	seed := rand.Uint64()
	s.t.Logf("random moments by seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for _, from := range []float64{0.1, 0.5} {
		begun := int((from + 0.35*random.Float64()) * float64(s.total))
		s.home.AwaitFor(limit, fmt.Sprintf("%d trials to begin", begun), func() bool { return len(s.home.Ledger()) >= begun })
		require.NotEmpty(s.t, s.home.KillAndAwait(endtoend.Host))
		time.Sleep(time.Duration(random.Int64N(int64(time.Second))))
		s.home.Serve()
	}
}

// finish waits until every experiment is done.
func (s *search) finish() {
	s.home.AwaitFor(limit, "all experiments to end", func() bool {
		var list []endtoend.View
		require.NoError(s.t, json.Unmarshal([]byte(s.home.Must("ls", "--output", "json")), &list))
		return !slices.ContainsFunc(list, func(v endtoend.View) bool { return v.Status == "RUNNING" })
	})
}

// outcome checks of an experiment what must hold whatever its algorithms are.
func (s *search) outcome(t *testing.T, name string) outcome {
	o := outcome{home: s.home, plan: s.plans[name], id: s.ids[name]}
	require.Equal(t, "DONE", s.home.Show(o.id).Status)
	rows, exported, ledger := s.home.Trials(o.id), s.home.Export(o.id), s.home.Ledger()
	require.Len(t, rows, o.plan.asked)
	for i, row := range rows {
		require.Equal(t, i, row.Sequence, "the sequence has no gaps")
		d := done{Trial: row, raw: s.parameters(t, o.id, row.ID)}
		require.NoError(t, json.Unmarshal([]byte(d.raw), &d.parameters))
		requireOnce(t, d, ledger[o.id+"/"+row.ID])
		if d.State == "SUCCEEDED" {
			requireExported(t, d, exported[row.ID], ledger[o.id+"/"+row.ID][1])
		}
		requireWithin(t, o.plan.space, d)
		o.trials = append(o.trials, d)
	}
	return o
}

// parameters are what the trial found.
func (s *search) parameters(t *testing.T, experiment, trial string) string {
	content, err := os.ReadFile(filepath.Join(s.home.Dir, "experiments", experiment, "trials", trial, "parameters.json"))
	require.NoError(t, err)
	return string(content)
}

// requireOnce checks that a trial came to one end by one attempt, which its process
// wrote down.
func requireOnce(t *testing.T, d done, attempts map[int]*endtoend.Ran) {
	require.Len(t, attempts, 1, "nobody killed a runner: %+v", d.Trial)
	require.Equal(t, 1, d.Attempts)
	require.NotNil(t, attempts[1])
	require.Equal(t, 1, attempts[1].Starts)
	require.Contains(t, []string{"SUCCEEDED", "EARLY_STOPPED"}, d.State, "%+v of %s", d.Trial, d.raw)
}

// requireExported compares a trial on record with what its process wrote down and
// with what its parameters must give.
func requireExported(t *testing.T, d done, exported endtoend.Exported, ran *endtoend.Ran) {
	require.True(t, ran.Ended)
	require.Equal(t, d.raw, string(exported.Parameter))
	require.Equal(t, ran.Metrics, exported.Intermediate, "everything that was reported, the result last")
	require.Equal(t, ran.Metrics[len(ran.Metrics)-1], exported.Value)
	require.NotNil(t, d.Metric)
	require.InDelta(t, d.score(t), *d.Metric, 1e-12, d.raw)
}

// requireWithin checks parameters against the space, by a reading of its own.
func requireWithin(t *testing.T, space string, d done) {
	var dimensions map[string]struct {
		Type  string            `json:"_type"`
		Value []json.RawMessage `json:"_value"`
	}
	require.NoError(t, json.Unmarshal([]byte(space), &dimensions))
	if batch, ok := dimensions["combine_params"]; ok {
		require.True(t, slices.ContainsFunc(batch.Value, func(one json.RawMessage) bool { return equalJSON(one, d.raw) }), d.raw)
		return
	}
	for name, dimension := range dimensions {
		given, ok := d.parameters[name]
		require.True(t, ok, "%s is not in %s", name, d.raw)
		if dimension.Type == "choice" {
			// By their bytes: 5.0 is not 5.
			require.True(t, slices.ContainsFunc(dimension.Value, func(one json.RawMessage) bool { return string(one) == string(given) }), d.raw)
			continue
		}
		value := d.number(t, name)
		low, high := number(t, dimension.Value[0]), number(t, dimension.Value[1])
		require.True(t, low <= value && value <= high, "%s of %s", name, d.raw)
		switch dimension.Type {
		case "randint":
			require.Less(t, value, high)
			require.Equal(t, math.Trunc(value), value)
		case "quniform":
			steps := value / number(t, dimension.Value[2])
			require.InDelta(t, math.Round(steps), steps, 1e-9)
		}
	}
}

func equalJSON(one json.RawMessage, other string) bool {
	var a, b any
	return json.Unmarshal(one, &a) == nil && json.Unmarshal([]byte(other), &b) == nil && fmt.Sprint(a) == fmt.Sprint(b)
}

func number(t *testing.T, raw json.RawMessage) float64 {
	value, err := strconv.ParseFloat(string(raw), 64)
	require.NoError(t, err)
	return value
}

// text is a parameter that is text.
func (d done) text(name string) string {
	var value string
	if json.Unmarshal(d.parameters[name], &value) != nil {
		return ""
	}
	return value
}
