package remote_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/remote"
	"github.com/perennial-ml/perennial/testsuite/machine"
	"github.com/perennial-ml/perennial/testsuite/platformtest"
	"github.com/perennial-ml/perennial/testsuite/sshlab"
	"github.com/perennial-ml/perennial/trial"
)

var runner []byte

func TestMain(m *testing.M) {
	directory, err := os.MkdirTemp("", "remote-test-")
	if err == nil {
		runner, err = buildRunner(filepath.Join(directory, "perennial-runner"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(directory)
	os.Exit(code)
}

func buildRunner(path string) ([]byte, error) {
	build := exec.Command("go", "build", "-o", path, "github.com/perennial-ml/perennial/runner/perennial-runner")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}

func runnerFor(system, processor string) ([]byte, error) {
	if system != "linux" || processor != "amd64" && processor != "arm64" {
		return nil, errors.New("no such runner")
	}
	return runner, nil
}

// entry is one machine of an experiment file.
type entry map[string]any

// sectionOf is the platform's section for these machines of a lab.
func sectionOf(t *testing.T, lab *sshlab.Lab, keys entry, machines ...entry) json.RawMessage {
	all := entry{"sshConfigFile": filepath.Join(lab.Home, ".ssh", "config"), "machineList": machines}
	for key, value := range keys {
		all[key] = value
	}
	section, err := json.Marshal(all)
	require.NoError(t, err)
	return section
}

func open(state, experiment string, options json.RawMessage) platforms.Platform {
	return kindIn(state).Open(section(experiment, options))
}

func kindIn(state string) platforms.Kind {
	return remote.New(remote.Options{StateDirectory: state, Runner: runnerFor})
}

func section(experiment string, options json.RawMessage) platforms.Section {
	return platformtest.Section(remote.Name, experiment, func() json.RawMessage { return options })
}

func TestConformance(t *testing.T) {
	lab := sshlab.One(t, sshlab.Spec{})
	platformtest.Run(t, func(t *testing.T) platformtest.Subject {
		state := t.TempDir()
		section := sectionOf(t, lab, nil, entry{"host": lab.Hosts[0].Name})
		return platformtest.Subject{
			Kind:    func(*testing.T) platforms.Kind { return kindIn(state) },
			Options: func() json.RawMessage { return section },
			Job:     platformtest.ShellJob,
		}
	})
}

// site is a platform on one sshd, and a job for it.
type site struct {
	platforms.Platform
	t       *testing.T
	lab     *sshlab.Lab
	options json.RawMessage
	job     platforms.Job
}

func newSite(t *testing.T, keys entry, machines ...entry) *site {
	s := &site{t: t, lab: sshlab.One(t, sshlab.Spec{})}
	for _, machine := range machines {
		machine["host"] = s.lab.Hosts[0].Name
	}
	s.options = sectionOf(t, s.lab, keys, machines...)
	s.job = platformtest.ShellJob(t, trial.Key{Experiment: trial.NewExperimentID(), Attempt: 1}, platformtest.Behaviour{})
	s.Platform = s.anew()
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// anew is the section as a controller with another state directory opens it.
func (s *site) anew() platforms.Platform {
	return open(s.t.TempDir(), s.job.Key.Experiment, s.options)
}

// prepare has the job run code that was prepared, with one file of this content.
func (s *site) prepare(content string) {
	s.t.Helper()
	code := s.t.TempDir()
	require.NoError(s.t, os.WriteFile(filepath.Join(code, "data"), []byte(content), 0o644))
	var err error
	s.job.Workspace, err = s.Prepare(s.t.Context(), platforms.Bundle{CodeDirectory: code})
	require.NoError(s.t, err)
}

// run runs a command to its end and returns what it printed.
func (s *site) run(command string) string {
	s.t.Helper()
	s.job.Command = command
	s.job.Key.Sequence++
	handle, err := s.Submit(s.t.Context(), s.job)
	require.NoError(s.t, err)
	require.Eventually(s.t, func() bool {
		reports, err := s.Poll(s.t.Context(), platforms.Ask(handle))
		require.NoError(s.t, err)
		return reports[0].Phase == platforms.Exited
	}, time.Minute, 10*time.Millisecond)
	return s.log(handle, 0)
}

func (s *site) log(handle platforms.Handle, from int64) string {
	s.t.Helper()
	stream, err := s.Platform.(platforms.WithLogs).Logs(s.t.Context(), handle, platforms.Log{Stream: "stdout", From: from})
	defer func() { require.NoError(s.t, stream.Close()) }()
	require.NoError(s.t, err)
	content, err := io.ReadAll(stream)
	require.NoError(s.t, err)
	return string(content)
}

func TestEveryTrialRunsInItsOwnCopyOfTheCodeAsItWasPrepared(t *testing.T) {
	s := newSite(t, nil, entry{})
	s.prepare("before\n")
	require.Equal(t, "before\n", s.run("cat data; echo changed >data"))
	require.Equal(t, "before\n", s.run("cat data"))
}

func TestInReuseModeTheTrialsOfAMachineShareTheCode(t *testing.T) {
	s := newSite(t, entry{"reuseMode": true}, entry{})
	s.prepare("before\n")
	require.Equal(t, "before\n", s.run("cat data; echo changed >data"))
	require.Equal(t, "changed\n", s.run("cat data"))
}

func TestCodeThatSomebodyRemovedIsBroughtAgain(t *testing.T) {
	s := newSite(t, nil, entry{})
	s.prepare("code\n")
	require.Equal(t, "code\n", s.run("cat data"))
	require.NoError(t, os.RemoveAll(filepath.Join(s.lab.Hosts[0].Home(), ".perennial", "code")))
	require.Equal(t, "code\n", s.run("cat data"))
}

func TestAMachinesOwnKeysReachTheTrial(t *testing.T) {
	s := newSite(t, nil, entry{"pythonPath": "/opt/venv/bin", "preCommand": "export BEFORE=yes"})
	said := s.run(`echo "$PATH $BEFORE $NNI_PLATFORM"`)
	require.True(t, strings.HasPrefix(said, "/opt/venv/bin:/"), said)
	require.True(t, strings.HasSuffix(said, " yes remote\n"), said)
}

func TestALogIsReadFromWhereOneWantsIt(t *testing.T) {
	s := newSite(t, nil, entry{})
	require.Equal(t, "first\nsecond\n", s.run("echo first; echo second"))
	handles, err := s.List(t.Context())
	require.NoError(t, err)
	require.Equal(t, "second\n", s.log(handles[0], 6))
	_, err = s.Platform.(platforms.WithLogs).Logs(t.Context(), platforms.Handle{Key: trial.Key{Experiment: "nowhere"}}, platforms.Log{Stream: "stdout"})
	require.Equal(t, platforms.NotFound, platforms.CodeOf(err))
}

func TestTrialsAreSpreadOverMachinesAndTheNextAttemptMayMove(t *testing.T) {
	s := newSite(t, nil, entry{"directory": "~/one"}, entry{"directory": "~/two"}, entry{"directory": "~/three"})
	s.prepare("code")
	s.job.Command = "sleep 3600"
	counts := map[string]int{}
	for sequence := range 6 {
		s.job.Key.Sequence = sequence
		handle, err := s.Submit(t.Context(), s.job)
		require.NoError(t, err)
		counts[directoryIn(t, handle)]++
	}
	require.Equal(t, map[string]int{"~/one": 2, "~/two": 2, "~/three": 2}, counts)
	s.endAll()
}

func directoryIn(t *testing.T, handle platforms.Handle) string {
	var data struct{ Directory string }
	require.NoError(t, json.Unmarshal(handle.Data, &data))
	return data.Directory
}

func (s *site) endAll() {
	handles, err := s.List(s.t.Context())
	require.NoError(s.t, err)
	for _, handle := range handles {
		require.NoError(s.t, s.Cancel(s.t.Context(), handle, trial.Intent{Cause: trial.CauseUser}))
	}
	require.Eventually(s.t, func() bool {
		reports, err := s.Poll(s.t.Context(), platforms.Ask(handles...))
		require.NoError(s.t, err)
		return !slices.ContainsFunc(reports, func(r platforms.Report) bool { return !r.Phase.Definite() })
	}, time.Minute, 10*time.Millisecond)
}

func TestTheEndOfARunIsToldWithoutBeingAskedForAlsoByANewConnection(t *testing.T) {
	s := newSite(t, nil, entry{})
	ends := s.Platform.(platforms.WithEnds).Ends()
	s.job.Command = "exit 3"
	_, err := s.Submit(t.Context(), s.job)
	require.NoError(t, err)
	requireTold(t, ends, s.job.Key)
	s.job.Key.Sequence, s.job.Command = 1, "while [ ! -e gate ]; do sleep 0.02; done"
	handle, err := s.Submit(t.Context(), s.job)
	require.NoError(t, err)
	again := s.anew()
	defer again.Close()
	reports, err := again.Poll(t.Context(), platforms.Ask(handle))
	require.NoError(t, err)
	require.Equal(t, platforms.Running, reports[0].Phase)
	require.NoError(t, os.WriteFile(filepath.Join(s.job.Workspace.Directory, "gate"), nil, 0o600))
	requireTold(t, again.(platforms.WithEnds).Ends(), s.job.Key)
}

func requireTold(t *testing.T, ends <-chan trial.Key, key trial.Key) {
	t.Helper()
	select {
	case told := <-ends:
		require.Equal(t, key, told)
	case <-time.After(time.Minute):
		require.Fail(t, "nothing was told")
	}
}

func TestCodeThatNobodyUsesIsRemovedFromTheMachine(t *testing.T) {
	s := newSite(t, nil, entry{})
	s.prepare("code")
	s.run("true")
	kept := filepath.Join(s.lab.Hosts[0].Home(), ".perennial", "code", s.job.Workspace.Hash)
	require.DirExists(t, kept)
	another := open(t.TempDir(), "another1", s.options)
	defer another.Close()
	require.NoError(t, another.(platforms.WithCleanup).CleanUp(t.Context()))
	require.DirExists(t, kept)
	require.NoError(t, s.Platform.(platforms.WithCleanup).CleanUp(t.Context()))
	require.NoDirExists(t, kept)
	require.Equal(t, "code", s.run("cat data"), "a resumed experiment is brought what it began with")
}

func TestARunWhoseDirectoryIsNotMountedIsNeitherOverNorStartedAgainAndIsFoundLater(t *testing.T) {
	s := newSite(t, nil, entry{})
	require.Equal(t, "once\n", s.run("echo once"))
	handles, err := s.List(t.Context())
	require.NoError(t, err)
	ours := filepath.Join(s.lab.Hosts[0].Home(), ".perennial")
	require.NoError(t, os.Rename(ours, ours+"-not-mounted"))
	s.awaitPhase(handles, platforms.Unreachable, "is a file system not mounted?")
	_, err = s.Submit(t.Context(), s.job)
	require.ErrorContains(t, err, "host0: our directory there is not the one")
	require.Equal(t, platforms.Transient, platforms.CodeOf(err))
	require.ErrorContains(t, s.Cancel(t.Context(), handles[0], trial.Intent{Cause: trial.CauseUser}), "host0: our directory there is not the one")
	require.NoDirExists(t, filepath.Join(ours, "runs", s.job.Key.Experiment))
	require.NoError(t, os.RemoveAll(ours))
	require.NoError(t, os.Rename(ours+"-not-mounted", ours))
	s.awaitPhase(handles, platforms.Exited, "")
	require.Equal(t, "once\n", s.log(handles[0], 0))
}

func TestAMachineWhoseDiskWasFullGetsTrialsAgainOnceThereIsRoom(t *testing.T) {
	disk := machine.SmallDisk(t, "100m")
	require.NoError(t, os.Chmod(disk, 0o777))
	filler := filepath.Join(disk, "filler")
	require.NoError(t, os.WriteFile(filler, make([]byte, 60<<20), 0o644))
	s := newSite(t, nil, entry{"directory": disk})
	for range 2 { // told anew, and remembered
		_, err := s.Submit(t.Context(), s.job)
		require.ErrorContains(t, err, "MiB are free on its disk")
		require.Equal(t, platforms.Exhausted, platforms.CodeOf(err))
	}
	require.NoError(t, os.Remove(filler))
	require.Eventually(t, func() bool {
		_, err := s.Submit(t.Context(), s.job)
		return err == nil
	}, time.Minute, 100*time.Millisecond)
	s.endAll()
}

// awaitPhase waits until the only run is in a phase for a reason; until then it
// cannot be reached.
func (s *site) awaitPhase(handles []platforms.Handle, phase platforms.Phase, words string) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		reports, err := s.Poll(s.t.Context(), platforms.Ask(handles...))
		require.NoError(s.t, err)
		require.Contains(s.t, []platforms.Phase{phase, platforms.Unreachable}, reports[0].Phase)
		return reports[0].Phase == phase && strings.Contains(reports[0].Reason.Text, words)
	}, time.Minute, 10*time.Millisecond)
}

func TestAPlacementOfAnEarlierVersionIsStillKnown(t *testing.T) {
	state := t.TempDir()
	experiment := filepath.Join(state, "platforms", "remote", "abcdefgh")
	require.NoError(t, os.MkdirAll(experiment, 0o700))
	key := trial.Key{Experiment: "abcdefgh", Sequence: 7, Attempt: 2}
	content := `{"format":1,"key":{"experiment":"abcdefgh","sequence":7,"attempt":2},"host":"gpu1","port":2222,"site":"s","boot":"b"}` + "\n"
	require.NoError(t, os.WriteFile(filepath.Join(experiment, key.String()+".placement"), []byte(content), 0o600))
	p := open(state, "abcdefgh", nil)
	defer p.Close()
	handles, err := p.List(t.Context())
	require.NoError(t, err)
	require.Len(t, handles, 1)
	require.Equal(t, key, handles[0].Key)
	require.JSONEq(t, content, string(handles[0].Data))
}

func TestAMachineWithoutARunnerForItSaysSo(t *testing.T) {
	s := newSite(t, nil, entry{})
	kind := remote.New(remote.Options{
		StateDirectory: t.TempDir(), Runner: func(string, string) ([]byte, error) { return nil, errors.New("built without a runner") },
	})
	s.Platform = kind.Open(section(s.job.Key.Experiment, s.options))
	defer s.Close()
	_, err := s.Submit(t.Context(), s.job)
	require.Equal(t, platforms.Denied, platforms.CodeOf(err))
	require.ErrorContains(t, err, "host0: built without a runner")
	require.Equal(t, "runner-missing", kind.Probe(t.Context())[0].Code)
}

func TestADirectoryThatCannotBeUsedIsNamedWithTheWayOut(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	s := newSite(t, nil, entry{"directory": file + "/below"})
	_, err := s.Submit(t.Context(), s.job)
	require.Equal(t, platforms.Transient, platforms.CodeOf(err))
	require.ErrorContains(t, err, "our directory there cannot be written")
	require.ErrorContains(t, err, "by the machine's key directory")
}

func TestARunnerThatWasDamagedIsBroughtAgain(t *testing.T) {
	s := newSite(t, nil, entry{})
	require.Equal(t, "well\n", s.run("echo well"))
	require.NoError(t, s.Close())
	found, err := filepath.Glob(filepath.Join(s.lab.Hosts[0].Home(), ".perennial", "runner", "perennial-runner-*"))
	require.NoError(t, err)
	require.Len(t, found, 1)
	padded := append(slices.Clone(runner), 0) // still a program
	require.NoError(t, os.Remove(found[0]))
	require.NoError(t, os.WriteFile(found[0], padded, 0o700))
	s.Platform = s.anew()
	s.job.Key.Sequence++
	_, err = s.Submit(t.Context(), s.job)
	require.ErrorContains(t, err, "was damaged")
	require.Eventually(t, func() bool {
		_, err = s.Submit(t.Context(), s.job)
		return err == nil
	}, time.Minute, 50*time.Millisecond)
}

func TestSectionsThatMakeNoSenseAreRefusedInWords(t *testing.T) {
	for section, words := range map[string]string{
		`{}`:                               "at least one machine",
		`{"machineList":[{"user":"ada"}]}`: "has no host",
		`{"machineList":[{"host":"a"},{"host":"a"}]}`:        "machine a is there twice",
		`{"machineList":[{"host":"a","directory":"below"}]}`: "must begin with / or ~/",
	} {
		require.ErrorContains(t, remote.CheckOptions(json.RawMessage(section)), words)
	}
	require.NoError(t, remote.CheckOptions(json.RawMessage(`{"machineList":[{"host":"a"},{"host":"a","port":2222}],"nniManagerIp":"10.0.0.1"}`)))
}
