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

	"github.com/perennial-ml/perennial/testsuite/machine"
	"github.com/perennial-ml/perennial/trial"
	"github.com/perennial-ml/perennial/tuners"
)

// TestMain lets this very program be the process: `starter tuner` without starter.
func TestMain(m *testing.M) {
	if name := os.Getenv("SERVE_ALGORITHM"); name != "" {
		if err := Serve(os.Stdin, os.Stdout, name); err != nil {
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
	e := begin(t, anyPython, script(t, `printf '%s\n' "$line" >> `+heard+`; case $line in *suggest*) echo '{"trial":0,"parameters":{"x":5.0}}';; esac`), nil)
	require.Equal(t, `{"x":5.0}`, e.ask(), "numbers stay as they are written")
	e.report(0, 0.5)
	value := 0.25
	require.NoError(t, e.append(trial.KindEnded, 0, trial.Ended{State: trial.Succeeded, Value: &value, Metric: json.RawMessage(`{"default":0.25,"f":1}`)}))
	e.asked(`{"x":1}`, trial.SourceCustomized)
	e.end(1, trial.EarlyStopped, 0)
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
		"speaks out of turn": {`case $line in *open*) echo '{"trial":0,"wait":true}'; echo '{"trial":0,"wait":true}';; esac`, "what nobody asked"},
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
		require.ErrorContains(t, Serve(strings.NewReader(input), &bytes.Buffer{}, "Random"), want)
	}
}

func TestOptunaIsATunerInTwentyLines(t *testing.T) {
	python := pythonWithNNI(t, "3.0")
	if err := exec.Command(python, "-c", "import optuna").Run(); err != nil {
		machine.Lacks(t, "%s lacks examples/optuna/requirements.txt, which make .venv/tests installs", python)
	}
	example, err := filepath.Abs("../../examples/optuna")
	require.NoError(t, err)
	e := begin(t, python, &Algorithm{Command: python + " tuner.py", CodeDirectory: example, Arguments: json.RawMessage(`{"optimize_mode": "minimize"}`)}, nil)
	e.process.Close()
	e.process = nil
	e.spec.Space = json.RawMessage(`{"x": {"_type": "uniform", "_value": [-5, 5]}, "k": {"_type": "choice", "_value": ["a", "b"]}, "n": {"_type": "randint", "_value": [1, 4]}}`)
	e.rebuild()
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
