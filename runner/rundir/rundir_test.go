package rundir

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/perennial-ml/perennial/trial"
)

// behaviourVariable makes the test binary behave as another program.
const behaviourVariable = "RUNDIR_TEST_BEHAVIOUR"

func TestMain(m *testing.M) {
	switch os.Getenv(behaviourVariable) {
	case "":
		os.Exit(m.Run())
	case "crash":
		CrashPoint("other")
		CrashPoint("here")
	case "inherit":
		inherit()
	case "limits":
		printLimits()
	}
}

// inherit is a runner: it takes the claim over, starts a process that outlives it,
// says so and waits to be killed.
func inherit() {
	if _, err := (Run{Directory: os.Args[1]}).InheritedClaim(); err != nil {
		fmt.Println(err)
		return
	}
	child := exec.Command("sleep", "3600")
	fmt.Println(child.Start(), child.Process.Pid)
	select {}
}

func printLimits() {
	environment, err := ReadEnvironment(os.Args[1])
	if err == nil {
		err = environment.Apply()
	}
	output, _ := exec.Command("sh", "-c", "umask; ulimit -n; ulimit -c").Output()
	fmt.Println(err, strings.Fields(string(output)))
}

// behave returns the test binary as another program.
func behave(t *testing.T, behaviour string, arguments ...string) *exec.Cmd {
	executable, err := os.Executable()
	require.NoError(t, err)
	command := exec.Command(executable, arguments...)
	command.Env = append(os.Environ(), behaviourVariable+"="+behaviour)
	return command
}

func newRun(t *testing.T) Run { return Run{Directory: t.TempDir()} }

var key = trial.Key{Experiment: "abcdefgh", Sequence: 7, Attempt: 2}

func TestOnlyOneHoldsTheClaimAndLookingDoesNotTakeIt(t *testing.T) {
	run := newRun(t)
	held, err := run.Held()
	require.NoError(t, err)
	require.False(t, held)
	claim, err := run.Acquire()
	require.NoError(t, err)
	for range 3 {
		held, err = run.Held()
		require.NoError(t, err)
		require.True(t, held)
	}
	_, err = run.Acquire()
	require.ErrorIs(t, err, ErrHeld)
	require.NoError(t, claim.Close())
	held, err = run.Held()
	require.NoError(t, err)
	require.False(t, held)
	again, err := run.Acquire()
	require.NoError(t, err)
	require.NoError(t, again.Close())
}

func TestTheClaimMayLieElsewhere(t *testing.T) {
	run := newRun(t)
	run.Claim = filepath.Join(t.TempDir(), "claims", "one")
	claim, err := run.Acquire()
	require.NoError(t, err)
	defer claim.Close()
	require.FileExists(t, run.Claim)
	require.NoFileExists(t, run.Path(ClaimFile))
}

// startRunner returns a process that holds the claim alone, and its child's pid.
func startRunner(t *testing.T, run Run) (*exec.Cmd, int) {
	claim, err := run.Acquire()
	require.NoError(t, err)
	runner := behave(t, "inherit", run.Directory)
	runner.ExtraFiles = []*os.File{claim}
	output, err := runner.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, runner.Start())
	var fault string
	var child int
	_, err = fmt.Fscan(output, &fault, &child)
	require.NoError(t, err)
	require.Equal(t, "<nil>", fault)
	require.NoError(t, claim.Close())
	t.Cleanup(func() { unix.Kill(child, unix.SIGKILL) })
	return runner, child
}

func TestAHandedOverClaimLivesAndDiesWithItsRunnerNotWithTheTrial(t *testing.T) {
	run := newRun(t)
	runner, child := startRunner(t, run)
	held, err := run.Held()
	require.NoError(t, err)
	require.True(t, held, "the submitter's end must not free it")
	require.NoError(t, runner.Process.Kill())
	runner.Wait()
	require.NoError(t, unix.Kill(child, 0), "the trial's process still lives")
	held, err = run.Held()
	require.NoError(t, err)
	require.False(t, held, "the trial must not inherit it")
}

func TestARunnerWithoutTheClaimIsRefused(t *testing.T) {
	run := newRun(t)
	require.NoError(t, os.WriteFile(run.Path(ClaimFile), nil, 0o600))
	other, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer other.Close()
	runner := behave(t, "inherit", run.Directory)
	runner.ExtraFiles = []*os.File{other}
	output, err := runner.Output()
	require.NoError(t, err)
	require.Contains(t, string(output), "is not the claim")
}

func TestTheFirstOfManyIntentsWins(t *testing.T) {
	run := newRun(t)
	none, err := run.ReadIntent()
	require.NoError(t, err)
	require.Nil(t, none)
	var group sync.WaitGroup
	winners := make([]trial.Intent, 8)
	for i := range winners {
		group.Go(func() {
			winners[i], _ = run.WriteIntent(trial.Intent{Cause: trial.CauseUser, Decision: strconv.Itoa(i)})
		})
	}
	group.Wait()
	first, err := run.ReadIntent()
	require.NoError(t, err)
	for _, winner := range winners {
		require.Equal(t, *first, winner)
	}
	require.Equal(t, []string{IntentFile}, names(t, run.Directory), "no temporary file stays")
}

