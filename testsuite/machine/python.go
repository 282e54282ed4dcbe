package machine

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// pythons are, for each release of nni that make test installs, the variable that
// names another Python with it, and where make puts its own.
var pythons = map[string]struct{ variable, made string }{
	"3.0":  {"PERENNIAL_TEST_PYTHON", ".venv"},
	"2.10": {"PERENNIAL_TEST_PYTHON_NNI210", ".venv-nni-2.10"},
}

// PythonWithNNI returns the path of an interpreter that has a release of nni, which
// is 3.0 or 2.10.
func PythonWithNNI(t testing.TB, release string) string {
	t.Helper()
	_, file, _, _ := runtime.Caller(0)
	root := filepath.Join(filepath.Dir(file), "..", "..")
	path := cmp.Or(os.Getenv(pythons[release].variable), filepath.Join(root, pythons[release].made, "bin", "python3"))
	if !strings.HasPrefix(nniOf(path), release) {
		Lacks(t, "%s has no nni %s: make .venv/tests makes one, %s names another", path, release, pythons[release].variable)
	}
	return path
}

// versions are those of nni by the path of a Python: to ask takes seconds.
var versions sync.Map

func nniOf(python string) string {
	if known, ok := versions.Load(python); ok {
		return known.(string)
	}
	out, _ := exec.Command(python, "-c", "import nni; print(nni.__version__)").Output() // nothing where there is none
	versions.Store(python, string(out))
	return string(out)
}
