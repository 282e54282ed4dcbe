package runner_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/metrics"
	"github.com/perennial-ml/perennial/runner/rundir"
	"github.com/perennial-ml/perennial/trial"
)

const patience = 30 * time.Second

var binary string

func TestMain(m *testing.M) {
	os.Exit(withBinary(m.Run))
}

func withBinary(run func() int) int {
	directory, err := os.MkdirTemp("", "perennial-runner-test")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(directory)
	binary = filepath.Join(directory, "perennial-runner")
	build := exec.Command("go", "build", "-o", binary, "./perennial-runner")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		panic(err)
	}
	return run()
}

// attempt is one attempt under a real runner.
type attempt struct {
	rundir.Run
	t      *testing.T
	spec   rundir.Spec
	runner *exec.Cmd
	exited chan error
	// credential is another user's; nil: our own.
	credential *syscall.Credential
	prefix     []string // of the runner's command
	owned      bool     // its files are to be that user's
}

func newAttempt(t *testing.T, command string) *attempt {
	root := t.TempDir()
	directories := trial.Directories{System: filepath.Join(root, "run"), Output: filepath.Join(root, "run"), Code: filepath.Join(root, "code")}
	require.NoError(t, os.Mkdir(directories.Code, 0o700))
	require.NoError(t, os.Mkdir(directories.System, 0o700))
	key := trial.Key{Experiment: fmt.Sprintf("t%07d", os.Getpid()%10_000_000), Sequence: int(time.Now().UnixNano() % 1_000_000), Attempt: 1}
	a := &attempt{Run: rundir.Run{Directory: directories.System}, t: t, exited: make(chan error, 1)}
	a.spec = rundir.Spec{Key: key, Command: command, Shell: rundir.Shell(), Directories: directories, NNIPlatform: "local", Grace: 5 * time.Second}
	return a
}

// begin starts the runner as a submitter does.
func (a *attempt) begin(variables ...string) *attempt {
	require.NoError(a.t, a.WriteSpec(a.spec))
	claim, err := a.Acquire()
	require.NoError(a.t, err)
	defer claim.Close()
	words := append(slices.Clone(a.prefix), binary, "run", a.Directory)
	a.runner = exec.Command(words[0], words[1:]...)
	a.runner.ExtraFiles = []*os.File{claim}
	a.runner.Env = append(os.Environ(), variables...)
	a.runner.Stderr = os.Stderr
	a.runner.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: a.credential}
	if a.credential != nil || a.owned {
		a.give()
	}
	require.NoError(a.t, a.runner.Start())
	go func() { a.exited <- a.runner.Wait() }()
	a.t.Cleanup(a.clear)
	return a
}

func (a *attempt) clear() {
	a.runner.Process.Kill()
	sweep := exec.Command(binary, "sweep", a.Directory)
	require.Eventually(a.t, func() bool { held, err := a.Held(); return err == nil && !held }, patience, time.Millisecond)
	require.NoError(a.t, sweep.Run())
}

// end waits for the runner's end and returns the exit record.
func (a *attempt) end() rundir.ExitRecord {
	a.gone()
	exit, err := a.ReadExit()
	require.NoError(a.t, err)
	require.NotNil(a.t, exit, "the runner left no exit record")
	left, err := a.Processes(a.spec.Key)
	require.NoError(a.t, err)
	require.Empty(a.t, left, "processes are left beside an exit record")
	return *exit
}

func (a *attempt) gone() {
	select {
	case <-a.exited:
	case <-time.After(patience):
		require.FailNow(a.t, "the runner did not end")
	}
}

func (a *attempt) file(name string) string {
	content, err := os.ReadFile(a.Path(name))
	require.NoError(a.t, err)
	return string(content)
}

// waitFor waits until the trial made a file in its code directory, and returns
// its content, which is one line.
func (a *attempt) waitFor(name string) string {
	var content []byte
	require.Eventually(a.t, func() bool {
		content, _ = os.ReadFile(filepath.Join(a.spec.Directories.Code, name))
		return strings.HasSuffix(string(content), "\n")
	}, patience, time.Millisecond, "%s never came", name)
	return strings.TrimSpace(string(content))
}

func (a *attempt) tell(name string) {
	require.NoError(a.t, os.WriteFile(filepath.Join(a.spec.Directories.Code, name), nil, 0o600))
}

