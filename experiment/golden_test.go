package experiment

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the golden files anew")

// everything is a build that lacks nothing.
func everything() Build {
	return Build{
		Tuners: TunerNames(), Assessors: AssessorNames(), Platforms: PlatformNames(), GPUs: true,
		CheckAlgorithm: checkAlgorithm,
	}
}

// unfit says why an algorithm cannot run in a process.
type unfit struct {
	message, hint       string
	argument, isUnknown bool
}

func (u unfit) Error() string  { return u.message }
func (u unfit) Hint() string   { return u.hint }
func (u unfit) Argument() bool { return u.argument }
func (u unfit) Stranger() bool { return u.isUnknown }

func checkAlgorithm(kind string, a Algorithm) error {
	switch {
	case a.ClassName == "broken.Tuner":
		return unfit{message: "module broken needs torch, which python3 lacks", hint: "python3 -m pip install torch"}
	case strings.Contains(string(a.Arguments), "stepp"):
		return unfit{message: "got an unexpected keyword argument 'stepp'", hint: "it takes step", argument: true}
	case a.Name != "" && a.Name != "RegisteredByNnictl":
		return unfit{message: "nni knows no " + kind + " " + a.Name, isUnknown: true}
	}
	return nil
}

// small is a build as small as the first one was.
func small() Build {
	return Build{
		Tuners: []string{"Random", "GridSearch", "Batch"}, Assessors: []string{"Medianstop"},
		Platforms: []string{"local", "fake"},
	}
}

func buildFor(file string) Build {
	if strings.Contains(file, "not-in-build") {
		return small()
	}
	return everything()
}

// portable replaces the place of the tests in a text.
func portable(t *testing.T, text string) string {
	here, err := filepath.EvalSymlinks(must(os.Getwd()))
	require.NoError(t, err)
	return strings.ReplaceAll(text, here, "/here")
}

func must(text string, err error) string {
	if err != nil {
		panic(err)
	}
	return text
}

func compare(t *testing.T, golden, got string) {
	got = portable(t, got)
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(got), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

func eachFile(t *testing.T, pattern string, test func(t *testing.T, file, golden string)) {
	files, err := filepath.Glob(pattern)
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		base := strings.TrimSuffix(file, ".yml")
		t.Run(filepath.Base(base), func(t *testing.T) { test(t, file, base) })
	}
}

func TestGoodFilesMeanTheirCanonicalExperiment(t *testing.T) {
	t.Setenv("HOME", "/home/nobody")
	eachFile(t, "testdata/good/*.yml", func(t *testing.T, file, base string) {
		loaded, err := Load(file, buildFor(file))
		require.NoError(t, err)
		canonical, err := json.MarshalIndent(loaded.Experiment, "", "  ")
		require.NoError(t, err)
		compare(t, base+".json", string(canonical)+"\n")
		var warnings strings.Builder
		for _, warning := range loaded.Warnings {
			warnings.WriteString(warning.String() + "\n")
		}
		compare(t, base+".warnings", warnings.String())
	})
}

func TestBadFilesAreRefusedWithEveryFault(t *testing.T) {
	t.Setenv("HOME", "/home/nobody")
	eachFile(t, "testdata/bad/*.yml", func(t *testing.T, file, base string) {
		_, err := Load(file, buildFor(file))
		require.Error(t, err)
		require.NotContains(t, err.Error(), "hunter2")
		compare(t, base+".txt", err.Error()+"\n")
	})
}
