package trialmodule_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/runner/trialmodule"
	"github.com/perennial-ml/perennial/testsuite/machine"
	"github.com/perennial-ml/perennial/trial"
)

// python is a Python of this machine; a nil environment is none but PATH.
type python struct {
	t     *testing.T
	path  string
	entry string // PYTHONPATH's for our module
}

// anyPython is one that need not have nni.
func anyPython(t *testing.T) python {
	path, err := anyPath()
	if err != nil {
		machine.Lacks(t, "there is no python3: %v", err)
	}
	return with(t, path)
}

var anyPath = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("python3", "-c", "import sys; print(sys.executable)").Output()
	return strings.TrimSpace(string(out)), err
})

func with(t *testing.T, path string) python {
	entry, err := trialmodule.Install(t.TempDir())
	require.NoError(t, err)
	return python{t, path, entry}
}

func realNNIs(t *testing.T, test func(t *testing.T, p python)) {
	t.Run("3.0", func(t *testing.T) {
		test(t, with(t, machine.PythonWithNNI(t, "3.0")))
	})
	t.Run("2.10", func(t *testing.T) {
		test(t, with(t, machine.PythonWithNNI(t, "2.10")))
	})
}

// command runs Python as the runner would, with more variables.
func (p python) command(mode trial.Module, pythonPath string, variables []string, arguments ...string) *exec.Cmd {
	command := exec.Command(p.path, arguments...)
	command.Dir = p.t.TempDir() // Python looks for modules where it starts
	command.Env = append([]string{"PATH=" + os.Getenv("PATH"), "PYTHONWARNINGS=ignore::UserWarning", "PYTHONDONTWRITEBYTECODE=1"}, variables...)
	if mode == trial.ModuleOff {
		return command
	}
	for name, value := range trialmodule.Variables(mode, p.entry, pythonPath) {
		command.Env = append(command.Env, name+"="+value)
	}
	return command
}

// says runs a program by our module as mode has it and returns its output.
func (p python) says(mode trial.Module, program string) string {
	out, err := p.command(mode, "", nil, "-c", program).CombinedOutput()
	require.NoError(p.t, err, "%s", out)
	return strings.TrimSpace(string(out))
}

const parameterFile = `{"parameter_id": 7, "parameter_source": "algorithm", "parameters": {"lr": 5.0, "n": 5, "text": "a # b // \"c"}, "parameter_index": 0}`

// reported is what a trial left behind.
type reported struct{ frames, stdout string }

func (p python) trial(mode trial.Module, platform string, arguments ...string) reported {
	directory := p.t.TempDir()
	require.NoError(p.t, os.WriteFile(filepath.Join(directory, trial.ParameterFile), []byte(parameterFile), 0o600))
	command := p.command(mode, "", []string{
		"NNI_PLATFORM=" + platform, "NNI_EXP_ID=k3v9x2ab", "NNI_TRIAL_JOB_ID=AbCdE", "NNI_TRIAL_SEQ_ID=3",
		"NNI_SYS_DIR=" + directory, "NNI_OUTPUT_DIR=" + directory, "MULTI_PHASE=false", "REUSE_MODE=false",
	}, arguments...)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	stdout, err := command.Output()
	require.NoError(p.t, err, "%s", stderr.String())
	frames, err := os.ReadFile(filepath.Join(directory, ".nni", "metrics"))
	require.NoError(p.t, err)
	return reported{string(frames), string(stdout)}
}

const appendix = `
import nni
nni.get_next_parameter()
nni.report_intermediate_result(0.5)
nni.report_intermediate_result({'default': 0.25, 'a': "it's"})
nni.report_final_result(float('nan'))`

const (
	first  = `{"parameter_id": 7, "trial_job_id": "AbCdE", "type": "PERIODICAL", "sequence": 0, "value": "0.5"}`
	second = `{"parameter_id": 7, "trial_job_id": "AbCdE", "type": "PERIODICAL", "sequence": 1, "value": "{\"default\": 0.25, \"a\": \"it's\"}"}`
	final  = `{"parameter_id": 7, "trial_job_id": "AbCdE", "type": "FINAL", "sequence": 0, "value": "NaN"}`
)