func names(t *testing.T, directory string) []string {
	entries, err := os.ReadDir(directory)
	require.NoError(t, err)
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

func TestRecordsAreReadAsTheyWereWritten(t *testing.T) {
	run := newRun(t)
	moment := time.Now().UTC().Round(0)
	spec := Spec{Format: Format, Key: key, Command: "echo 'ü'", GPUs: new(int), Grace: time.Second}
	require.NoError(t, run.WriteSpec(spec))
	readSpec, err := run.ReadSpec()
	require.NoError(t, err)
	require.Equal(t, spec, readSpec)
	exit := ExitRecord{Format: Format, Exit: trial.Exit{Code: 3}, Ended: moment, Intent: &trial.Intent{Cause: trial.CauseStop}}
	require.NoError(t, run.WriteExit(exit))
	readExit, err := run.ReadExit()
	require.NoError(t, err)
	require.Equal(t, &exit, readExit)
	process, err := ThisProcess()
	require.NoError(t, err)
	process.Started, process.Tree = moment, []Identity{{PID: 5, Start: 6}}
	require.NoError(t, run.WriteProcess(process))
	readProcess, err := run.ReadProcess()
	require.NoError(t, err)
	require.Equal(t, &process, readProcess)
}

func TestTheExitRecordIsWrittenIntoWhatWasReservedForIt(t *testing.T) {
	run := newRun(t)
	require.NoError(t, run.Reserve())
	room, err := os.Stat(run.Path(ReserveFile))
	require.NoError(t, err)
	require.NoError(t, run.WriteExit(ExitRecord{Exit: trial.Exit{Code: 3}}))
	written, err := os.Stat(run.Path(ExitFile))
	require.NoError(t, err)
	require.True(t, os.SameFile(room, written))
	content, err := os.ReadFile(run.Path(ExitFile))
	require.NoError(t, err)
	require.True(t, json.Valid(content), "%q", content)
	require.NoFileExists(t, run.Path(ReserveFile))

	require.NoError(t, run.WriteExit(ExitRecord{Exit: trial.Exit{Code: 4}}), "nothing is reserved any more")
	exit, err := run.ReadExit()
	require.NoError(t, err)
	require.Equal(t, 4, exit.Exit.Code)
}

func TestABrokenExitRecordCountsAsNoneAndABrokenProcessRecordAsBegun(t *testing.T) {
	for _, content := range []string{"", "{", "null", `{"format": "x"}`, `{"exit": {"code": 0}}`} {
		run := newRun(t)
		require.NoError(t, os.WriteFile(run.Path(ExitFile), []byte(content), 0o600))
		require.NoError(t, os.WriteFile(run.Path(ProcessFile), []byte(content), 0o600))
		exit, err := run.ReadExit()
		require.NoError(t, err, content)
		require.Nil(t, exit, content)
		seen, err := run.Observe()
		require.NoError(t, err)
		require.True(t, seen.Begun() && seen.Over(), content)
	}
}

func TestARecordOfANewerVersionIsRefused(t *testing.T) {
	run := newRun(t)
	require.NoError(t, os.WriteFile(run.Path(ExitFile), []byte(`{"format": 2}`), 0o600))
	_, err := run.ReadExit()
	require.ErrorContains(t, err, "use a newer starter")
}

func TestAReaderNeverSeesHalfAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	rapid.Check(t, func(t *rapid.T) {
		contents := rapid.SliceOfN(rapid.StringN(1, 50, -1), 1, 4).Draw(t, "contents")
		allowed := map[string]bool{}
		if before, err := os.ReadFile(path); err == nil {
			allowed[string(before)] = true
		}
		var group sync.WaitGroup
		for _, content := range contents {
			allowed[content] = true
			group.Go(func() { WriteFile(path, []byte(content), 0o600) })
		}
		for range 10 {
			if content, err := os.ReadFile(path); err == nil && !allowed[string(content)] {
				t.Fatalf("read %q", content)
			}
		}
		group.Wait()
	})
	require.Equal(t, []string{"file"}, names(t, filepath.Dir(path)))
}

// state is which of a run's files are there, and what follows from them.
type state struct {
	held, process, exit, intent bool
	begun, over                 bool
}

var states = map[string]state{
	"nothing":                     {},
	"claimed":                     {held: true},
	"cancelled before it began":   {intent: true, over: true},
	"cancelled while it starts":   {held: true, intent: true},
	"running":                     {held: true, process: true, begun: true},
	"lost":                        {process: true, begun: true, over: true},
	"writing its exit record":     {held: true, process: true, exit: true, begun: true},
	"ended":                       {process: true, exit: true, begun: true, over: true},
	"ended without process":       {exit: true, begun: true, over: true},
	"lost with an intent":         {process: true, intent: true, begun: true, over: true},
	"running and being cancelled": {held: true, process: true, intent: true, begun: true},
}

