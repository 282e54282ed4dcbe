package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/testsuite/gputest"
)

// program builds gpu-check as the Makefile does.
func program(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "gpu-check")
	output, err := exec.Command("go", "build", "-ldflags", "-s -w -extldflags=-Wl,-z,lazy", "-o", path, ".").CombinedOutput()
	require.NoError(t, err, "%s", output)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Less(t, info.Size(), int64(64<<20), "it must be small enough to carry")
	return path
}

func run(t *testing.T, program string, variables ...string) (code int, report string) {
	command := exec.Command(program)
	command.Env = append(os.Environ(), variables...)
	output, err := command.CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode(), string(output)
	}
	require.NoError(t, err)
	return right, string(output)
}

func TestTheCheckPassesOnPretendedGPUsAndSaysWhereThereAreNone(t *testing.T) {
	program := program(t)
	bare := []string{"PATH=" + t.TempDir() + ":/usr/bin:/bin", "LD_LIBRARY_PATH=" + t.TempDir()}
	if _, err := exec.LookPath("nvidia-smi"); err != nil {
		code, report := run(t, program, bare...)
		require.Equal(t, noGPU, code, report)
		require.Contains(t, report, "no GPU here")
	}
	driver := gputest.NewDriver(t, gputest.Some(3)...)
	pretended := []string{"PATH=" + driver.Smi() + ":/usr/bin:/bin", "LD_LIBRARY_PATH=" + driver.Library()}
	code, report := run(t, program, pretended...)
	require.Equal(t, right, code, report)
	require.Contains(t, report, "3 trials have 3 different GPUs")
	require.Contains(t, report, "NVML and nvidia-smi tell the same")
	t.Log(report)
}

func TestTheCheckFailsWhereTheTwoDoNotAgree(t *testing.T) {
	one, other := gputest.NewDriver(t, gputest.Some(1)...), gputest.NewDriver(t, gputest.Some(2)...)
	code, report := run(t, program(t), "PATH="+one.Smi()+":/usr/bin:/bin", "LD_LIBRARY_PATH="+other.Library())
	require.Equal(t, wrong, code, report)
	require.Contains(t, report, "FAIL  NVML and nvidia-smi tell the same")
}