func TestTheBytesOfBothChannelsAreTheGoldenOnes(t *testing.T) {
	p := anyPython(t)
	local := p.trial(trial.ModuleBuiltin, "local", "-c", appendix)
	require.Equal(t, "ME000098"+first+"\nME000131"+second+"\nME000093"+final+"\n", local.frames)
	require.Empty(t, local.stdout)
	remote := p.trial(trial.ModuleBuiltin, "remote", "-c", appendix)
	require.Empty(t, remote.frames)
	require.Equal(t, "NNISDK_MEb'"+first+"'\nNNISDK_MEb'"+second+"'\nNNISDK_MEb'"+final+"'\n", remote.stdout)
}

func TestEverythingATrialDoesComesOutAsByTheRealNNI(t *testing.T) {
	realNNIs(t, func(t *testing.T, p python) {
		program, err := filepath.Abs("testdata/report.py")
		require.NoError(t, err)
		for _, platform := range []string{"local", "remote"} {
			theirs := p.trial(trial.ModuleOff, platform, program)
			ours := p.trial(trial.ModuleBuiltin, platform, program)
			requireSameLines(t, theirs.frames, ours.frames)
			requireSameLines(t, theirs.stdout, ours.stdout)
			require.Greater(t, strings.Count(ours.frames+ours.stdout, "PERIODICAL"), 40)
		}
	})
}

// requireSameLines shows the one line that differs, short enough to be read.
func requireSameLines(t *testing.T, want, got string) {
	wanted, all := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(wanted), len(all)) {
		if wanted[i] != all[i] {
			require.Equal(t, fmt.Sprintf("%.400s", wanted[i]), fmt.Sprintf("%.400s", all[i]))
			require.FailNow(t, "two long lines differ", "line %d", i+1)
		}
	}
	require.Len(t, all, len(wanted))
}

func TestATrialRunByHandSaysWhatTheRealNNISays(t *testing.T) {
	const program = `
import nni, warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter('always')
    print(nni.get_next_parameter(), nni.get_experiment_id(), nni.get_trial_id(), nni.get_sequence_id())
print([(one.category, str(one.message)) for one in caught])
nni.report_intermediate_result(0.25)
nni.report_intermediate_result(0.5)
nni.silence_stdout()
nni.report_intermediate_result(0.75)
nni.report_final_result(1)`
	clock := regexp.MustCompile(`\[[-0-9]+ [:0-9]+\]`)
	realNNIs(t, func(t *testing.T, p python) {
		theirs, ours := p.says(trial.ModuleOff, program), p.says(trial.ModuleBuiltin, program)
		require.Equal(t, clock.ReplaceAllString(theirs, "[now]"), clock.ReplaceAllString(ours, "[now]"))
		require.Contains(t, ours, "Intermediate result: 0.5  (Index 1)")
		require.NotContains(t, ours, "0.75")
	})
}

func TestAnInstalledNNIWinsAndNothingOfOursIsLeft(t *testing.T) {
	const program = `
import nni, importlib, os, pickle, sys
from nni.utils import OptimizeMode
site = os.path.dirname(os.path.dirname(nni.__file__))
assert os.path.basename(site) == 'site-packages', site
assert nni.__spec__.origin == nni.__file__ and nni.__path__ == [os.path.dirname(nni.__file__)]
assert all(one.__file__.startswith(site) for name, one in sys.modules.items() if name.split('.')[0] == 'nni')
assert os.environ['PYTHONPATH'] not in sys.path
assert pickle.loads(pickle.dumps(OptimizeMode.Minimize)) is OptimizeMode.Minimize
assert importlib.reload(nni) is nni and sys.modules['nni'] is nni
import nni.tools.nnictl.nnictl, nni.experiment
print(nni.__version__)`
	realNNIs(t, func(t *testing.T, p python) {
		require.Contains(t, []string{"3.0", "2.10"}, p.says(trial.ModuleAuto, program))
		out, err := p.command(trial.ModuleAuto, "", nil, "-m", "nni", "--help").CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), "--exp_params")
		require.Equal(t, "3.0+perennial", p.says(trial.ModuleBuiltin, "import nni; print(nni.__version__)"))
	})
}