func (a *attempt) records() []metrics.Record {
	var all []metrics.Record
	var cursor int64
	for {
		records, after, err := metrics.ReadJournal(a.Path(rundir.JournalFile), cursor)
		require.NoError(a.t, err)
		if len(records) == 0 {
			return all
		}
		all, cursor = append(all, records...), after
	}
}

func (a *attempt) metrics() []string {
	var lines []string
	for i, record := range a.records() {
		require.Equal(a.t, int64(i+1), record.Number)
		lines = append(lines, fmt.Sprint(record.Kind, " ", record.Step, " ", record.Value))
	}
	return lines
}

func (a *attempt) cancel() {
	_, err := a.WriteIntent(trial.Intent{Cause: trial.CauseUser, Decision: "d1"})
	require.NoError(a.t, err)
}

// living tells whether a process is there and no zombie.
func living(pid string) bool {
	content, err := os.ReadFile("/proc/" + pid + "/stat")
	return err == nil && !strings.Contains(string(content), ") Z ")
}

func requireDead(t *testing.T, pid string) {
	_, err := strconv.Atoi(pid)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return !living(pid) }, patience, time.Millisecond, "%s is alive", pid)
}

func TestTheCommandRunsInItsCodeDirectoryAndItsOutputIsKept(t *testing.T) {
	a := newAttempt(t, `pwd; echo oops >&2; exit 7`).begin()
	exit := a.end()
	require.Equal(t, trial.Exit{Code: 7}, exit.Exit)
	require.Nil(t, exit.Intent)
	require.False(t, exit.Started.IsZero())
	require.False(t, exit.Ended.Before(exit.Started))
	require.Equal(t, a.spec.Directories.Code+"\n", a.file(rundir.Stdout))
	require.Equal(t, "oops\n", a.file(rundir.Stderr))
}

const ownTerm = "its runner was not told to end, so the TERM is taken for the trial's own, as of kill 0 in a script"

func TestAShutdownThatReachesTheRunnerAfterItsTrialIsNobodysFault(t *testing.T) {
	a := newAttempt(t, `echo $$ > pid; sleep 1000`).begin()
	require.NoError(t, syscall.Kill(-number(t, a.waitFor("pid")), syscall.SIGTERM))
	require.Eventually(t, func() bool {
		exit, err := a.ReadExit()
		return err == nil && exit != nil
	}, patience, time.Millisecond, "the end is durable before anybody waits for news of a shutdown")
	require.NoError(t, a.runner.Process.Signal(syscall.SIGTERM))
	require.Equal(t, trial.Exit{Code: 143, Signal: "SIGTERM", Outside: true}, a.end().Exit)
}

func TestHowTheCommandEndedIsRecorded(t *testing.T) {
	for command, want := range map[string]trial.Exit{
		"true":                           {Code: 0},
		"exit 255":                       {Code: 255},
		"kill -KILL $$":                  {Code: 137, Signal: "SIGKILL"},
		"kill -SEGV $$":                  {Code: 139, Signal: "SIGSEGV"},
		"sh -c 'kill -9 $$';:":           {Code: 0},
		"no-such-command-here":           {Code: 127},
		"/dev/null":                      {Code: 126},
		"kill -TERM $$":                  {Code: 143, Signal: "SIGTERM", Text: ownTerm},
		"(kill -TERM $BASHPID); exit $?": {Code: 143, Text: ownTerm},
		"trap 'kill 0' EXIT; sleep 9 &":  {Code: 143, Signal: "SIGTERM", Text: ownTerm},
	} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, want, newAttempt(t, command).begin().end().Exit)
		})
	}
}

func TestAMissingCodeDirectoryIsAFailureWithAReason(t *testing.T) {
	a := newAttempt(t, "true")
	require.NoError(t, os.Remove(a.spec.Directories.Code))
	exit := a.begin().end().Exit
	require.Equal(t, 127, exit.Code)
	require.Contains(t, exit.Text, "enter the code directory")
	require.Contains(t, a.file(rundir.Stderr), "no such file or directory")
}

