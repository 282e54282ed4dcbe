package dlts_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/dlts"
	"github.com/perennial-ml/perennial/testsuite/dltslab"
	"github.com/perennial-ml/perennial/testsuite/platformtest"
	"github.com/perennial-ml/perennial/testsuite/servicelab"
	"github.com/perennial-ml/perennial/trial"
)

var runner string

func TestMain(m *testing.M) {
	directory, err := os.MkdirTemp("", "dlts-test-")
	if err == nil {
		runner = filepath.Join(directory, "perennial-runner")
		build := exec.Command("go", "build", "-o", runner, "github.com/perennial-ml/perennial/runner/perennial-runner")
		build.Env, build.Stderr = append(os.Environ(), "CGO_ENABLED=0"), os.Stderr
		err = build.Run()
	}
	code := 1
	if err == nil {
		code = m.Run()
	}
	os.RemoveAll(directory)
	os.Exit(code)
}

// options are a section for a service, with some keys as a test has them.
func options(t *testing.T, service *dltslab.Service, more map[string]any) json.RawMessage {
	section := map[string]any{
		"dashboard": service.URL + "/", "cluster": ".default", "team": dltslab.Team, "email": dltslab.Email, "password": dltslab.Password,
		"dockerImage": "msranni/nni:latest", "localStorageMountPoint": service.Here, "containerStorageMountPoint": service.There,
	}
	for name, value := range more {
		section[name] = value
	}
	content, err := json.Marshal(section)
	require.NoError(t, err)
	return content
}

func kind(state string) platforms.Kind {
	return dlts.New(dlts.Options{StateDirectory: state, Runner: runner, Interval: 50 * time.Millisecond})
}

func TestConformance(t *testing.T) {
	platformtest.Run(t, func(t *testing.T) platformtest.Subject {
		service, state := dltslab.New(t), t.TempDir()
		section := options(t, service, nil)
		require.NoError(t, kind(state).Check(section))
		return platformtest.Subject{
			Kind:    func(*testing.T) platforms.Kind { return kind(state) },
			Options: func() json.RawMessage { return section },
			Job:     platformtest.ShellJob,
		}
	})
}

// opened is a section of a service.
type opened struct {
	platforms.Platform
	*dltslab.Service
	t       *testing.T
	section json.RawMessage
}

func open(t *testing.T, more map[string]any) *opened {
	o := &opened{Service: dltslab.New(t), t: t}
	o.section = options(t, o.Service, more)
	o.Platform = kind(t.TempDir()).Open(platforms.Section{
		Platform: dlts.Name, Experiment: "abcdefgh", Resolve: func(context.Context) (json.RawMessage, error) { return o.section, nil },
	})
	return o
}

func (o *opened) submit(sequence int, command string) (platforms.Handle, error) {
	job := platformtest.ShellJob(o.t, trial.Key{Experiment: "abcdefgh", Sequence: sequence, Attempt: 1}, platformtest.Behaviour{})
	job.Command = command
	return o.Submit(o.t.Context(), job)
}

func (o *opened) start(sequence int, command string) platforms.Handle {
	o.t.Helper()
	handle, err := o.submit(sequence, command)
	require.NoError(o.t, err)
	return handle
}

// await polls until a run is as wanted.
func (o *opened) await(handle platforms.Handle, wanted func(platforms.Report) bool) (last platforms.Report) {
	o.t.Helper()
	require.Eventually(o.t, func() bool {
		reports, err := o.Poll(o.t.Context(), platforms.Ask(handle))
		if err == nil {
			last = reports[0]
		}
		return err == nil && wanted(last)
	}, time.Minute, 50*time.Millisecond, "it never came to be so")
	return last
}

func succeeded(report platforms.Report) bool {
	return report.Phase == platforms.Exited && report.Exit.Code == 0
}

func runs(report platforms.Report) bool { return report.Phase == platforms.Running }

func TestASubmissionWhoseAnswerWasLostMakesNoSecondJob(t *testing.T) {
	t.Parallel()
	o := open(t, nil)
	o.Have(servicelab.Fault{Of: "submit", Lost: true})
	_, err := o.submit(1, "sleep 0.3")
	require.Equal(t, platforms.Transient, platforms.CodeOf(err))
	o.await(o.start(1, "sleep 0.3"), succeeded)
	require.Eventually(t, func() bool { return o.States()["finished"] == 1 }, time.Minute, 20*time.Millisecond, "the container ends after its runner")
	require.Equal(t, map[string]int{"finished": 1}, o.States())
}

func TestAnAnswerOfSuccessWithoutAJobIsNone(t *testing.T) {
	t.Parallel()
	o := open(t, map[string]any{"gpuType": "P40"})
	_, err := o.submit(1, "true")
	require.Equal(t, platforms.Transient, platforms.CodeOf(err), "DLTS answers 200")
	require.ErrorContains(t, err, "ERROR: wrong job")
	require.Empty(t, o.States())
}

func TestAListThatShowsNothingIsNoEnd(t *testing.T) {
	t.Parallel()
	o := open(t, nil)
	o.Late(true)
	handle := o.start(1, "sleep 0.3")
	o.await(handle, succeeded)
	require.Positive(t, o.Calls("find"))
}