func TestTheCallsOfTrialsTakeWhatTheRealNNIsTake(t *testing.T) {
	const program = `
import inspect, nni, nni.utils
calls = [getattr(nni, name) for name in nni.trial.__all__]
calls += [nni.dump, nni.load, nni.trace, nni.silence_stdout, nni.enable_global_logging, nni.NoMoreTrialError]
calls += [nni.trial.overwrite_intermediate_seq, nni.utils.merge_parameter, nni.utils.extract_scalar_reward, nni.utils.extract_scalar_history]
for call in calls:
    print(call.__name__, *[(one.name, one.kind, one.default) for one in inspect.signature(call).parameters.values() if one.kind != one.VAR_KEYWORD])`
	realNNIs(t, func(t *testing.T, p python) {
		require.Equal(t, p.says(trial.ModuleOff, program), p.says(trial.ModuleBuiltin, program))
	})
}

// modules makes a directory with files in it, for PYTHONPATH.
func modules(t *testing.T, files map[string]string) string {
	directory := t.TempDir()
	for name, content := range files {
		path := filepath.Join(directory, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	}
	return directory
}

// installed runs a program with files that stand where those of installed
// packages stand: behind our module.
func (p python) installed(files map[string]string, arguments ...string) (string, error) {
	// Builtin's order with auto's mode: ours comes first, and looks behind itself.
	variables := trialmodule.Variables(trial.ModuleBuiltin, p.entry, modules(p.t, files))
	command := exec.Command(p.path, arguments...)
	command.Dir = p.t.TempDir()
	command.Env = []string{"PATH=" + os.Getenv("PATH"), "PYTHONPATH=" + variables["PYTHONPATH"], "PERENNIAL_TRIAL_MODULE=auto"}
	out, err := command.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func TestAnNNIBehindOursIsTheOneThatIsImported(t *testing.T) {
	out, err := anyPython(t).installed(map[string]string{"nni/__init__.py": "word = 'theirs'", "nni/deep.py": "import nni; word = nni.word"},
		"-c", "import nni.deep; print(nni.deep.word)")
	require.NoError(t, err, out)
	require.Equal(t, "theirs", out)
}

func TestADirectoryThatHappensToBeCalledNNIIsNoNNI(t *testing.T) {
	out, err := anyPython(t).installed(map[string]string{"nni/experiment.yml": ""}, "-c", "import nni; print(nni.__version__)")
	require.NoError(t, err, out)
	require.Equal(t, "3.0+perennial", out)
}

func TestAnNNIThatCannotBeImportedFailsWithAdvice(t *testing.T) {
	p := anyPython(t)
	for _, content := range []string{"import numpy_of_old", "from nni import absent", "raise SystemError('old')", "1 +"} {
		out, err := p.installed(map[string]string{"nni/__init__.py": content}, "-c", "import nni")
		require.Error(t, err, content)
		require.Contains(t, out, `write "trialModule: builtin" into experiment.yml`, content)
		require.Contains(t, out, "Error", content)
	}
	out, err := p.installed(map[string]string{"nni/__init__.py": "import numpy_of_old"}, "-c", `
for i in range(2):
    try:
        import nni
    except ImportError as error:
        print(i, error.name)`)
	require.NoError(t, err, out)
	require.Contains(t, out, "0 numpy_of_old")
	require.Contains(t, out, "1 numpy_of_old", "a second try must not end with another module")
}

func TestAnEditableInstallWins(t *testing.T) {
	const program = `
import importlib.util, sys
class Editable:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == 'nni':
            return importlib.util.spec_from_file_location(name, sys.argv[1] + '/source/__init__.py')
sys.meta_path.append(Editable)
import nni
print(nni.word)`
	p := anyPython(t)
	source := modules(t, map[string]string{"source/__init__.py": "word = 'edited'"})
	out, err := p.command(trial.ModuleAuto, "", nil, "-c", program, source).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, "edited\n", string(out))
}

func TestAFileOfTheUsersCalledNNIWins(t *testing.T) {
	p := anyPython(t)
	code := modules(t, map[string]string{"nni.py": "word = 'mine'", "train.py": "import nni; print(nni.word)"})
	for _, mode := range []trial.Module{trial.ModuleAuto, trial.ModuleBuiltin} {
		out, err := p.command(mode, "", nil, filepath.Join(code, "train.py")).CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Equal(t, "mine\n", string(out))
	}
}

func TestThePathsOfTheUsersComeFirstUnlessOursIsAskedFor(t *testing.T) {
	require.Equal(t, "/a:/b:/ours", trialmodule.Variables(trial.ModuleAuto, "/ours", "/a:/b")["PYTHONPATH"])
	require.Equal(t, "/ours:/a:/b", trialmodule.Variables(trial.ModuleBuiltin, "/ours", "/a:/b")["PYTHONPATH"])
	require.Equal(t, "/ours", trialmodule.Variables(trial.ModuleAuto, "/ours", "")["PYTHONPATH"], "no working directory comes in by the way")
	p := anyPython(t)
	theirs := modules(t, map[string]string{"nni.py": "__version__ = 'theirs'"})
	for mode, want := range map[trial.Module]string{trial.ModuleAuto: "theirs", trial.ModuleBuiltin: "3.0+perennial"} {
		out, err := p.command(mode, theirs, nil, "-c", "import nni; print(nni.__version__)").CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Equal(t, want+"\n", string(out))
	}
}

func TestATrialThatStartsBesideACopyOfOursDoesNotTakeItForNNI(t *testing.T) {
	p := anyPython(t)
	command := p.command(trial.ModuleAuto, "", nil, "-c", "import nni; print(nni.__version__)")
	command.Dir = p.entry
	out, err := command.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, "3.0+perennial\n", string(out))
}