func TestMetricsOfEveryChannelReachTheJournal(t *testing.T) {
	a := newAttempt(t, `
printf 'ME000098{"parameter_id": 7, "trial_job_id": "AbCdE", "type": "PERIODICAL", "sequence": 0, "value": "0.5"}\n' >> "$NNI_SYS_DIR/.nni/metrics"
until [ -e go1 ]; do sleep 0.01; done
echo "99%| NNISDK_MEb'{\"type\": \"PERIODICAL\", \"sequence\": 1, \"value\": \"\\\"it's\\\"\"}'"
until [ -e go2 ]; do sleep 0.01; done
echo 'perennial: intermediate {"default": NaN}'
printf 'epoch 3 perennial: final 0.75'`).begin()
	for i := 1; i <= 2; i++ {
		require.Eventually(t, func() bool { return len(a.records()) == i }, patience, time.Millisecond)
		a.tell(fmt.Sprint("go", i))
	}
	require.Zero(t, a.end().Exit.Code)
	require.Equal(t, []string{"PERIODICAL 0 0.5", `PERIODICAL 1 "it's"`, `PERIODICAL 0 {"default": NaN}`, "FINAL 0 0.75"}, a.metrics())
}

func TestTwoProcessesOfOneTrialReportAtOnce(t *testing.T) {
	a := newAttempt(t, `
report() { for i in $(seq 0 199); do
  printf -v json '{"type": "PERIODICAL", "sequence": %d, "value": "%d"}' $i $1
  printf 'ME%06d%s\n' $((${#json} + 1)) "$json" >> "$NNI_SYS_DIR/.nni/metrics"
done; }
report 1 & report 2 & wait`).begin()
	require.Zero(t, a.end().Exit.Code)
	next := map[string]int64{}
	for _, record := range a.records() {
		require.Equal(t, next[record.Value], record.Step)
		next[record.Value]++
	}
	require.Equal(t, map[string]int64{"1": 200, "2": 200}, next)
}

func TestAMetricsFileTruncatedUnderItsReaderIsReadAnew(t *testing.T) {
	const frame = `printf 'ME000045{"type": "FINAL", "sequence": 0, "value": "%d"}\n' `
	require.Len(t, `{"type": "FINAL", "sequence": 0, "value": "1"}`+"\n", 47)
	shorter := strings.Replace(frame, "45", "47", 1)
	a := newAttempt(t, `f="$NNI_SYS_DIR/.nni/metrics"; exec 5> "$f"; `+shorter+` 1 >&5
until [ -e go1 ]; do sleep 0.01; done
: > "$f"; `+shorter+`2 >&5; `+shorter+`3 >&5`).begin()
	require.Eventually(t, func() bool { return len(a.records()) == 1 }, patience, time.Millisecond)
	a.tell("go1")
	a.end()
	require.Equal(t, []string{"FINAL 0 1", "FINAL 0 2", "FINAL 0 3"}, a.metrics())
}

func TestTheLargestMetricArrivesOnBothChannels(t *testing.T) {
	a := newAttempt(t, `cat frame >> "$NNI_SYS_DIR/.nni/metrics"; cat line`)
	head, tail := `{"type": "FINAL", "sequence": 0, "value": "\"`, `\""}`
	letters := strings.Repeat("'", metrics.MaxBytes-1-len(head)-len(tail))
	for name, text := range map[string]string{"frame": "ME999999" + head + letters + tail + "\n", "line": "NNISDK_MEb'" + head + letters + tail + "'\n"} {
		require.NoError(t, os.WriteFile(filepath.Join(a.spec.Directories.Code, name), []byte(text), 0o600))
	}
	a.begin().end()
	records := a.records()
	require.Len(t, records, 2)
	for _, record := range records {
		require.Equal(t, metrics.Final, record.Kind)
		require.Equal(t, `"`+letters+`"`, record.Value)
	}
}

func TestAnIntentEndsATrialThatIgnoresTERM(t *testing.T) {
	a := newAttempt(t, `trap '' TERM; echo $$ > pid; while :; do sleep 0.05; done`)
	a.spec.Grace = 300 * time.Millisecond
	a.begin()
	pid := a.waitFor("pid")
	a.cancel()
	exit := a.end()
	require.Equal(t, trial.Exit{Code: 137, Signal: "SIGKILL"}, exit.Exit)
	require.Equal(t, &trial.Intent{Cause: trial.CauseUser, Decision: "d1"}, exit.Intent)
	requireDead(t, pid)
}