func TestAJobThatWaitsSaysWhy(t *testing.T) {
	t.Parallel()
	o := open(t, nil)
	o.Nodes = 1
	first := o.start(1, "exec sleep 60")
	o.await(first, runs)
	second := o.start(2, "true")
	report := o.await(second, func(report platforms.Report) bool { return report.Reason.Code == "queued" })
	require.Contains(t, report.Reason.Text, "is queued")
	require.NoError(t, o.Cancel(t.Context(), first, trial.Intent{Cause: trial.CauseUser}))
	o.await(second, succeeded)
}

func TestAJobThatSomebodyPausesIsEndedAndItsAttemptLost(t *testing.T) {
	t.Parallel()
	o := open(t, nil)
	handle := o.start(1, "exec sleep 60")
	o.await(handle, runs)
	o.Pause()
	report := o.await(handle, func(report platforms.Report) bool { return report.Phase.Definite() })
	require.Equal(t, platforms.Lost, report.Phase)
	require.Equal(t, map[string]int{"killed": 1}, o.States(), "nobody can let it go on beside the next attempt")
}

func TestAJobWhoseContainerCannotStartTellsTheLastOfItsLog(t *testing.T) {
	t.Parallel()
	o := open(t, map[string]any{"containerStorageMountPoint": "/no/such/storage"})
	report := o.await(o.start(1, "true"), func(report platforms.Report) bool { return report.Phase.Definite() })
	require.Equal(t, platforms.Lost, report.Phase)
	require.Contains(t, report.Reason.Text, "/no/such/storage", "what the shell said")
}

func TestARefusalSaysWhatToDoAndNeverThePassword(t *testing.T) {
	t.Parallel()
	o := open(t, nil)
	handle := o.start(1, "exec sleep 60")
	for _, of := range []struct {
		servicelab.Fault
		code platforms.Code
		says string
	}{
		{servicelab.Fault{Status: 429, HTML: true, RetryAfter: "7"}, platforms.Exhausted, "429"},
		{servicelab.Fault{Status: 502, HTML: true}, platforms.Transient, "502"},
		{servicelab.Fault{Status: 403, Code: "bad " + dltslab.Password}, platforms.Denied, "renew the password of " + dltslab.Email},
		{servicelab.Fault{Status: 302}, platforms.Denied, "wants somebody to log in"},
	} {
		of.Fault.Of = "list"
		o.Have(of.Fault)
		var err error
		require.Eventually(t, func() bool { // what was said just before is as good for a moment
			_, err = o.Poll(t.Context(), platforms.Ask(handle))
			return err != nil
		}, time.Minute, 20*time.Millisecond)
		require.Equal(t, of.code, platforms.CodeOf(err), err.Error())
		require.ErrorContains(t, err, of.says)
		require.NotContains(t, err.Error(), dltslab.Password)
		if of.RetryAfter != "" {
			require.Equal(t, 7*time.Second, platforms.AfterOf(err))
		}
	}
	require.NoError(t, o.Cancel(t.Context(), handle, trial.Intent{Cause: trial.CauseUser}))
	o.await(handle, func(report platforms.Report) bool { return report.Phase.Definite() })
}

func TestARenewedPasswordIsUsedAtOnce(t *testing.T) {
	t.Parallel()
	o := open(t, nil)
	renewed := o.Renew()
	_, err := o.submit(1, "true")
	require.Equal(t, platforms.Denied, platforms.CodeOf(err))
	o.section = options(t, o.Service, map[string]any{"password": renewed})
	o.await(o.start(1, "true"), succeeded)
}

func TestASectionThatCannotWorkIsRefusedByField(t *testing.T) {
	t.Parallel()
	service := dltslab.New(t)
	for field, more := range map[string]map[string]any{
		"dashboard":                  {"dashboard": "ftp://dlts"},
		"jobPriority":                {"jobPriority": 12},
		"localStorageMountPoint":     {"localStorageMountPoint": "/no/such/mount"},
		"containerStorageMountPoint": {"containerStorageMountPoint": "work"},
	} {
		var faults platforms.OptionFaults
		require.ErrorAs(t, kind(t.TempDir()).Check(options(t, service, more)), &faults, field)
		require.Len(t, faults, 1)
		require.Equal(t, field, faults[0].Field)
	}
}

func TestTryTellsOfTheTeamAndThePassword(t *testing.T) {
	t.Parallel()
	o := open(t, map[string]any{"team": "nobody"})
	states, err := o.Platform.(platforms.WithHosts).Try(t.Context())
	require.NoError(t, err)
	require.Len(t, states[0].Problems, 1)
	require.Contains(t, states[0].Problems[0].Text, "404")
	require.DirExists(t, filepath.Join(o.Here, "perennial"))
	o.Renew()
	states, err = o.Platform.(platforms.WithHosts).Try(t.Context())
	require.NoError(t, err)
	require.Contains(t, states[0].Problems[0].Text, "renew the password")
}
