package local_test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/perennial-ml/perennial/testsuite/machine"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/local"
	"github.com/perennial-ml/perennial/runner/rundir"
	"github.com/perennial-ml/perennial/testsuite/platformtest"
	"github.com/perennial-ml/perennial/trial"
)

// Variables by which a test tells another process of itself where things are.
const (
	stateVariable  = "LOCAL_TEST_STATE"
	runnerVariable = "LOCAL_TEST_RUNNER"
)

func TestMain(m *testing.M) {
	platformtest.Main(func() platformtest.Subject { return subjectIn(os.Getenv(stateVariable), os.Getenv(runnerVariable)) })
	directory, err := os.MkdirTemp("", "local-test-")
	if err == nil {
		err = buildRunner(filepath.Join(directory, "perennial-runner"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(directory)
	os.Exit(code)
}

var runner string

func buildRunner(path string) error {
	runner = path
	build := exec.Command("go", "build", "-o", path, "github.com/perennial-ml/perennial/runner/perennial-runner")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	build.Stderr = os.Stderr
	return build.Run()
}

func subject(t *testing.T) platformtest.Subject { return subjectIn(t.TempDir(), runner) }

func subjectIn(state, runner string) platformtest.Subject {
	return platformtest.Subject{
		Kind: func(*testing.T) platforms.Kind {
			return local.New(local.Options{Runner: runner, StateDirectory: state})
		},
		Job:         platformtest.ShellJob,
		Environment: []string{stateVariable + "=" + state, runnerVariable + "=" + runner},
	}
}

func TestConformance(t *testing.T) { platformtest.Run(t, subject) }

func TestCrashPoints(t *testing.T) { platformtest.RunCrashes(t, subject) }

func intent() trial.Intent { return trial.Intent{Cause: trial.CauseUser} }

// site is one local platform and a job for it.
type site struct {
	platforms.Platform
	t     *testing.T
	state string
	job   platforms.Job
}

func newSite(t *testing.T) *site {
	s := &site{t: t, state: t.TempDir()}
	key := trial.Key{Experiment: trial.NewExperimentID(), Sequence: 3, Attempt: 1}
	s.job = platformtest.ShellJob(t, key, platformtest.Behaviour{})
	s.Platform = s.with(runner)
	return s
}

// with is the section of the job's experiment, with a runner.
func (s *site) with(runner string) platforms.Platform {
	kind := local.New(local.Options{Runner: runner, StateDirectory: s.state})
	return kind.Open(platformtest.Section(local.Name, s.job.Key.Experiment, nil))
}

// run runs a command to its end and returns the report.
func (s *site) run(command string) platforms.Report {
	s.t.Helper()
	s.job.Command = command
	handle, err := s.Submit(s.t.Context(), s.job)
	require.NoError(s.t, err)
	return s.end(handle)
}

func (s *site) end(handle platforms.Handle) platforms.Report {
	s.t.Helper()
	var report platforms.Report
	require.Eventually(s.t, func() bool {
		reports, err := s.Poll(s.t.Context(), platforms.Ask(handle))
		require.NoError(s.t, err)
		report = reports[0]
		return report.Phase.Definite()
	}, time.Minute, 5*time.Millisecond)
	return report
}

func (s *site) output(report platforms.Report, name string) string {
	s.t.Helper()
	content, err := os.ReadFile(filepath.Join(report.Output, name))
	require.NoError(s.t, err)
	return string(content)
}

func requireCode(t *testing.T, code platforms.Code, err error) {
	t.Helper()
	require.Error(t, err)
	require.Equal(t, code, platforms.CodeOf(err), "%v", err)
}

func TestATrialFindsItsParametersAndItsPlaceAsNNIPromised(t *testing.T) {
	s := newSite(t)
	report := s.run(`pwd; echo $NNI_PLATFORM $NNI_TRIAL_SEQ_ID; cat $NNI_SYS_DIR/parameter.cfg; echo; cat $PERENNIAL_PARAMETERS; echo; test "$NNI_SYS_DIR" = "$NNI_OUTPUT_DIR" && echo same`)
	code, err := filepath.EvalSymlinks(s.job.Workspace.Directory)
	require.NoError(t, err)
	require.Equal(t, code+"\nlocal 3\n"+string(s.job.Parameter)+"\n"+string(s.job.Parameters)+"\nsame\n", s.output(report, "stdout"))
	trialDirectory := filepath.Join(s.state, "experiments", s.job.Key.Experiment, "trials", s.job.Key.TrialID())
	require.Equal(t, filepath.Join(trialDirectory, "attempt-1"), report.Output)
	linked, err := os.ReadFile(filepath.Join(trialDirectory, "stdout"))
	require.NoError(t, err)
	require.Equal(t, s.output(report, "stdout"), string(linked))
}

func TestATrialWhoseDirectoryIsRemovedUnderItStillEnds(t *testing.T) {
	s := newSite(t)
	report := s.run(`rm -rf "$NNI_SYS_DIR"`)
	require.Equal(t, platforms.Exited, report.Phase)
	require.Zero(t, report.Exit.Code)
}

func TestAJournalThatAPowerCutSpoiledIsGoneForGood(t *testing.T) {
	s := newSite(t)
	report := s.run("echo perennial: final 1")
	require.NoError(t, os.WriteFile(filepath.Join(report.Output, rundir.JournalFile), make([]byte, 4096), 0o600))
	handle := platforms.Handle{Platform: local.Name, Key: s.job.Key}
	_, _, err := s.Collect(t.Context(), handle, "")
	requireCode(t, platforms.NotFound, err)
}

func TestTheTrialsDirectoryShowsTheNewestAttempt(t *testing.T) {
	s := newSite(t)
	s.run("echo first")
	s.job.Key.Attempt = 2
	second := s.run("echo second")
	linked, err := os.ReadFile(filepath.Join(filepath.Dir(second.Output), "stdout"))
	require.NoError(t, err)
	require.Equal(t, "second\n", string(linked))
}

func TestRunsInADirectoryElsewhereAreListedAndTheirClaimsStayHere(t *testing.T) {
	s := newSite(t)
	s.job.Directory = filepath.Join(t.TempDir(), "my experiment")
	report := s.run("echo there")
	require.Equal(t, filepath.Join(s.job.Directory, "trials", s.job.Key.TrialID(), "attempt-1"), report.Output)
	require.NoFileExists(t, filepath.Join(report.Output, "claim"))
	handles, err := s.List(t.Context())
	require.NoError(t, err)
	require.Len(t, handles, 1)
	require.Equal(t, report, s.end(handles[0]))
}

func TestGPUsAreHiddenOnlyWhereZeroWereAskedFor(t *testing.T) {
	t.Setenv("CUDA_VISIBLE_DEVICES", "0,1")
	s := newSite(t)
	require.Equal(t, "0,1\n", s.output(s.run("echo $CUDA_VISIBLE_DEVICES"), "stdout"))
	s.job.Key.Sequence, s.job.GPUs = 4, new(int)
	require.Equal(t, "-1\n", s.output(s.run("echo $CUDA_VISIBLE_DEVICES"), "stdout"))
}

func TestTheCallersEnvironmentReachesTheTrial(t *testing.T) {
	s := newSite(t)
	s.job.EnvironmentFile = filepath.Join(t.TempDir(), "environment.json")
	captured, err := rundir.CaptureEnvironment()
	require.NoError(t, err)
	captured.Variables = append(captured.Variables, "FROM_THE_CALLER=yes")
	captured.Umask = 0o027
	require.NoError(t, rundir.WriteEnvironment(s.job.EnvironmentFile, captured))
	require.Equal(t, "yes 0027\n", s.output(s.run("echo $FROM_THE_CALLER $(umask)"), "stdout"))
	s.job.Key.Sequence, s.job.EnvironmentFile = 4, "/nonexistent/environment.json"
	_, err = s.Submit(t.Context(), s.job)
	requireCode(t, platforms.Transient, err)
}

func TestAnAttemptOfASnapshotRunsInItsOwnCopy(t *testing.T) {
	s := newSite(t)
	code := s.job.Workspace.Directory
	require.NoError(t, os.WriteFile(filepath.Join(code, "data"), []byte("before\n"), 0o644))
	bundle := platforms.Bundle{CodeDirectory: code, Snapshot: true}
	workspace, err := s.Prepare(t.Context(), bundle)
	require.NoError(t, err)
	require.NotEmpty(t, workspace.Hash)
	require.NoError(t, os.WriteFile(filepath.Join(code, "data"), []byte("after\n"), 0o644))
	s.job.Workspace = workspace
	require.Equal(t, "before\n", s.output(s.run("cat data; echo changed >data"), "stdout"))
	s.job.Key.Sequence = 4
	require.Equal(t, "before\n", s.output(s.run("cat data"), "stdout"))
	handles, err := s.List(t.Context())
	require.NoError(t, err)
	require.Len(t, handles, 2)
}

func TestCodeThatIsNotThereIsNamedAndWaitedForOnceTheExperimentRuns(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for directory, words := range map[string]string{"/nonexistent/code": "does not exist", file: "is not a directory"} {
		s := newSite(t)
		_, err := s.Prepare(t.Context(), platforms.Bundle{CodeDirectory: directory})
		requireCode(t, platforms.Invalid, err)
		require.ErrorContains(t, err, directory+" "+words)
		s.job.Workspace.Directory = directory
		_, err = s.Submit(t.Context(), s.job)
		requireCode(t, platforms.Transient, err)
		require.ErrorContains(t, err, words)
	}
}

func TestAfterAFailedSubmitTheNextOneFinishesTheRun(t *testing.T) {
	s := newSite(t)
	broken := s.with("/nonexistent/runner")
	_, err := broken.Submit(t.Context(), s.job)
	requireCode(t, platforms.NotFound, err)
	require.ErrorContains(t, err, "/nonexistent/runner")
	broken = s.with("/bin/false")
	_, err = broken.Submit(t.Context(), s.job)
	requireCode(t, platforms.Transient, err)
	require.Equal(t, platforms.Exited, s.run("echo late").Phase)
}

func TestAFullDiskIsExhaustedAndPassesByItself(t *testing.T) {
	s := newSite(t)
	disk := machine.SmallDisk(t, "64k")
	filler := filepath.Join(disk, "filler")
	os.WriteFile(filler, make([]byte, 1<<20), 0o600) // as much as fits
	s.job.Directory = disk
	_, err := s.Submit(t.Context(), s.job)
	requireCode(t, platforms.Exhausted, err)
	require.ErrorContains(t, err, "disk is full")
	require.NoError(t, unix.Mount("", disk, "", unix.MS_REMOUNT, "size=64m"))
	require.NoError(t, os.Remove(filler))
	require.Equal(t, platforms.Exited, s.run("echo there is room").Phase)
}

func TestHalfAMetricAtTheJournalsEndIsNotCollected(t *testing.T) {
	s := newSite(t)
	report := s.run("echo 'perennial: final 0.5'")
	journal, err := os.OpenFile(filepath.Join(report.Output, rundir.JournalFile), os.O_WRONLY|os.O_APPEND, 0)
	require.NoError(t, err)
	_, err = journal.Write([]byte{40, 0, 0, 0, 1, 2, 3})
	require.NoError(t, err)
	require.NoError(t, journal.Close())
	handles, err := s.List(t.Context())
	require.NoError(t, err)
	records, cursor, err := s.Collect(t.Context(), handles[0], "")
	require.NoError(t, err)
	require.Len(t, records, 1)
	records, again, err := s.Collect(t.Context(), handles[0], cursor)
	require.NoError(t, err)
	require.Empty(t, records)
	require.Equal(t, cursor, again)
	_, _, err = s.Collect(t.Context(), handles[0], "no cursor")
	requireCode(t, platforms.Invalid, err)
}

func TestARunOfAnotherMachineIsUnreachableNotLost(t *testing.T) {
	s := newSite(t)
	report := s.run("exit 1")
	run := rundir.Run{Directory: report.Output}
	process, err := run.ReadProcess()
	require.NoError(t, err)
	if process.MachineID == "" {
		machine.Lacks(t, "there is no /etc/machine-id")
	}
	require.NoError(t, os.Remove(run.Path(rundir.ExitFile)))
	process.MachineID = "another"
	require.NoError(t, run.WriteProcess(*process))
	handles, err := s.List(t.Context())
	require.NoError(t, err)
	reports, err := s.Poll(t.Context(), platforms.Ask(handles...))
	require.NoError(t, err)
	require.Equal(t, platforms.Unreachable, reports[0].Phase)
}

func TestALostRunOfAnEarlierBootSaysSo(t *testing.T) {
	s := newSite(t)
	report := s.run("exit 1")
	run := rundir.Run{Directory: report.Output}
	process, err := run.ReadProcess()
	require.NoError(t, err)
	require.NoError(t, os.Remove(run.Path(rundir.ExitFile)))
	process.BootID = "an earlier one"
	require.NoError(t, run.WriteProcess(*process))
	handles, err := s.List(t.Context())
	require.NoError(t, err)
	lost := s.end(handles[0])
	require.Equal(t, platforms.Lost, lost.Phase)
	require.Equal(t, "machine-rebooted", lost.Reason.Code)
}

func TestLogsAreTheTrialsStreams(t *testing.T) {
	s := newSite(t)
	s.run("echo out; echo err >&2")
	handles, err := s.List(t.Context())
	require.NoError(t, err)
	logs := s.Platform.(platforms.WithLogs)
	for stream, wanted := range map[string]string{"stdout": "ut\n", "stderr": "rr\n", "trial.log": ""} {
		reader, err := logs.Logs(t.Context(), handles[0], platforms.Log{Stream: stream, From: 1})
		require.NoError(t, err)
		content, err := io.ReadAll(reader)
		require.NoError(t, err)
		require.Equal(t, wanted, string(content))
		require.NoError(t, reader.Close())
	}
	_, err = logs.Logs(t.Context(), handles[0], platforms.Log{Stream: "stdout", Replica: "worker-1"})
	requireCode(t, platforms.NotFound, err)
	_, err = logs.Logs(t.Context(), handles[0], platforms.Log{Stream: "../job.json"})
	requireCode(t, platforms.NotFound, err)
}

func TestTheProbeNamesWhatIsMissing(t *testing.T) {
	s := newSite(t)
	codes := func(options local.Options) []string {
		var codes []string
		for _, reason := range local.New(options).Probe(t.Context()) {
			codes = append(codes, reason.Code)
		}
		return codes
	}
	require.NotContains(t, codes(local.Options{Runner: runner, StateDirectory: s.state}), "runner-missing")
	require.Contains(t, codes(local.Options{Runner: "/nonexistent/runner", StateDirectory: s.state}), "runner-missing")
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.Contains(t, codes(local.Options{Runner: runner, StateDirectory: file}), "state-not-writable")
}

func TestAHandleOfANewerVersionIsNotMisread(t *testing.T) {
	s := newSite(t)
	handle := platforms.Handle{Format: 99, Platform: local.Name, Key: s.job.Key}
	reports, err := s.Poll(t.Context(), platforms.Ask(handle))
	require.NoError(t, err)
	require.Equal(t, platforms.Unreachable, reports[0].Phase)
	require.Error(t, s.Cancel(t.Context(), handle, intent()))
}

func TestATrialThatFillsTheDiskStillGetsItsExitRecord(t *testing.T) {
	s := newSite(t)
	disk := machine.SmallDisk(t, "8m")
	s.job.Directory = disk
	report := s.run("echo 'perennial: final 0.5'; cat /dev/zero >$NNI_OUTPUT_DIR/filler; exit 3")
	require.Equal(t, platforms.Exited, report.Phase)
	require.Equal(t, 3, report.Exit.Code)
	handles, err := s.List(t.Context())
	require.NoError(t, err)
	records, _, err := s.Collect(t.Context(), handles[0], "")
	require.NoError(t, err)
	require.Len(t, records, 1)
}

func TestAnIntentThatCameAfterTheEndIsNotReported(t *testing.T) {
	s := newSite(t)
	before := s.run("exit 0")
	_, err := rundir.Run{Directory: before.Output}.WriteIntent(intent())
	require.NoError(t, err)
	handles, err := s.List(t.Context())
	require.NoError(t, err)
	require.Equal(t, before, s.end(handles[0]))
}

func TestARunThatWasCancelledBeforeGetsNoRunner(t *testing.T) {
	s := newSite(t)
	handle := platforms.Handle{Format: 1, Platform: local.Name, Key: s.job.Key}
	require.NoError(t, s.Cancel(t.Context(), handle, intent()))
	before := s.end(handle)
	require.Equal(t, -1, before.Exit.Code)
	require.Equal(t, before, s.run("echo never"))
	require.NoFileExists(t, filepath.Join(before.Output, rundir.ProcessFile))
}

func TestTheEndOfARunIsToldWithoutBeingAskedFor(t *testing.T) {
	s := newSite(t)
	ends := s.Platform.(platforms.WithEnds).Ends()
	s.job.Command = "exit 3"
	handle, err := s.Submit(t.Context(), s.job)
	require.NoError(t, err)
	select {
	case key := <-ends:
		require.Equal(t, s.job.Key, key)
	case <-time.After(time.Minute):
		require.Fail(t, "nothing was told")
	}
	reports, err := s.Poll(t.Context(), platforms.Ask(handle))
	require.NoError(t, err)
	require.Equal(t, platforms.Exited, reports[0].Phase)
}