func TestATrialMayEndGracefullyWithinItsGraceTime(t *testing.T) {
	a := newAttempt(t, `trap 'sleep 0.3; echo "perennial: final 3"; exit 5' TERM; echo > ready; while :; do sleep 0.05; done`).begin()
	a.waitFor("ready")
	a.cancel()
	exit := a.end()
	require.Equal(t, trial.Exit{Code: 5}, exit.Exit)
	require.NotNil(t, exit.Intent)
	require.Equal(t, []string{"FINAL 0 3"}, a.metrics())
}

func TestTheWholeGroupHasTheGraceTimeAlsoWhenItsShellDiesFirst(t *testing.T) {
	a := newAttempt(t, `bash -c 'trap "sleep 0.3; echo saved > saved; exit" TERM; echo > ready; while :; do sleep 0.05; done'; echo never`).begin()
	a.waitFor("ready")
	a.cancel()
	require.False(t, a.end().Exit.Outside)
	require.Equal(t, "saved", a.waitFor("saved"))
}

// A daemon in a session of its own with nothing left of its environment.
const daemon = `env -i /bin/bash -c 'setsid /bin/bash -c "echo \$\$ > daemon; trap \"\" TERM; while :; do sleep 0.05; done" < /dev/null > /dev/null 2>&1 &' ; `

func TestADaemonDiesWithACancelledTrial(t *testing.T) {
	a := newAttempt(t, daemon+`echo > ready; sleep 1000`)
	a.spec.Grace = 100 * time.Millisecond
	a.begin()
	pid := a.waitFor("daemon")
	a.waitFor("ready")
	a.cancel()
	require.Equal(t, 143, a.end().Exit.Code)
	requireDead(t, pid)
}

func TestADaemonDoesNotOutliveATrialThatEnded(t *testing.T) {
	a := newAttempt(t, daemon+`until [ -s daemon ]; do sleep 0.01; done`).begin()
	require.Zero(t, a.end().Exit.Code)
	requireDead(t, a.waitFor("daemon"))
}

func TestWhatPassesOnTheLastLineMayFinish(t *testing.T) {
	a := newAttempt(t, `exec > >(sleep 0.2; cat); echo 'perennial: final 1'`).begin()
	require.Zero(t, a.end().Exit.Code)
	require.Equal(t, []string{"FINAL 0 1"}, a.metrics())
}

func TestTheTrialDiesWithItsKilledRunnerAndTheSweepTakesTheRest(t *testing.T) {
	a := newAttempt(t, daemon+`until [ -s daemon ]; do sleep 0.01; done; echo $$ > pid; while :; do sleep 0.05; done`).begin()
	pid, escaped := a.waitFor("pid"), a.waitFor("daemon")
	require.Eventually(t, func() bool {
		process, err := a.ReadProcess()
		return err == nil && len(process.Tree) > 0 && strconv.Itoa(process.Tree[0].PID) == escaped
	}, patience, time.Millisecond)
	require.NoError(t, a.runner.Process.Kill())
	a.gone()
	requireDead(t, pid)
	held, err := a.Held()
	require.NoError(t, err)
	require.False(t, held, "the claim was handed on to the trial")
	exit, err := a.ReadExit()
	require.NoError(t, err)
	require.Nil(t, exit)
	require.True(t, living(escaped))
	require.NoError(t, exec.Command(binary, "sweep", a.Directory).Run())
	requireDead(t, escaped)
}

func TestALivingAttemptIsNotSwept(t *testing.T) {
	a := newAttempt(t, `echo > ready; sleep 1000`).begin()
	a.waitFor("ready")
	said, err := exec.Command(binary, "sweep", a.Directory).CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(said), "cancel the trial instead")
	a.cancel()
	a.end()
}

func TestRunningTimeIsLimited(t *testing.T) {
	a := newAttempt(t, `sleep 1000`)
	a.spec.MaxDuration = 300 * time.Millisecond
	exit := a.begin().end()
	require.Equal(t, &trial.Intent{Cause: trial.CauseMaxDuration}, exit.Intent)
	require.False(t, exit.Exit.Outside)
	require.GreaterOrEqual(t, exit.Ended.Sub(exit.Started), a.spec.MaxDuration)
	intent, err := a.ReadIntent()
	require.NoError(t, err)
	require.Equal(t, trial.CauseMaxDuration, intent.Cause)
}