func TestAPythonThatHeedsNoVariablesHasNothingOfOurs(t *testing.T) {
	p := anyPython(t)
	for _, flag := range []string{"-I", "-E"} {
		out, err := p.command(trial.ModuleBuiltin, "", nil, flag, "-S", "-c", "import nni").CombinedOutput()
		require.Error(t, err)
		require.Contains(t, string(out), "No module named 'nni'")
	}
	out, err := p.command(trial.ModuleAuto, "", nil, "-S", "-c", "import nni; print(nni.__version__)").CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, "3.0+perennial\n", string(out), "without site-packages nothing is installed")
}

func TestEveryPythonOfThisMachineImportsOurs(t *testing.T) {
	names := []string{"python3"}
	for minor := 8; minor <= 20; minor++ {
		names = append(names, fmt.Sprint("python3.", minor))
	}
	tested := 0
	for _, name := range names {
		path, err := exec.LookPath(name)
		if err != nil || exec.Command(path, "-c", "").Run() != nil {
			continue
		}
		tested++
		p := with(t, path)
		require.Equal(t, "3.0+perennial 3", p.says(trial.ModuleBuiltin, "import nni, nni.utils; print(nni.__version__, nni.utils.merge_parameter({'a': 1}, {'a': 3})['a'])"), name)
		require.Equal(t, "ME000098", p.trial(trial.ModuleBuiltin, "local", "-c", appendix).frames[:8], name)
		out, err := p.installed(map[string]string{"nni.py": "print('theirs')"}, "-c", "import nni")
		require.NoError(t, err, out)
		require.Equal(t, "theirs", out, name)
	}
	require.Positive(t, tested)
}

