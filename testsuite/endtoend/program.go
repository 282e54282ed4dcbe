// Package endtoend runs the real program as its users do and checks it against
// evidence of its own: each test trial appends to a ledger what it really does,
// and processes are looked for in /proc. The program is asked only through its
// contract for scripts.
package endtoend

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/perennial-ml/perennial/testsuite/machine"
	"github.com/stretchr/testify/require"
)

// ProgramVariable names the starter under test; without it `make build` makes one.
const ProgramVariable = "PERENNIAL_STARTER"

// Program returns the path of the starter under test.
func Program(t testing.TB) string {
	path, err := program()
	require.NoError(t, err)
	return path
}

var program = sync.OnceValues(func() (string, error) {
	if path := os.Getenv(ProgramVariable); path != "" {
		return filepath.Abs(path)
	}
	root := Root()
	if out, err := exec.Command("make", "-C", root, "build").CombinedOutput(); err != nil {
		return "", fmt.Errorf("make build: %w\n%s", err, out)
	}
	return filepath.Join(root, "bin", "starter"), nil
})

// Root is the root of this repository.
func Root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(filepath.Dir(filepath.Dir(file)))
}

// Skip leaves a test out where the machine lacks what it needs, loudly; in CI
// that is a failure.
func Skip(t testing.TB, format string, arguments ...any) {
	t.Helper()
	machine.Lacks(t, format, arguments...)
}