func TestATERMToTheRunnerIsPassedOnAndIsNobodysFault(t *testing.T) {
	a := newAttempt(t, `trap 'exit 1' TERM; echo > ready; while :; do sleep 0.05; done`).begin()
	a.waitFor("ready")
	require.NoError(t, a.runner.Process.Signal(syscall.SIGTERM))
	exit := a.end()
	require.Equal(t, trial.Exit{Code: 1, Outside: true}, exit.Exit)
	require.Nil(t, exit.Intent)
}

func TestATrialThatWasDoneIsDoneWhoeverShutsDown(t *testing.T) {
	a := newAttempt(t, `trap 'exit 0' TERM; echo 'perennial: final 1'; echo > ready; while :; do sleep 0.05; done`).begin()
	a.waitFor("ready")
	require.NoError(t, a.runner.Process.Signal(syscall.SIGTERM))
	require.Equal(t, trial.Exit{}, a.end().Exit)
}

func TestAnIntentThatCameFirstKeepsTheCommandFromStarting(t *testing.T) {
	a := newAttempt(t, `touch ran`)
	a.cancel()
	exit := a.begin().end()
	require.NotNil(t, exit.Intent)
	require.True(t, exit.Started.IsZero())
	require.NoFileExists(t, filepath.Join(a.spec.Directories.Code, "ran"))
}

func TestAnIntentThatCameTooLateChangesNothing(t *testing.T) {
	a := newAttempt(t, `true`).begin()
	a.end()
	a.cancel()
	exit, err := a.ReadExit()
	require.NoError(t, err)
	require.Nil(t, exit.Intent)
}

func TestAnAttemptNeverRunsTwice(t *testing.T) {
	a := newAttempt(t, `echo again >> runs`).begin()
	a.end()
	claim, err := a.Acquire()
	require.NoError(t, err)
	defer claim.Close()
	second := exec.Command(binary, "run", a.Directory)
	second.ExtraFiles = []*os.File{claim}
	said, err := second.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(said), "never starts again")
	require.Equal(t, "again", a.waitFor("runs"))
}

func TestARunnerWithoutItsClaimRefusesToRun(t *testing.T) {
	a := newAttempt(t, `touch ran`)
	require.NoError(t, a.WriteSpec(a.spec))
	require.Error(t, exec.Command(binary, "run", a.Directory).Run())
	require.NoFileExists(t, filepath.Join(a.spec.Directories.Code, "ran"))
	require.NoFileExists(t, a.Path(rundir.ProcessFile))
}

func TestALivingRunnerTouchesItsClaimWhichLooksForgottenOtherwise(t *testing.T) {
	a := newAttempt(t, "sleep 3600")
	old := time.Now().Add(-29 * 24 * time.Hour)
	require.NoError(t, os.WriteFile(a.Path(rundir.ClaimFile), nil, 0o600))
	require.NoError(t, os.Chtimes(a.Path(rundir.ClaimFile), old, old))
	a.begin()
	require.Eventually(t, func() bool {
		info, err := os.Stat(a.Path(rundir.ClaimFile))
		return err == nil && time.Since(info.ModTime()) < time.Hour
	}, patience, time.Millisecond)
	a.cancel()
	a.end()
}

func TestTheTrialFindsItsCallersEnvironmentBelowOurs(t *testing.T) {
	a := newAttempt(t, `echo "$CALLER|$NNI_TRIAL_JOB_ID|$CUDA_VISIBLE_DEVICES|$RUNNERS|$(umask)|$(ulimit -Sn)|$PERENNIAL_RUN"`)
	none := 0
	a.spec.GPUs = &none
	a.spec.EnvironmentFile = a.Path("environment.json")
	require.NoError(t, rundir.WriteEnvironment(a.spec.EnvironmentFile, rundir.Environment{
		Variables: []string{"CALLER=a=b", "NNI_TRIAL_JOB_ID=wrong", "PATH=" + os.Getenv("PATH")},
		Umask:     0o027, Limits: map[string]rundir.Limit{"nofile": {Soft: 123}},
	}))
	require.Zero(t, a.begin("RUNNERS=own").end().Exit.Code)
	key := a.spec.Key
	require.Equal(t, fmt.Sprintf("a=b|%s|-1||0027|123|%s\n", key.TrialID(), key), a.file(rundir.Stdout))
}

