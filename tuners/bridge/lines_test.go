package bridge

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/assessors"
	"github.com/perennial-ml/perennial/testsuite/machine"
	"github.com/perennial-ml/perennial/trial"
	"github.com/perennial-ml/perennial/tuners"
)

// TestMain lets this very program be the process: `starter tuner` without starter.
func TestMain(m *testing.M) {
	if name := os.Getenv("SERVE_ALGORITHM"); name != "" {
		if err := Serve(os.Stdin, os.Stdout, name, assessorOf(name)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// ours runs one of our algorithms as a process.
func ours(t *testing.T, name, arguments string) *Algorithm {
	program, err := os.Executable()
	require.NoError(t, err)
	made := &Algorithm{Command: fmt.Sprintf("SERVE_ALGORITHM=%s exec %s", name, program), CodeDirectory: t.TempDir()}
	if arguments != "" {
		made.Arguments = json.RawMessage(arguments)
	}
	return made
}

// script is an algorithm in a few lines of shell: each line that it reads is in $line.
func script(t *testing.T, answer string) *Algorithm {
	return &Algorithm{Command: "while read -r line; do " + answer + "; done", CodeDirectory: t.TempDir()}
}

const anyPython = "python3"

func TestAProcessTunerSuggestsWhatItsAlgorithmSuggestsInProcess(t *testing.T) {
	for _, name := range []string{"Random", "Anneal", "Evolution", "GP"} {
		t.Run(name, func(t *testing.T) {
			arguments := `{"optimize_mode": "minimize"}`
			e := begin(t, anyPython, ours(t, name, arguments), nil)
			inside, err := tuners.New(tuners.Spec{Name: name, Arguments: json.RawMessage(arguments), Space: e.spec.Space, Seed: e.spec.Seed})
			require.NoError(t, err)
			for n := range 15 {
				if n == 7 {
					e.rebuild()
				}
				if n == 9 {
					e.asked(`{"x":0.125}`, trial.SourceCustomized)
				} else {
					want, err := inside.Propose(e.next)
					require.NoError(t, err)
					require.Equal(t, want.Parameters, e.propose().Parameters)
					e.asked(string(want.Parameters), trial.SourceAlgorithm)
				}
				source := map[bool]string{true: trial.SourceCustomized, false: trial.SourceAlgorithm}[n == 9]
				e.report(n, float64(n))
				value := float64(n%5) / 3
				require.NoError(t, e.append(trial.KindEnded, n, trial.Ended{State: trial.Succeeded, Value: &value, Source: source}))
				for _, event := range e.log[len(e.log)-3:] {
					require.NoError(t, inside.Apply(event))
				}
			}
		})
	}
}

func TestAnAskIsToldToAProcessWithTheIdThatItsAlgorithmGave(t *testing.T) {
	for _, name := range []string{"ASHA", "Hyperband", "BOHB"} {
		t.Run(name, func(t *testing.T) {
			arguments := map[string]string{"ASHA": `{"max_budget": 3}`, "Hyperband": `{"R": 3}`, "BOHB": ""}[name]
			e := begin(t, anyPython, ours(t, name, arguments), nil)
			other, err := tuners.New(tuners.Spec{Name: name, Arguments: json.RawMessage(arguments), Space: e.spec.Space, Seed: e.spec.Seed + 1})
			require.NoError(t, err)
			for n := range 4 {
				asked, err := other.Propose(n)
				require.NoError(t, err)
				require.NotNil(t, asked.ParameterID)
				made := e.propose()
				require.Equal(t, string(asked.ParameterID), string(made.ParameterID))
				require.Equal(t, n == 3, bytes.Equal(asked.Parameters, made.Parameters), "only the fourth is one that goes on, and nobody draws it")
				e.next++
				require.NoError(t, e.append(trial.KindAsked, n, trial.Asked{Parameters: asked.Parameters, Source: trial.SourceAlgorithm, ParameterID: asked.ParameterID}))
				e.end(n, trial.Succeeded, float64(n))
				for _, event := range e.log[len(e.log)-2:] {
					require.NoError(t, other.Apply(event))
				}
			}
		})
	}
}

func TestAnAskThatIsNotWhatWasSuggestedIsToldToTheProcess(t *testing.T) {
	e := begin(t, anyPython, ours(t, "GridSearch", ""), nil)
	require.Equal(t, `{"x":0.5}`, e.ask())
	e.propose()
	e.asked(`{"x":0.75}`, trial.SourceAlgorithm) // another host asked first
	require.Equal(t, `{"x":0.25}`, e.ask(), "0.75 is taken, 0.25 is not")
	require.Equal(t, `{"x":0.125}`, e.ask())
}

func TestAProcessMayWaitOrBeExhausted(t *testing.T) {
	e := begin(t, anyPython, script(t, `case $line in
		*'"suggest"'*'"trial":0}'*) echo '{"trial":0,"parameters":{"x":1}}';;
		*'"suggest"'*) if [ -n "$ended" ]; then echo '{"trial":1,"exhausted":true}'; else echo '{"trial":1,"wait":true}'; fi;;
		*observe*) ended=1;;
	esac`), nil)
	e.ask()
	require.Equal(t, tuners.Wait, e.propose().Answer)
	require.Equal(t, tuners.Wait, e.propose().Answer)
	e.end(0, trial.Failed, 0)
	require.Equal(t, tuners.Exhausted, e.propose().Answer)
}

func TestAProcessThatWaitsWhileNoTrialRunsIsAskedAgain(t *testing.T) {
	e := begin(t, anyPython, script(t, `case $line in
		*'"suggest"'*) if [ -n "$asked" ]; then echo '{"trial":0,"parameters":{"x":1}}'; else echo '{"trial":0,"wait":true}'; fi; asked=1;;
	esac`), nil)
	require.Equal(t, tuners.Wait, e.propose().Answer)
	require.Equal(t, tuners.Try, e.propose().Answer)
}

func TestAProcessCanStopTrials(t *testing.T) {
	e := begin(t, anyPython, nil, ours(t, "Medianstop", `{"optimize_mode": "maximize", "start_step": 1}`))
	for n := range 3 {
		e.asked(`{"x": 1}`, trial.SourceAlgorithm)
		if n < 2 {
			e.report(n, 10)
			e.end(n, trial.Succeeded, 10)
		}
	}
	e.report(2, 1)
	var stops []Stop
	require.Eventually(t, func() bool { stops = e.process.Stops(); return len(stops) > 0 }, patience, time.Millisecond)
	require.Equal(t, 2, stops[0].Sequence)
	require.Equal(t, int64(len(e.log)), stops[0].Event)
}

func TestWhatAProcessIsToldIsTheDocumentedProtocol(t *testing.T) {
	heard := filepath.Join(t.TempDir(), "heard")
	e := begin(t, anyPython, script(t, `printf '%s\n' "$line" >> `+heard+`; case $line in *suggest*'"trial":0'*) echo '{"trial":0,"parameters":{"x":5.0}}';; *suggest*) echo '{"trial":2,"parameters":{"x":5.0}}';; esac`), nil)
	require.Equal(t, `{"x":5.0}`, e.ask(), "numbers stay as they are written")
	e.report(0, 0.5)
	value := 0.25
	require.NoError(t, e.append(trial.KindEnded, 0, trial.Ended{State: trial.Succeeded, Value: &value, Metric: json.RawMessage(`{"default":0.25,"f":1}`)}))
	e.asked(`{"x":1}`, trial.SourceCustomized)
	e.end(1, trial.EarlyStopped, 0)
	require.NoError(t, e.append(trial.KindAsked, 2, trial.Asked{Parameters: []byte(`{"x":2}`), ParameterID: []byte(`"0_0_2"`)}))
	require.NoError(t, e.append(trial.KindAsked, 3, trial.Asked{Parameters: []byte(`{"x":3}`), ParameterID: []byte(`3`)}))
	require.NoError(t, e.process.Close())
	content, err := os.ReadFile(heard)
	require.NoError(t, err)
	require.Equal(t, strings.Join([]string{
		`{"op":"open","role":"tuner","searchSpace":{"x":{"_type":"uniform","_value":[0,1]}},"mode":"maximize","seed":3,"arguments":{}}`,
		`{"op":"suggest","trial":0}`,
		`{"op":"intermediate","trial":0,"sequence":0,"value":0.5}`,
		`{"op":"observe","trial":0,"status":"succeeded","value":0.25,"metric":{"default":0.25,"f":1}}`,
		`{"op":"asked","trial":1,"parameters":{"x":1},"customized":true}`,
		`{"op":"observe","trial":1,"status":"stopped","value":null}`,
		`{"op":"suggest","trial":2}`,
		`{"op":"asked","trial":2,"parameters":{"x":2},"parameterId":"0_0_2"}`,
		`{"op":"asked","trial":3,"parameters":{"x":3}}`,
	}, "\n"), strings.TrimSpace(string(content)))
}

func TestWhateverAProcessDoesWrongIsAnErrorThatSaysSo(t *testing.T) {
	for name, c := range map[string]struct{ answer, want string }{
		"dies":               {`case $line in *suggest*) echo no memory left >&2; exit 3;; esac`, "it exited with code 3: no memory left"},
		"is killed":          {`case $line in *suggest*) kill -9 $$;; esac`, "it was killed by SIGKILL"},
		"prints":             {`echo hello`, `it said what is no answer: "hello"; its standard output is for answers only`},
		"hangs":              {`case $line in *suggest*) sleep 1000;; esac`, "it did not answer for"},
		"is one too late":    {`case $line in *suggest*) echo '{"trial":5,"wait":true}';; esac`, "it answered for trial 5, and was asked for trial 0"},
		"answers no object":  {`case $line in *suggest*) echo '{"trial":0,"parameters":[1]}';; esac`, `it suggested [1] for trial 0: want "parameters" with an object`},
		"speaks out of turn": {`case $line in *open*) { sleep 1; echo '{"trial":0,"wait":true}'; echo '{"trial":0,"wait":true}'; } & esac`, "what nobody asked"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := begin(t, anyPython, script(t, c.answer), nil)
			if name == "hangs" {
				e.process.Close()
				e.spec.Patience = time.Second
				e.process = nil
				e.rebuild()
			}
			if name == "speaks out of turn" {
				<-e.process.Changed()
			}
			_, err := e.process.Propose(0)
			require.ErrorContains(t, err, c.want)
			require.NoError(t, e.process.Close())
			_, err = e.process.Propose(0)
			require.ErrorContains(t, err, c.want, "it stays dead")
			e.process = nil
		})
	}
}

func TestALogThatIsEmptiedMeanwhileStillHasTheLastWords(t *testing.T) {
	for name, answer := range map[string]string{"and silent": "exit 3", "and written to": "echo no memory left >&2; exit 3"} {
		t.Run(name, func(t *testing.T) {
			log := t.TempDir()
			before := strings.Repeat("of an earlier process\n", 100)
			path := filepath.Join(log, "dispatcher.log")
			require.NoError(t, os.WriteFile(path, []byte(before), 0o600))
			process, err := Open(Spec{Tuner: script(t, "case $line in *suggest*) "+answer+";; esac"), Home: Home{Log: log, Checkpoint: log, Environment: os.Environ()}})
			require.NoError(t, err)
			defer process.Close()
			require.NoError(t, os.Truncate(path, 0))
			_, err = process.Propose(0)
			want := "it exited with code 3"
			if name == "and written to" {
				want += ": no memory left"
			}
			require.ErrorContains(t, err, want)
		})
	}
}

func TestAnAssessorAloneHasALogOfItsOwn(t *testing.T) {
	e := begin(t, anyPython, script(t, "case $line in *suggest*) exit 3;; *) echo of the tuner >&2;; esac"), nil)
	alone := e.spec
	alone.Tuner, alone.Assessor = nil, script(t, "echo of the assessor >&2; echo {}")
	judge, err := Open(alone)
	require.NoError(t, err)
	defer judge.Close()
	<-judge.Changed() // it died of its answer, and has said what it has to say
	_, err = e.process.Propose(0)
	require.ErrorContains(t, err, "it exited with code 3: of the tuner")
	require.Equal(t, []string{"of the assessor"}, e.read("assessor.log"))
	require.Equal(t, []string{"of the tuner"}, e.read("dispatcher.log"))
}

func TestALogThatHasGrownLargeIsSetAside(t *testing.T) {
	e := begin(t, anyPython, script(t, "echo anew >&2"), nil)
	path := filepath.Join(e.spec.Home.Log, "dispatcher.log")
	require.NoError(t, os.Truncate(path, largestLog+1))
	e.rebuild()
	require.Eventually(t, func() bool { return e.read("dispatcher.log")[0] == "anew" }, patience, time.Millisecond)
	aside, err := os.Stat(path + ".1")
	require.NoError(t, err)
	require.Greater(t, aside.Size(), int64(largestLog))
}

func TestNoProcessOutlivesItsAlgorithm(t *testing.T) {
	e := begin(t, anyPython, script(t, `case $line in *open*) sleep 1234.5 & ;; esac`), nil)
	left := func() string {
		out, _ := exec.Command("pgrep", "-f", "sleep 1234.5").Output()
		return string(bytes.TrimSpace(out))
	}
	require.Eventually(t, func() bool { return left() != "" }, patience, time.Millisecond)
	require.NoError(t, e.process.Close())
	e.process = nil
	require.Eventually(t, func() bool { return left() == "" }, patience, time.Millisecond)
}

func TestWhatAKilledHostLeftBehindIsEndedBeforeTheNextStarts(t *testing.T) {
	e := begin(t, anyPython, script(t, ":"), nil)
	stray := exec.Command("sleep", "1235.5")
	stray.Env = []string{"A=1", tag + "=" + e.spec.Home.Log + " tuner", "B=2"}
	other := exec.Command("sleep", "1235.5")
	other.Env = []string{tag + "=" + e.spec.Home.Log + " assessor"}
	require.NoError(t, stray.Start())
	require.NoError(t, other.Start())
	e.rebuild()
	require.ErrorContains(t, stray.Wait(), "killed")
	require.NoError(t, other.Process.Kill())
	require.Error(t, other.Wait())
}

func TestServedAlgorithmsRefuseWhatTheyDoNotUnderstand(t *testing.T) {
	for input, want := range map[string]string{
		`hello`:                      "line 1: is no message",
		`{"op":"suggest","trial":0}`: `line 1: comes before {"op":"open"}`,
		`{"op":"open","searchSpace":{"x":{"_type":"choice","_value":[1]}},"arguments":{"sead":1}}`:                          `line 1: tuner Random has no argument "sead"`,
		`{"op":"open","searchSpace":{"x":{"_type":"choice","_value":[1]}}}` + "\n" + `{"op":"sugest","trial":0}`:            `line 2: "sugest" is none of open, space`,
		`{"op":"open","searchSpace":{"x":{"_type":"choice","_value":[1]}}}` + "\n" + `{"op":"suggest"}`:                     `line 2: "suggest" names no trial`,
		`{"op":"open","searchSpace":{"x":{"_type":"choice","_value":[1]}}}` + "\n" + `{"op":"observe","trial":0,"value":1}`: `line 2: status is "": want succeeded`,
	} {
		require.ErrorContains(t, Serve(strings.NewReader(input), &bytes.Buffer{}, "Random", assessorOf("Random")), want)
	}
}

func TestServedAlgorithmsRefuseAnAskWithoutTheIdThatTheyKnowTrialsBy(t *testing.T) {
	open := `{"op":"open","searchSpace":{"x":{"_type":"choice","_value":[1]}}}` + "\n"
	asked := `{"op":"asked","trial":0,"parameters":{"x":1}`
	err := Serve(strings.NewReader(open+asked+"}"), &bytes.Buffer{}, "ASHA", assessorOf("ASHA"))
	require.EqualError(t, err, `line 2: "asked" has no "parameterId", by which ASHA knows its trials: want that of a suggestion, or "customized":true`)
	for _, whose := range []string{`,"parameterId":"0_0_0"}`, `,"customized":true}`} {
		require.NoError(t, Serve(strings.NewReader(open+asked+whose), &bytes.Buffer{}, "ASHA", assessorOf("ASHA")))
	}
	require.NoError(t, Serve(strings.NewReader(open+asked+"}"), &bytes.Buffer{}, "Random", assessorOf("Random")))
}

// optuna begins the example's tuner in a search space.
func optuna(t *testing.T, space string) *experiment {
	python := pythonWithNNI(t, "3.0")
	if err := exec.Command(python, "-c", "import optuna").Run(); err != nil {
		machine.Lacks(t, "%s lacks examples/optuna/requirements.txt, which make .venv/tests installs", python)
	}
	example, err := filepath.Abs("../../examples/optuna")
	require.NoError(t, err)
	e := begin(t, python, &Algorithm{Command: python + " tuner.py", CodeDirectory: example, Arguments: json.RawMessage(`{"optimize_mode": "minimize"}`)}, nil)
	e.process.Close()
	e.process = nil
	e.spec.Space = json.RawMessage(space)
	e.rebuild()
	return e
}

func TestOptunaRefusesWhatItHasNoDistributionFor(t *testing.T) {
	for kind, values := range map[string]string{
		"normal": "[0, 1]", "quniform": "[0, 1, 0.5]", "qloguniform": "[1, 8, 2]", "choice": `[{"_name": "a"}, {"_name": "b"}]`,
	} {
		e := optuna(t, fmt.Sprintf(`{"x": {"_type": %q, "_value": %s}}`, kind, values))
		_, err := e.process.Propose(0)
		require.ErrorContains(t, err, "ValueError: this tuner has no distribution for "+kind+" of [")
	}
}

func TestOptunaGoesToANewSearchSpace(t *testing.T) {
	e := optuna(t, `{"x": {"_type": "uniform", "_value": [0, 1]}, "k": {"_type": "choice", "_value": ["a", "b"]}}`)
	e.ask()
	e.ask()
	e.end(0, trial.Succeeded, 1)
	space := json.RawMessage(`{"x": {"_type": "loguniform", "_value": [10, 20]}, "k": {"_type": "choice", "_value": ["c"]}}`)
	require.NoError(t, e.append(trial.KindCommand, trial.NoTrial, trial.Command{Name: trial.SetSearchSpace, Value: space}))
	for n := 2; n < 4; n++ {
		require.Regexp(t, `{"x":\s*1\d\.\d+,\s*"k":\s*"c"}`, e.ask())
		e.end(n-1, trial.Succeeded, 1) // first one of the old space
	}
}

func TestOptunaIsATunerInThirtyLines(t *testing.T) {
	e := optuna(t, `{"x": {"_type": "uniform", "_value": [-5, 5]}, "k": {"_type": "choice", "_value": ["a", "b"]}, "n": {"_type": "randint", "_value": [1, 4]}}`)
	sum := 0.0
	for n := range 40 {
		if n == 20 {
			next := e.propose()
			e.rebuild()
			require.Equal(t, next, e.propose(), "rebuilt from the log, it is as it was")
		}
		if n == 5 {
			e.asked(`{"x": 0.25, "k": "b", "n": 3}`, trial.SourceCustomized)
		} else {
			e.ask()
		}
		var asked trial.Asked
		require.NoError(t, json.Unmarshal(e.log[len(e.log)-1].Data, &asked))
		var p struct {
			X float64
			K string
			N int
		}
		require.NoError(t, json.Unmarshal(asked.Parameters, &p))
		state := trial.Succeeded
		if n%7 == 3 {
			state = trial.Failed
		}
		e.end(n, state, p.X*p.X+float64(p.N))
		if n >= 30 {
			sum += p.X * p.X
		}
	}
	require.Less(t, sum/10, 4.0, "it learned: at random it would be 8.3")
}

// assessorOf is as the program has it.
func assessorOf(name string) *Assessor {
	if assessors.Native()[strings.ToLower(name)] == nil {
		return nil
	}
	return &Assessor{Arguments: assessors.Describe(name), New: func(arguments json.RawMessage) (Judge, error) {
		made, err := assessors.New(assessors.Spec{Name: name, Arguments: arguments})
		if err != nil {
			return nil, err
		}
		return func(event trial.Event) (bool, error) {
			verdict, err := made.Apply(event)
			return verdict.Stop, err
		}, nil
	}}
}
