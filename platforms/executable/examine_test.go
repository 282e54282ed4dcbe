package executable_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/executable"
	"github.com/perennial-ml/perennial/testsuite/slurmlab"
	"github.com/perennial-ml/perennial/trial"
)

type examination func(context.Context, executable.Options, platforms.Section, time.Duration) ([]executable.Rule, error)

// examined returns the rules that an executable breaks, with how.
func examined(t *testing.T, path string, options any, examine examination, environment ...string) map[string]string {
	path, err := filepath.Abs(path)
	require.NoError(t, err)
	text, err := json.Marshal(map[string]any{"executable": path, "options": options})
	require.NoError(t, err)
	section := platforms.Section{Platform: executable.Name, Experiment: trial.NewExperimentID(), Written: text,
		Resolve: func(context.Context) (json.RawMessage, error) { return text, nil }}
	on := executable.Options{StateDirectory: t.TempDir(), Runner: runner, Environment: append(os.Environ(), environment...)}
	found, err := examine(t.Context(), on, section, patience)
	require.NoError(t, err)
	require.NotEmpty(t, found)
	broken := map[string]string{}
	for _, rule := range found {
		if !rule.Kept {
			broken[rule.Rule] = rule.Broken
		}
	}
	return broken
}

// everything tries all rules, each of which is told of as it was.
func everything(t *testing.T) examination {
	return func(ctx context.Context, on executable.Options, section platforms.Section, patience time.Duration) ([]executable.Rule, error) {
		told := []executable.Rule{}
		found, err := executable.Examine(ctx, on, section, patience, func(rule executable.Rule, of int) {
			told = append(told, rule)
			require.LessOrEqual(t, len(told), of)
		})
		require.ElementsMatch(t, found[1:], told)
		return found, err
	}
}

const patience = 2 * time.Minute

func TestTheExamplesKeepAllRules(t *testing.T) {
	t.Parallel()
	require.Empty(t, examined(t, "../../examples/platforms/own-ways/own_ways.py", map[string]string{}, everything(t)))
	shared := t.TempDir()
	require.Empty(t, examined(t, "../../examples/platforms/here/here.sh", map[string]string{"directory": shared}, everything(t)))
	left, err := filepath.Glob(filepath.Join(shared, "experiments", "*"))
	require.NoError(t, err)
	require.Empty(t, left, "an examination leaves nothing behind")
}

func TestSlurmKeepsAllRules(t *testing.T) {
	cluster := slurmlab.New(t)
	directory, err := os.MkdirTemp(cluster.Home, "")
	require.NoError(t, err)
	require.Empty(t, examined(t, "../../examples/platforms/slurm/slurm.py", map[string]any{"directory": directory, "poll": 0.2}, everything(t), cluster.Environment()...))
}

// TestABrokenRuleIsFound breaks the page of Python in one place each.
func TestABrokenRuleIsFound(t *testing.T) {
	t.Parallel()
	for rule, bad := range map[string][]string{
		"describe says what the executable is like":  {`{"protocol": 1,`, `{"protocol": 2,`},
		"a run is waiting or running, and then over": {`"number": len(records) + 1`, `"number": len(records)`},
		"a run that nobody submitted is gone":        {`{"phase": "gone", "reason": "nobody submitted it"}`, `{"phase": "waiting", "reason": "soon"}`},
		"submit called twice starts a run once": {`if keeper_of(directory):`, `if False:`,
			`os.symlink(process("self"), "keeper")`, `(os.path.lexists("keeper") and os.remove("keeper"), os.symlink(process("self"), "keeper"))`},
		"three submits at once start a run once": {`if keeper_of(directory):`, `if os.path.isdir(directory): sys.exit("it is there")
    if False:`},
		"a run whose submit was answered to nobody is found by its name": {`report(place(request, run),`, `report(run["data"]["place"],`},
		"a submit that was killed half-way is finished by the next": {`os.makedirs(directory, exist_ok=True)
    copy_code`, `os.makedirs(directory); time.sleep(10)
    copy_code`},
		"submit of a run that has ended starts nothing": {`if keeper_of(directory):`, `if keeper_of(directory) and not read(directory + "/end"):`,
			`os.symlink(process("self"), "keeper")`, `(os.path.lexists("keeper") and os.remove("keeper"), os.symlink(process("self"), "keeper"))`},
		"reports come in the order in which runs are asked about":               {`for run in request["runs"]]`, `for run in reversed(request["runs"])]`},
		"cancel ends a run that runs, and may be called again":                  {`os.killpg(int(`, `str((`, `signal.SIGKILL)`, `"")`},
		"cancel of a run that was never submitted keeps it from starting":       {`os.symlink(NOBODY, os.path.join(directory, "keeper"))`, `pass`},
		"cancel of a run that has ended changes nothing":                        {`if read(os.path.join(directory, "end")):`, `if False:`},
		"the exit code of a trial that fails is told":                           {`code if code >= 0 else 128 - code`, `int(code != 0)`},
		"the same cursor gives the same records, and the next one what follows": {`records[int(after or 0):]`, `records`},
		"logs gives what a run printed, from a byte on":                         {`[request["from"]:]`, ``},
		"cleanUp may be called twice, and the ends of runs are still told":      {`run, "code")]`, `run)]`},
	} {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			found := examined(t, mutilated(t, bad...), map[string]string{}, executable.Only(rule))
			require.Contains(t, found, rule)
			require.NotEmpty(t, found[rule])
		})
	}
}

// mutilated is the page of Python with one thing in it replaced.
func mutilated(t *testing.T, replaced ...string) string {
	content, err := os.ReadFile("../../examples/platforms/own-ways/own_ways.py")
	require.NoError(t, err)
	for i := 0; i < len(replaced); i += 2 {
		require.Contains(t, string(content), replaced[i])
	}
	path := filepath.Join(t.TempDir(), "platform.py")
	syscall.ForkLock.RLock() // what is forked meanwhile would keep it open for writing
	defer syscall.ForkLock.RUnlock()
	require.NoError(t, os.WriteFile(path, []byte(strings.NewReplacer(replaced...).Replace(string(content))), 0o700))
	return path
}
