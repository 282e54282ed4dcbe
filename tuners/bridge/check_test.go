package bridge

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWhatCannotRunIsFoundBeforeAnythingStarts(t *testing.T) {
	broken := t.TempDir()
	for name, text := range map[string]string{
		"needs.py": "import no_such_package", "syntax.py": "def f(:\n", "raises.py": "raise RuntimeError('not today')", "plain.py": "class Mine: pass",
		"old.py": "import nni.msg_dispatcher_base", "older.py": "import nni.metis_tuner", "gone.py": "import nni.platform",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(broken, name), []byte(text), 0o644))
	}
	mine := func(class, arguments string) Algorithm {
		return Algorithm{ClassName: class, CodeDirectory: broken, Arguments: json.RawMessage(arguments)}
	}
	everyRelease(t, func(t *testing.T, python string) {
		environment := append(os.Environ(), "PATH="+filepath.Dir(python)+":"+os.Getenv("PATH"))
		for _, c := range []struct {
			kind      string
			algorithm Algorithm
			want      string
			hint      string
		}{
			{"tuner", *class("Climber", `{"step": 1}`), "", ""},
			{"tuner", *class("Halving", ""), "", ""},
			{"tuner", Algorithm{Name: "Metis"}, "", ""},
			{"assessor", *class("Threshold", ""), "", ""},
			{"tuner", *class("Climbr", ""), "module users has no class Climbr", "it has Climber, Faulty, Halving, Keys, Surroundings, Threshold, Unseeded"},
			{"tuner", *class("Climber", `{"stepp": 1}`), "Climber: got an unexpected keyword argument 'stepp'", "it takes optimize_mode, step, limit"},
			{"assessor", *class("Climber", ""), "Climber is no assessor: it must inherit nni.assessor.Assessor", ""},
			{"tuner", mine("nowhere.Mine", "null"), "there is no module nowhere in " + broken, "is it spelled as its file is?"},
			{"tuner", mine("needs.Mine", "null"), "module needs needs no_such_package", "pip install no_such_package"},
			{"tuner", mine("old.Mine", "null"), "module old needs nni.msg_dispatcher_base",
				"nni.msg_dispatcher_base is of nni 1.x, and this is nni 3.0, which has it as nni.runtime.msg_dispatcher_base"},
			{"tuner", mine("older.Mine", "null"), "module older needs nni.metis_tuner", "which has it as nni.algorithms.hpo.metis_tuner"},
			{"tuner", mine("gone.Mine", "null"), "module gone needs nni.platform", "nni.platform is of nni 1.x, and this is nni 3.0"},
			{"tuner", mine("syntax.Mine", "null"), broken + "/syntax.py:1: ", ""},
			{"tuner", mine("raises.Mine", "null"), "importing raises fails: RuntimeError: not today", ""},
			{"tuner", mine("plain.Mine", "null"), "Mine is no tuner: it must inherit nni.tuner.Tuner", ""},
			{"tuner", Algorithm{Name: "BOHB"}, "needs ConfigSpace, which ", "pip install ConfigSpace"},
			{"tuner", Algorithm{Name: "SMAC"}, "which ", "nni[SMAC] no longer builds"},
			{"tuner", Algorithm{Name: "Nonesuch"}, "knows no tuner Nonesuch", "nnictl algo register"},
		}[:cases(t)] {
			err := Check(t.Context(), c.kind, c.algorithm, environment)
			if c.want == "" {
				require.NoError(t, err, c.algorithm)
				continue
			}
			var fault *Fault
			require.ErrorAs(t, err, &fault, c.algorithm)
			require.Contains(t, fault.Message, c.want)
			require.Contains(t, fault.Advice, c.hint)
		}
	})
}

// cases is how many of the cases are tried: an import of nni takes seconds, and what
// the later ones find out does not depend on its release.
func cases(t *testing.T) int {
	if strings.HasSuffix(t.Name(), "3.0") {
		return 18
	}
	return 5
}

func TestAnImportMayLeaveProcessesThatNeverEnd(t *testing.T) {
	forever := fmt.Sprintf("sleep 1236.%d", os.Getpid())
	for script, want := range map[string]string{
		`$FOREVER & echo {} >&5`:                         "",
		`echo {} >&5; $FOREVER`:                          "",
		`$FOREVER & echo broken >&2; exit 3`:             "its Python failed (exit status 3): broken",
		`setsid sleep 20 & echo {} >&5`:                  "",
		`setsid sleep 20 & echo broken >&2; exit 3`:      "its Python failed (exit status 3): broken",
		`echo '{"message": "needs more"}' >&5; $FOREVER`: "needs more",
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		command := exec.CommandContext(ctx, "/bin/sh", "-c", script)
		command.Env = append(os.Environ(), "FOREVER="+forever)
		err := probe(ctx, command)
		require.NoError(t, ctx.Err(), script)
		if want == "" {
			require.NoError(t, err, script)
			continue
		}
		require.EqualError(t, err, want, script)
	}
	require.Eventually(t, func() bool { return exec.Command("pgrep", "-f", forever).Run() != nil }, patience, time.Millisecond)
}

func TestAnImportThatNeverEndsIsAFault(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	err := probe(ctx, exec.CommandContext(ctx, "/bin/sh", "-c", "setsid sleep 20 & sleep 1237.5"))
	require.ErrorContains(t, err, "importing it took more than")
}

func TestAPythonWithoutNNIIsFoundBeforeAnythingStarts(t *testing.T) {
	directory := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(directory, "python3"), []byte("#!/bin/sh\nexec /usr/bin/env PATH=\"$OTHER\" python3 -S -I \"$@\"\n"), 0o755))
	err := Check(t.Context(), "tuner", *class("Climber", ""), append(os.Environ(), "PATH="+directory, "OTHER="+os.Getenv("PATH")))
	require.ErrorContains(t, err, "has no nni")
	var fault *Fault
	require.ErrorAs(t, err, &fault)
	require.Contains(t, fault.Hint(), "-m pip install nni")

	err = Check(t.Context(), "tuner", *class("Climber", ""), []string{"PATH=" + t.TempDir()})
	require.ErrorContains(t, err, "there is no python3 on PATH")
}

func TestACommandThatIsNotThereIsFoundBeforeAnythingStarts(t *testing.T) {
	directory := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(directory, "mine.sh"), []byte("#!/bin/sh\n"), 0o755))
	for command, found := range map[string]bool{
		"./mine.sh --fast": true, "./other.sh": false, "sh -c true": true, "no-such-program x": false, "MODE=x no-such-program": true, "cd x && y": true,
	} {
		err := Check(t.Context(), "tuner", Algorithm{Command: command, CodeDirectory: directory}, os.Environ())
		require.Equal(t, found, err == nil, "%s: %v", command, err)
	}
}