func TestARunIsWhatItsClaimAndFilesSay(t *testing.T) {
	for name, state := range states {
		t.Run(name, func(t *testing.T) {
			run := newRun(t)
			state.make(t, run)
			seen, err := run.Observe()
			require.NoError(t, err)
			require.Equal(t, state, stateOf(seen))
		})
	}
}

func (s state) make(t *testing.T, run Run) {
	if s.held {
		claim, err := run.Acquire()
		require.NoError(t, err)
		t.Cleanup(func() { claim.Close() })
	}
	if s.process {
		require.NoError(t, run.WriteProcess(Process{}))
	}
	if s.exit {
		require.NoError(t, run.WriteExit(ExitRecord{}))
	}
	if s.intent {
		_, err := run.WriteIntent(trial.Intent{Cause: trial.CauseUser})
		require.NoError(t, err)
	}
}

func stateOf(seen Observation) state {
	return state{held: seen.Held, process: seen.Process != nil, exit: seen.Exit != nil,
		intent: seen.Intent != nil, begun: seen.Begun(), over: seen.Over()}
}

func TestACrashPointKillsByItsNameOnly(t *testing.T) {
	harmless := behave(t, "crash")
	harmless.Env = append(harmless.Env, CrashVariable+"=elsewhere")
	require.NoError(t, harmless.Run())
	deadly := behave(t, "crash")
	deadly.Env = append(deadly.Env, CrashVariable+"=here")
	var exit *exec.ExitError
	require.ErrorAs(t, deadly.Run(), &exit)
	require.Equal(t, syscall.SIGKILL, exit.Sys().(syscall.WaitStatus).Signal())
	once := filepath.Join(t.TempDir(), "crashed")
	for _, dies := range []bool{true, false} {
		some := behave(t, "crash")
		some.Env = append(some.Env, CrashVariable+"=here:"+once)
		require.Equal(t, dies, some.Run() != nil)
	}
	stalled := behave(t, "crash")
	stalled.Env = append(stalled.Env, CrashVariable+"=here:stall")
	require.NoError(t, stalled.Start())
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- stalled.Wait() }()
	select {
	case err := <-ended:
		t.Fatalf("it did not stall: %v", err)
	case <-ctx.Done():
	}
	require.NoError(t, stalled.Process.Kill())
	<-ended
}

func TestTheCallersEnvironmentIsKeptFromOthersAndRestored(t *testing.T) {
	path := filepath.Join(t.TempDir(), "environment.json")
	captured, err := CaptureEnvironment()
	require.NoError(t, err)
	require.Equal(t, os.Environ(), captured.Variables)
	require.Contains(t, captured.Limits, "nofile")
	captured.Umask = 0o027
	captured.Limits["nofile"] = Limit{Soft: 77}
	captured.Limits["core"] = Limit{Soft: 0}
	captured.Limits["unknown"] = Limit{Soft: 1}
	require.NoError(t, WriteEnvironment(path, captured))
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	output, err := behave(t, "limits", path).Output()
	require.NoError(t, err)
	require.Equal(t, "<nil> [0027 77 0]\n", string(output))
}

func TestZeroGPUsAreHiddenAndUnsetOnesAreLeftAlone(t *testing.T) {
	spec := Spec{Key: key, NNIPlatform: "local", Directories: trial.Directories{System: "/s", Output: "/o", Code: "/c"}}
	require.NotContains(t, spec.Variables(), "CUDA_VISIBLE_DEVICES")
	spec.GPUs = new(int)
	variables := spec.Variables()
	require.Equal(t, "-1", variables["CUDA_VISIBLE_DEVICES"])
	require.Equal(t, "/s", variables["NNI_SYS_DIR"])
	require.Equal(t, key.String(), variables[trial.VarRun])
}

func TestShIsUsedWhereThereIsNoBash(t *testing.T) {
	require.Equal(t, "/bin/sh", firstShell("/nonexistent/bash", "/bin/sh"))
	require.FileExists(t, Shell())
}

func TestARecordOfAnotherMachineIsRecognised(t *testing.T) {
	require.False(t, Process{}.Elsewhere())
	require.False(t, Process{MachineID: machineID()}.Elsewhere())
	if machineID() != "" {
		require.True(t, Process{MachineID: "another"}.Elsewhere())
	}
}

func TestObserversDoNotTakeEachOtherForARunner(t *testing.T) {
	run := newRun(t)
	claim, err := run.Acquire()
	require.NoError(t, err)
	require.NoError(t, claim.Close())
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 500 {
				if held, err := run.Held(); held || err != nil {
					t.Errorf("held %v, error %v", held, err)
					return
				}
			}
		})
	}
	group.Wait()
}