func TestAPythonThatIsTooOldIsTold(t *testing.T) {
	for _, name := range []string{"python2.7", "python3.6", "python3.7"} {
		path, err := exec.LookPath(name)
		if err != nil || exec.Command(path, "-c", "").Run() != nil {
			continue // few machines have one; the shim's syntax is what matters, and it is checked below
		}
		out, err := with(t, path).command(trial.ModuleBuiltin, "", nil, "-c", "import nni").CombinedOutput()
		require.Error(t, err)
		require.Contains(t, string(out), "needs Python 3")
		require.NotContains(t, string(out), "SyntaxError")
	}
	content, err := os.ReadFile("nni/__init__.py")
	require.NoError(t, err)
	require.NotRegexp(t, `\bf'|\bf"|:=|async |nonlocal | -> `, string(content), "every Python must be able to read the shim")
}

func TestWhatOursHasNotSaysSoAndWhatToDo(t *testing.T) {
	const program = `
import sys
for line in sys.argv[1:]:
    try:
        exec(line)
    except Exception as error:
        print('%s: %s' % (type(error).__name__, error))
    else:
        print('nothing')
`
	programs := [][2]string{
		{"import nni; nni.Experiment", "AttributeError: nni.Experiment"},
		{"import nni; nni.utils.OptimizeMode", "AttributeError: nni.utils.OptimizeMode"},
		{"from nni import Experiment", "ImportError: nni.Experiment"},
		{"from nni.utils import OptimizeMode", "ImportError: nni.utils.OptimizeMode"},
		{"from nni.trial import absent", "ImportError: nni.trial.absent"},
		{"import nni.experiment", "ImportError: nni.experiment"},
		{"from nni.experiment import Experiment", "ImportError: nni.experiment"},
		{"import nni.nas.nn.pytorch", "ImportError: nni.nas"},
		{"from nni.tuner import Tuner", "ImportError: nni.tuner"},
		{"from nni.compression.pytorch import L1NormPruner", "ImportError: nni.compression"},
		{"from nni.algorithms.hpo.hyperopt_tuner import HyperoptTuner", "ImportError: nni.algorithms"},
	}
	p := anyPython(t)
	arguments := []string{"-c", program}
	for _, one := range programs {
		arguments = append(arguments, one[0])
	}
	out, err := p.command(trial.ModuleBuiltin, "", nil, arguments...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	answers := strings.Split(strings.TrimSpace(string(out)), "\n")
	require.Len(t, answers, len(programs))
	for i, one := range programs {
		require.Contains(t, answers[i], one[1]+" is not in Perennial's trial module", one[0])
		require.Contains(t, answers[i], "pip install nni into the Python that runs the trial ("+p.path+")", one[0])
		require.Contains(t, answers[i], `remove "trialModule: builtin"`, one[0])
	}
	require.Equal(t, "False", p.says(trial.ModuleBuiltin, "import nni; print(hasattr(nni, 'Experiment'))"))
}

func TestImportingOursImportsLittle(t *testing.T) {
	out := anyPython(t).says(trial.ModuleBuiltin, `
import sys
before = set(sys.modules)
import nni
print(*sorted(name for name in set(sys.modules) - before if name.split('.')[0] not in ('nni', 'json', '_json')))`)
	for _, name := range strings.Fields(out) {
		require.Regexp(t, `^(re|_sre|sre_\w+|re\.\w+|enum|functools|_functools|collections\S*|_collections\S*|operator|_operator|keyword|reprlib|copyreg|types|itertools|heapq|_heapq|_weakref\w*)$`, name)
	}
}

func TestManyThreadsAndSpawnedProcessesImportOneModule(t *testing.T) {
	code := modules(t, map[string]string{"train.py": `
import multiprocessing, threading
seen = []
def see():
    import nni
    seen.append(nni.word)
def child(queue):
    import nni
    queue.put(nni.word)
if __name__ == '__main__':
    threads = [threading.Thread(target=see) for _ in range(16)]
    [one.start() for one in threads]
    [one.join() for one in threads]
    print(len(seen), set(seen))
    context = multiprocessing.get_context('spawn')
    queue = context.Queue()
    process = context.Process(target=child, args=(queue,))
    process.start()
    print(queue.get(timeout=60))
    process.join()`})
	out, err := anyPython(t).installed(map[string]string{"nni/__init__.py": "import time; time.sleep(0.2); word = 'theirs'"}, filepath.Join(code, "train.py"))
	require.NoError(t, err, out)
	require.Equal(t, "16 {'theirs'}\ntheirs", out)
}

func TestProcessesOfOneTrialNeverMixTheirFrames(t *testing.T) {
	frames := anyPython(t).trial(trial.ModuleBuiltin, "local", "-c", `
import nni, os
nni.get_next_parameter()
for _ in range(3):
    os.fork()
for i in range(200):
    nni.report_intermediate_result(i)
nni.report_final_result('x' * 900000)
while True:
    try:
        os.wait()
    except ChildProcessError:
        break`).frames
	require.Equal(t, 8*200, strings.Count(frames, `"PERIODICAL"`))
	require.Len(t, regexp.MustCompile(`(?m)^ME\d{6}\{.*\}$`).FindAllString(frames, -1), 8*201)
}

func TestParametersThatOnlyNNICanReadAreRefusedWithAdvice(t *testing.T) {
	p := anyPython(t)
	directory := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(directory, trial.ParameterFile), []byte(`{"parameter_id": 1, "parameters": {"w": {"__ndarray__": [1.0], "dtype": "float64", "shape": [1]}}}`), 0o600))
	out, err := p.command(trial.ModuleBuiltin, "", []string{"NNI_PLATFORM=local", "NNI_SYS_DIR=" + directory, "NNI_OUTPUT_DIR=" + directory},
		"-c", "import nni; nni.get_next_parameter()").CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "a value that only nni itself reads (__ndarray__): pip install nni")
}

