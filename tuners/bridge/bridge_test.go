package bridge

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/testsuite/machine"
	"github.com/perennial-ml/perennial/trial"
	"github.com/perennial-ml/perennial/tuners"
)

const (
	experimentID = "abcdefgh"
	patience     = 60 * time.Second
	unit         = `{"x": {"_type": "uniform", "_value": [0, 1]}}`
)

// releases of nni to test with: 2.7, which needs an old Python, where a variable
// names one.
func releases() []string {
	if os.Getenv("PERENNIAL_TEST_PYTHON_NNI27") != "" {
		return []string{"3.0", "2.10", "2.7"}
	}
	return []string{"3.0", "2.10"}
}

func pythonWithNNI(t *testing.T, release string) string {
	if release == "2.7" {
		return os.Getenv("PERENNIAL_TEST_PYTHON_NNI27")
	}
	return machine.PythonWithNNI(t, release)
}

// everyRelease runs a test on each release of nni.
func everyRelease(t *testing.T, test func(t *testing.T, python string)) {
	for _, release := range releases() {
		t.Run("nni "+release, func(t *testing.T) {
			t.Parallel()
			test(t, pythonWithNNI(t, release))
		})
	}
}

// experiment is a log and the process that is fed from it.
type experiment struct {
	*testing.T
	spec    Spec
	process Process
	log     []trial.Event
	next    int
}

func begin(t *testing.T, python string, tuner, assessor *Algorithm) *experiment {
	directory := t.TempDir()
	e := &experiment{T: t, spec: Spec{
		Experiment: experimentID, Tuner: tuner, Assessor: assessor, Space: json.RawMessage(unit), Seed: 3,
		Home: Home{
			Environment: append(os.Environ(), "PATH="+filepath.Dir(python)+":"+os.Getenv("PATH")),
			Log:         filepath.Join(directory, "log"), Checkpoint: filepath.Join(directory, "checkpoint"),
		},
		LogLevel: "info", Patience: patience,
	}}
	e.Cleanup(func() {
		if e.process != nil {
			e.process.Close()
		}
		if t.Failed() {
			words, _ := os.ReadFile(filepath.Join(e.spec.Home.Log, e.spec.logFile()))
			t.Logf("%s:\n%s", e.spec.logFile(), words)
		}
	})
	e.rebuild()
	return e
}

// class is an algorithm of testdata/users.py.
func class(name, arguments string) *Algorithm {
	_, file, _, _ := runtime.Caller(0)
	made := &Algorithm{ClassName: "users." + name, CodeDirectory: filepath.Join(filepath.Dir(file), "testdata")}
	if arguments != "" {
		made.Arguments = json.RawMessage(arguments)
	}
	return made
}

// rebuild replaces the process by one that knows only the log.
func (e *experiment) rebuild() {
	e.Helper()
	if e.process != nil {
		require.NoError(e, e.process.Close())
	}
	process, err := Open(e.spec)
	require.NoError(e, err)
	e.process = process
	for _, event := range e.log {
		require.NoError(e, process.Apply(event))
	}
}

func (e *experiment) append(kind trial.Kind, sequence int, data any) error {
	e.Helper()
	raw, err := json.Marshal(data)
	require.NoError(e, err)
	event := trial.Event{Number: int64(len(e.log) + 1), Kind: kind, Sequence: sequence, Attempt: 1, Data: raw}
	e.log = append(e.log, event)
	return e.process.Apply(event)
}

func (e *experiment) propose() tuners.Proposal {
	e.Helper()
	proposal, err := e.process.Propose(e.next)
	require.NoError(e, err)
	return proposal
}

// ask makes a trial of what is proposed, and returns its parameters.
func (e *experiment) ask() string {
	e.Helper()
	proposal := e.propose()
	require.Equal(e, tuners.Try, proposal.Answer)
	e.asked(string(proposal.Parameters), trial.SourceAlgorithm)
	return string(proposal.Parameters)
}

func (e *experiment) asked(parameters, source string) {
	e.Helper()
	require.NoError(e, e.append(trial.KindAsked, e.next, trial.Asked{Parameters: trial.Parameters(parameters), Source: source}))
	e.next++
}

func (e *experiment) report(sequence int, value float64) {
	e.Helper()
	require.NoError(e, e.append(trial.KindIntermediate, sequence, trial.Intermediate{Value: &value}))
}

