// Package gputest pretends GPUs, for tests on machines that have none: by an
// nvidia-smi of its own on PATH, and by a driver library of its own, built with
// gcc, that real programs open with dlopen.
//
// Both read the same file again at every question, so a test can change what they
// say at any time.
package gputest

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// GPU is a GPU that is pretended.
type GPU struct {
	UUID      string // such as "GPU-11111111-0000-0000-0000-000000000000"
	Name      string
	Memory    int // MiB
	Used      int // MiB
	Processes []int
	MIG       []string // UUIDs of its MIG devices; nil: MIG is off
}

// Driver is a pretended driver.
type Driver struct {
	t         testing.TB
	directory string
}

// UUID is the UUID of the nth GPU that Some pretends.
func UUID(n int) string { return fmt.Sprintf("GPU-%08d-0000-4000-8000-00000000000%d", n, n%10) }

// Some are n idle GPUs.
func Some(n int) []GPU {
	var gpus []GPU
	for i := range n {
		gpus = append(gpus, GPU{UUID: UUID(i), Name: "NVIDIA Test", Memory: 40960, Used: 4})
	}
	return gpus
}

// NewDriver pretends GPUs, in the directory that Smi and Library put files into.
func NewDriver(t testing.TB, gpus ...GPU) *Driver {
	d := &Driver{t: t, directory: t.TempDir()}
	require.NoError(t, os.Chmod(d.directory, 0o755))
	require.NoError(t, os.Chmod(filepath.Dir(d.directory), 0o755)) // other users ask, too
	d.Set(gpus...)
	return d
}

// Set changes what GPUs there are and who uses them.
func (d *Driver) Set(gpus ...GPU) {
	var table strings.Builder
	for _, g := range gpus {
		fmt.Fprintf(&table, "%s|%s|%d|%d|%s|%s|%d\n", g.UUID, g.Name, g.Memory, g.Used, words(g.Processes), strings.Join(g.MIG, " "), len(g.MIG))
	}
	temporary := filepath.Join(d.directory, "gpus.new")
	require.NoError(d.t, os.WriteFile(temporary, []byte(table.String()), 0o644))
	require.NoError(d.t, os.Rename(temporary, filepath.Join(d.directory, "gpus")))
}

func words(pids []int) string { return strings.Trim(fmt.Sprint(pids), "[]") }

//go:embed nvidia-smi.sh
var smi string

// Smi makes an nvidia-smi and returns the directory to put in front of PATH.
func (d *Driver) Smi() string {
	script := strings.ReplaceAll(smi, "@TABLE@", filepath.Join(d.directory, "gpus"))
	require.NoError(d.t, os.WriteFile(filepath.Join(d.directory, "nvidia-smi"), []byte(script), 0o755))
	return d.directory
}

//go:embed library.c.txt
var library string

// Library builds a libnvidia-ml.so.1 and returns the directory for
// LD_LIBRARY_PATH.
func (d *Driver) Library() string {
	source := filepath.Join(d.directory, "library.c")
	require.NoError(d.t, os.WriteFile(source, []byte(library), 0o644))
	directory := filepath.Join(d.directory, "lib")
	require.NoError(d.t, os.MkdirAll(directory, 0o755))
	table := fmt.Sprintf("-DTABLE=%q", filepath.Join(d.directory, "gpus"))
	output, err := exec.Command("gcc", "-shared", "-fPIC", "-Wall", "-Werror", table,
		"-o", filepath.Join(directory, "libnvidia-ml.so.1"), source).CombinedOutput()
	require.NoError(d.t, err, "%s", output)
	return directory
}

// Remove takes the table away: to the library it is as if no driver were loaded.
func (d *Driver) Remove() {
	require.NoError(d.t, os.Remove(filepath.Join(d.directory, "gpus")))
}