func TestTheModuleIsInstalledOnceAndMended(t *testing.T) {
	directory := t.TempDir()
	entry, err := trialmodule.Install(directory)
	require.NoError(t, err)
	file := filepath.Join(entry, "nni", "trial.py")
	before, err := os.Stat(file)
	require.NoError(t, err)
	again, err := trialmodule.Install(directory)
	require.NoError(t, err)
	after, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, entry, again)
	require.True(t, os.SameFile(before, after), "a sound file was written anew")

	require.NoError(t, os.WriteFile(file, []byte("half"), 0o600))
	require.NoError(t, os.Remove(filepath.Join(entry, "nni", "utils.py")))
	_, err = trialmodule.Install(directory)
	require.NoError(t, err)
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Contains(t, string(content), "def get_next_parameter")
	require.FileExists(t, filepath.Join(entry, "nni", "utils.py"))
}

func TestManyRunnersInstallAtOnce(t *testing.T) {
	directory := t.TempDir()
	var installs sync.WaitGroup
	for range 20 {
		installs.Go(func() {
			entry, err := trialmodule.Install(directory)
			if err == nil {
				_, err = os.Stat(filepath.Join(entry, "nni", "version.py"))
			}
			require.NoError(t, err)
		})
	}
	installs.Wait()
	left, err := filepath.Glob(filepath.Join(directory, "*", "nni", ".new-*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestWhereOnePlaceCannotTakeTheModuleTheNextOneDoes(t *testing.T) {
	directory := t.TempDir()
	file := filepath.Join(directory, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	colon := filepath.Join(directory, "a:b")
	entry, err := trialmodule.Install(file, colon, directory)
	require.NoError(t, err)
	require.Equal(t, directory, filepath.Dir(entry))
	require.NoDirExists(t, colon)
	_, err = trialmodule.Install(file, colon)
	require.ErrorContains(t, err, "not a directory")
	require.ErrorContains(t, err, "holds a colon")
}