func (e *experiment) end(sequence int, state trial.State, value float64) {
	e.Helper()
	ended := trial.Ended{State: state, Source: trial.SourceAlgorithm}
	if state == trial.Succeeded {
		ended.Value = &value
	}
	require.NoError(e, e.append(trial.KindEnded, sequence, ended))
}

// read is what the algorithm wrote into its working directory, a JSON value a line.
func (e *experiment) read(name string) []string {
	content, err := os.ReadFile(filepath.Join(e.spec.Home.Log, name))
	require.NoError(e, err)
	return strings.Split(strings.TrimSpace(string(content)), "\n")
}

func TestAUsersTunerProposesAndLearns(t *testing.T) {
	everyRelease(t, func(t *testing.T, python string) {
		e := begin(t, python, class("Climber", `{"optimize_mode": "minimize"}`), nil)
		require.False(t, e.process.Judges())
		first := e.propose()
		require.Equal(t, first, e.propose(), "a proposal stands until it is taken")
		require.Equal(t, "0", string(first.ParameterID))
		for n := range 4 {
			require.Contains(t, e.ask(), fmt.Sprintf(`"results": %d`, n))
			e.report(n, 1)
			e.end(n, trial.Succeeded, float64(-n))
		}
		require.Contains(t, e.ask(), `"directory": "log"`)
		e.end(4, trial.Failed, 0)
		require.Equal(t, []string{"[0, true, 1]", "[1, true, 2]", "[2, true, 3]", "[3, true, 4]", "[4, false, 4]"}, e.read("ends.jsonl"),
			"a final result is treated before its trial's end")
	})
}

func TestARebuiltTunerIsAsItWas(t *testing.T) {
	everyRelease(t, func(t *testing.T, python string) {
		e := begin(t, python, class("Climber", ""), nil)
		for n := range 6 {
			e.ask()
			e.end(n, trial.Succeeded, float64(n%4))
		}
		running, next := e.ask(), e.propose()
		e.rebuild()
		require.Equal(t, next, e.propose(), "the same proposal as before")
		e.end(6, trial.Succeeded, 9)
		require.Contains(t, e.ask(), `"results": 6`, "it was made before that result")
		require.Contains(t, e.ask(), `"results": 7`)
		require.NotEmpty(t, running)
	})
}

func TestWhatARebuiltTunerWouldProposeOtherwiseIsStillLearnedFrom(t *testing.T) {
	everyRelease(t, func(t *testing.T, python string) {
		e := begin(t, python, class("Unseeded", ""), nil)
		for n := range 3 {
			e.ask()
			e.end(n, trial.Succeeded, float64(n))
		}
		e.ask()
		e.rebuild()
		require.Contains(t, e.ask(), `"results": 0`, "made while the log's first ask was repeated, and not lost")
		require.Contains(t, e.ask(), `"results": 3`, "what the log's trials brought was imported")
		e.end(3, trial.Succeeded, 3)
		e.end(4, trial.Succeeded, 3)
		require.Contains(t, e.ask(), `"results": 5`)
	})
}

func TestATrialOfTheUsersOwnIsNoProposalOfTheTuners(t *testing.T) {
	everyRelease(t, func(t *testing.T, python string) {
		e := begin(t, python, class("Climber", ""), nil)
		proposal := e.propose()
		e.asked(`{"x": 0.25}`, trial.SourceCustomized)
		require.Equal(t, proposal, e.propose(), "it goes to the next trial")
		e.end(0, trial.Succeeded, 5)
		e.ask()
		require.Contains(t, e.ask(), `"results": 0`)
	})
}

func TestATunerThatHasNoMoreWaitsForItsTrialsAndIsThenExhausted(t *testing.T) {
	everyRelease(t, func(t *testing.T, python string) {
		e := begin(t, python, class("Climber", `{"limit": 2}`), nil)
		e.ask()
		e.ask()
		require.Equal(t, tuners.Wait, e.propose().Answer)
		e.end(0, trial.Succeeded, 1)
		require.Equal(t, tuners.Wait, e.propose().Answer)
		e.end(1, trial.Succeeded, 1)
		require.Equal(t, tuners.Exhausted, e.propose().Answer)
		e.rebuild()
		require.Equal(t, tuners.Exhausted, e.propose().Answer)
	})
}