func TestTheTrialInheritsNothingOfItsRunner(t *testing.T) {
	a := newAttempt(t, `ls -m /proc/$$/fd; readlink /proc/$$/fd/1 /proc/$$/fd/0; cat /proc/self/oom_score_adj`).begin()
	require.Zero(t, a.end().Exit.Code)
	lines := strings.Split(a.file(rundir.Stdout), "\n")
	require.Equal(t, []string{"0, 1, 2", a.Path(rundir.Stdout), "/dev/null"}, lines[:3])
	score, err := strconv.Atoi(lines[3])
	require.NoError(t, err)
	require.GreaterOrEqual(t, score, 500)
}

func TestLogsAreKeptToTheirLimit(t *testing.T) {
	a := newAttempt(t, `seq -f %07g 0 99999; seq -f %07g 0 99999 >&2; seq -f %07g 0 99999 > "$NNI_OUTPUT_DIR/trial.log"; echo 'perennial: final 9'`)
	a.spec.LogLimit = 16 << 10
	require.Zero(t, a.begin().end().Exit.Code)
	require.Equal(t, []string{"FINAL 0 9"}, a.metrics())
	for name, last := range map[string]string{rundir.Stdout: "perennial: final 9\n", rundir.Stderr: "0099999\n", rundir.TrialLog: "0099999\n"} {
		text := a.file(name)
		require.InDelta(t, a.spec.LogLimit, len(text), 100)
		require.True(t, strings.HasPrefix(text, "0000000\n0000001\n"))
		require.True(t, strings.HasSuffix(text, last))
		require.Regexp(t, `\n\[perennial: \d+ bytes left out\]\n`, text)
		require.NotContains(t, text, "\x00")
	}
}

func TestATrialThatPrintsAGigabyteCostsTheRunnerLittle(t *testing.T) {
	if testing.Short() {
		t.Skip("prints a gigabyte")
	}
	a := newAttempt(t, `yes "a line of a trial that prints far too much" | head -c 1000000000; printf 'perennial: final 4'; until [ -e go ]; do sleep 0.05; done`)
	a.spec.LogLimit = 8 << 20
	a.begin()
	var peak int64
	require.Eventually(t, func() bool {
		peak = residentPeak(t, a.runner.Process.Pid)
		return len(a.records()) == 0 && a.size(rundir.Stdout) > 1_000_000_000
	}, 2*patience, 20*time.Millisecond)
	a.tell("go")
	require.Eventually(t, func() bool {
		now := residentPeak(t, a.runner.Process.Pid)
		peak = max(peak, now)
		return now == 0
	}, 2*patience, time.Millisecond)
	require.Zero(t, a.end().Exit.Code)
	require.Equal(t, []string{"FINAL 0 4"}, a.metrics())
	require.InDelta(t, a.spec.LogLimit, a.size(rundir.Stdout), 100)
	require.Less(t, peak, int64(50<<20))
	t.Logf("resident at most %d KiB", peak>>10)
}

func (a *attempt) size(name string) int64 {
	info, err := os.Stat(a.Path(name))
	if err != nil {
		return 0
	}
	return info.Size()
}

// residentPeak is the most memory that a process ever had resident, in bytes; 0
// when it is gone.
func residentPeak(t *testing.T, pid int) int64 {
	content, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, after, found := strings.Cut(string(content), "VmHWM:")
	if !found {
		return 0
	}
	kilobytes, err := strconv.ParseInt(strings.Fields(after)[0], 10, 64)
	require.NoError(t, err)
	return kilobytes << 10
}

func TestTheRunnerDependsOnTheStandardLibraryAndSysOnly(t *testing.T) {
	list := exec.Command("go", "list", "-deps", "-json=ImportPath,Standard", "./perennial-runner")
	list.Env = append(os.Environ(), "CGO_ENABLED=0")
	output, err := list.Output()
	require.NoError(t, err)
	decoder := json.NewDecoder(strings.NewReader(string(output)))
	for decoder.More() {
		var dependency struct {
			ImportPath string
			Standard   bool
		}
		require.NoError(t, decoder.Decode(&dependency))
		path := dependency.ImportPath
		ours := strings.HasPrefix(path, "github.com/perennial-ml/perennial/") || strings.HasPrefix(path, "golang.org/x/sys/")
		require.True(t, dependency.Standard || ours, path)
		require.NotEqual(t, "net/http", path)
		require.NotEqual(t, "net", path)
	}
}
