package dlts_test

import (
	"os"
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

func TestMain(m *testing.M) { os.Exit(platformtest.RunWithRunner(m, &runner)) }

// keys are a section for a service, with some keys as a test has them.
func keys(service *dltslab.Service, more map[string]any) map[string]any {
	return platformtest.Keys(map[string]any{
		"dashboard": service.URL + "/", "cluster": ".default", "team": dltslab.Team, "email": dltslab.Email, "password": dltslab.Password,
		"dockerImage": "msranni/nni:latest", "localStorageMountPoint": service.Here, "containerStorageMountPoint": service.There,
	}, more)
}

func kind(state string) platforms.Kind {
	return dlts.New(dlts.Options{StateDirectory: state, Runner: runner, Interval: 50 * time.Millisecond})
}

func TestConformance(t *testing.T) {
	platformtest.RunSection(t, kind, func(t *testing.T) map[string]any { return keys(dltslab.New(t), nil) })
}

// opened is a section of a service of its own.
type opened struct {
	*platformtest.Opened
	*dltslab.Service
}

func open(t *testing.T, more map[string]any) opened {
	service := dltslab.New(t)
	return opened{platformtest.Open(t, kind, keys(service, more)), service}
}

func TestASubmissionWhoseAnswerWasLostMakesNoSecondJob(t *testing.T) {
	t.Parallel()
	o := open(t, nil)
	o.Have(servicelab.Fault{Of: "submit", Lost: true})
	_, err := o.Submit(t.Context(), o.Job(1, "sleep 0.3"))
	require.Equal(t, platforms.Transient, platforms.CodeOf(err))
	o.Await(o.Start(1, "sleep 0.3"), platformtest.Succeeded)
	require.Eventually(t, func() bool { return o.States()["finished"] == 1 }, time.Minute, 20*time.Millisecond, "the container ends after its runner")
	require.Equal(t, map[string]int{"finished": 1}, o.States())
}

func TestAnAnswerOfSuccessWithoutAJobIsNone(t *testing.T) {
	t.Parallel()
	o := open(t, map[string]any{"gpuType": "P40"})
	_, err := o.Submit(t.Context(), o.Job(1, "true"))
	require.Equal(t, platforms.Transient, platforms.CodeOf(err), "DLTS answers 200")
	require.ErrorContains(t, err, "ERROR: wrong job")
	require.Empty(t, o.States())
}

func TestAListThatShowsNothingIsNoEnd(t *testing.T) {
	t.Parallel()
	o := open(t, nil)
	o.Late(true)
	handle := o.Start(1, "sleep 0.3")
	o.Await(handle, platformtest.Succeeded)
	require.Positive(t, o.Calls("find"))
}

func TestAJobThatWaitsSaysWhy(t *testing.T) {
	t.Parallel()
	o := open(t, nil)
	o.Nodes = 1
	first := o.Start(1, "exec sleep 60")
	o.Await(first, platformtest.Running)
	second := o.Start(2, "true")
	report := o.Await(second, func(report platforms.Report) bool { return report.Reason.Code == "queued" })
	require.Contains(t, report.Reason.Text, "is queued")
	require.NoError(t, o.Cancel(t.Context(), first, trial.Intent{Cause: trial.CauseUser}))
	o.Await(second, platformtest.Succeeded)
}

func TestAJobThatSomebodyPausesIsEndedAndItsAttemptLost(t *testing.T) {
	t.Parallel()
	o := open(t, nil)
	handle := o.Start(1, "exec sleep 60")
	o.Await(handle, platformtest.Running)
	o.Pause()
	report := o.Await(handle, platformtest.Over)
	require.Equal(t, platforms.Lost, report.Phase)
	require.Equal(t, map[string]int{"killed": 1}, o.States(), "nobody can let it go on beside the next attempt")
}

func TestAJobWhoseContainerCannotStartTellsTheLastOfItsLog(t *testing.T) {
	t.Parallel()
	o := open(t, map[string]any{"containerStorageMountPoint": "/no/such/storage"})
	report := o.Await(o.Start(1, "true"), platformtest.Over)
	require.Equal(t, platforms.Lost, report.Phase)
	require.Contains(t, report.Reason.Text, "/no/such/storage", "what the shell said")
}

func TestARefusalSaysWhatToDoAndNeverThePassword(t *testing.T) {
	t.Parallel()
	o := open(t, nil)
	handle := o.Start(1, "exec sleep 60")
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
		err := o.AwaitFault(handle)
		require.Equal(t, of.code, platforms.CodeOf(err), err.Error())
		require.ErrorContains(t, err, of.says)
		require.NotContains(t, err.Error(), dltslab.Password)
		if of.RetryAfter != "" {
			require.Equal(t, 7*time.Second, platforms.AfterOf(err))
		}
	}
	o.End(handle)
}

func TestARenewedPasswordIsUsedAtOnce(t *testing.T) {
	t.Parallel()
	o := open(t, nil)
	renewed := o.Renew()
	_, err := o.Submit(t.Context(), o.Job(1, "true"))
	require.Equal(t, platforms.Denied, platforms.CodeOf(err))
	o.Set("password", renewed)
	o.Await(o.Start(1, "true"), platformtest.Succeeded)
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
		platformtest.RequireFault(t, kind(t.TempDir()), keys(service, more), field)
	}
}

func TestTryTellsOfTheTeamAndThePassword(t *testing.T) {
	t.Parallel()
	o := open(t, map[string]any{"team": "nobody"})
	problems := o.Problems()
	require.Len(t, problems, 1)
	require.Contains(t, problems[0], "404")
	require.DirExists(t, filepath.Join(o.Here, "perennial"))
	o.Renew()
	require.Contains(t, o.Problems()[0], "renew the password")
}

func TestManyTrialsCostFewCalls(t *testing.T) {
	t.Parallel()
	o, number := open(t, nil), platformtest.Many(t, 60)
	o.RunMany(number, 20, "echo perennial: final 1", platformtest.Tick)
	t.Logf("calls: %v", o.AllCalls())
	require.Equal(t, number, o.Calls("submit"))
	require.Equal(t, 1, o.Calls("team"))
}