func TestATunerReadsAllThatATrialReports(t *testing.T) {
	everyRelease(t, func(t *testing.T, python string) {
		e := begin(t, python, class("Keys", ""), nil)
		require.Equal(t, `{"loss": null}`, e.ask())
		value := 0.5
		require.NoError(t, e.append(trial.KindEnded, 0, trial.Ended{
			State: trial.Succeeded, Value: &value, Metric: json.RawMessage(`{"default": 0.5, "loss": [1, 2.0]}`)}))
		require.JSONEq(t, `{"loss": [1, 2.0]}`, e.ask())
	})
}

func TestANewSearchSpaceReachesTheTuner(t *testing.T) {
	everyRelease(t, func(t *testing.T, python string) {
		e := begin(t, python, class("Climber", `{"step": 0}`), nil)
		require.Contains(t, e.ask(), `"x": 0.5`)
		space := json.RawMessage(`{"x": {"_type": "uniform", "_value": [8, 10]}}`)
		require.NoError(t, e.append(trial.KindCommand, trial.NoTrial, trial.Command{Name: trial.SetSearchSpace, Value: space}))
		require.Contains(t, e.ask(), `"x": 9`)
		e.rebuild()
		require.Contains(t, e.ask(), `"x": 9`)
	})
}

func TestAnAssessorSeesEveryStepOnceInOrderAndStopsTrials(t *testing.T) {
	everyRelease(t, func(t *testing.T, python string) {
		for name, tuner := range map[string]*Algorithm{"beside its tuner": class("Climber", ""), "alone": nil} {
			t.Run(name, func(t *testing.T) {
				e := begin(t, python, tuner, class("Threshold", `{"bar": 0.5}`))
				require.True(t, e.process.Judges())
				e.asked(`{"x": 1}`, trial.SourceAlgorithm)
				e.asked(`{"x": 2}`, trial.SourceCustomized)
				e.report(0, 0.9)
				e.report(1, 0.1)
				require.NoError(t, e.append(trial.KindIntermediate, 1, trial.Intermediate{})) // NaN
				e.report(0, 0.8)
				require.Empty(t, e.process.Stops())
				e.report(1, 0.2)
				stop := Stop{Sequence: 1, Attempt: 1, Event: int64(len(e.log)),
					Reason: trial.Reason{Code: ReasonStopped, Text: "users.Threshold wanted it stopped after 2 intermediate results"}}
				require.Equal(t, []Stop{stop}, e.process.Stops())
				require.Empty(t, e.process.Stops())
				e.end(1, trial.EarlyStopped, 0)
				e.end(0, trial.Succeeded, 0.8)
				first, second := trial.ID(experimentID, 0), trial.ID(experimentID, 1)
				require.Equal(t, []string{
					fmt.Sprintf(`["%s", [0.9]]`, first), fmt.Sprintf(`["%s", [0.1]]`, second), fmt.Sprintf(`["%s", [0.9, 0.8]]`, first),
					fmt.Sprintf(`["%s", [0.1, 0.2]]`, second), fmt.Sprintf(`["%s", false]`, second), fmt.Sprintf(`["%s", true]`, first),
				}, e.read("histories.jsonl"))
				name := map[bool]string{true: "assessor.log", false: "dispatcher.log"}[tuner == nil]
				require.Contains(t, strings.Join(e.read(name), "\n"), "Dispatcher started")
				require.Equal(t, tuner == nil, e.read("dispatcher.log")[0] == "", "the log of the tuner alone")
			})
		}
	})
}

func TestAnAdvisorProposesUnaskedAndStopsTrials(t *testing.T) {
	everyRelease(t, func(t *testing.T, python string) {
		e := begin(t, python, class("Halving", ""), nil)
		require.True(t, e.process.Judges())
		for n := range 4 {
			require.Contains(t, e.ask(), `"budget": 1`)
			e.report(n, float64(n)-0.5)
		}
		require.Equal(t, 0, e.process.Stops()[0].Sequence)
		require.Equal(t, tuners.Wait, e.propose().Answer, "the round is not over")
		for n := range 4 {
			e.end(n, trial.Succeeded, float64(n))
		}
		proposal := e.propose()
		require.Equal(t, `"round-4"`, string(proposal.ParameterID))
		e.rebuild()
		require.Equal(t, proposal, e.propose())
		require.Contains(t, e.ask(), `"budget": 2`)
		require.Contains(t, e.ask(), `"budget": 2`)
		require.Equal(t, tuners.Wait, e.propose().Answer)
	})
}
