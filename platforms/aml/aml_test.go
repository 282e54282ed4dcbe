package aml_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/aml"
	"github.com/perennial-ml/perennial/testsuite/amllab"
	"github.com/perennial-ml/perennial/testsuite/platformtest"
	"github.com/perennial-ml/perennial/testsuite/servicelab"
	"github.com/perennial-ml/perennial/trial"
)

var (
	azure  *amllab.Service
	runner []byte
)

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// run has all tests share one Azure, whose login is in the environment.
func run(m *testing.M) (code int, err error) {
	directory, err := os.MkdirTemp("", "aml-test-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(directory)
	path := filepath.Join(directory, "perennial-runner")
	build := exec.Command("go", "build", "-o", path, "github.com/perennial-ml/perennial/runner/perennial-runner")
	build.Env, build.Stderr = append(os.Environ(), "CGO_ENABLED=0"), os.Stderr
	if err := build.Run(); err != nil {
		return 1, err
	}
	if runner, err = os.ReadFile(path); err != nil {
		return 1, err
	}
	if azure, err = amllab.Start(); err != nil {
		return 1, err
	}
	defer azure.Close()
	for _, variable := range azure.Environment() {
		name, value, _ := strings.Cut(variable, "=")
		os.Setenv(name, value)
	}
	return m.Run(), nil
}

func options(t *testing.T, more map[string]any) json.RawMessage {
	section := map[string]any{
		"subscriptionId": amllab.Subscription, "resourceGroup": amllab.Group, "workspaceName": amllab.Workspace,
		"computeTarget": amllab.Compute, "dockerImage": "msranni/nni:latest", "endpoint": azure.URL,
	}
	for name, value := range more {
		section[name] = value
	}
	content, err := json.Marshal(section)
	require.NoError(t, err)
	return content
}

// kind is the platform where logs of jobs that are over are behind for a moment only.
func kind(state string) platforms.Kind { return kindBehind(state, time.Second) }

func kindBehind(state string, behind time.Duration) platforms.Kind {
	return aml.New(aml.Options{
		StateDirectory: state, Interval: 50 * time.Millisecond, Behind: behind, HTTP: azure.Client,
		Runner: func(string, string) ([]byte, error) { return runner, nil },
	})
}

func TestConformance(t *testing.T) {
	platformtest.Run(t, func(t *testing.T) platformtest.Subject {
		state, section := t.TempDir(), options(t, nil)
		require.NoError(t, kind(state).Check(section))
		return platformtest.Subject{
			Kind:    func(*testing.T) platforms.Kind { return kind(state) },
			Options: func() json.RawMessage { return section },
			Job:     platformtest.ShellJob,
		}
	})
}

// opened is a section.
type opened struct {
	platforms.Platform
	t          *testing.T
	experiment string
}

func open(t *testing.T, more map[string]any) *opened {
	return openKind(t, kind(t.TempDir()), more)
}

func openKind(t *testing.T, kind platforms.Kind, more map[string]any) *opened {
	o := &opened{t: t, experiment: trial.NewExperimentID()}
	section := options(t, more)
	o.Platform = kind.Open(platforms.Section{
		Platform: aml.Name, Experiment: o.experiment, Resolve: func(context.Context) (json.RawMessage, error) { return section, nil },
	})
	return o
}

func (o *opened) job(command string) platforms.Job {
	job := platformtest.ShellJob(o.t, trial.Key{Experiment: o.experiment, Sequence: 1, Attempt: 1}, platformtest.Behaviour{})
	job.Command = command
	return job
}

// await polls until the run is as wanted.
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

func running(report platforms.Report) bool { return report.Phase == platforms.Running }

func TestASubmissionWhoseAnswerWasLostMakesNoSecondJob(t *testing.T) {
	o := open(t, nil)
	before := azure.Calls("submit")
	azure.Have(servicelab.Fault{Of: "submit", Lost: true})
	job := o.job("sleep 0.3")
	handle, err := o.Submit(t.Context(), job)
	if err != nil { // it may have been found again at once
		require.Equal(t, platforms.Transient, platforms.CodeOf(err))
		handle, err = o.Submit(t.Context(), job)
	}
	require.NoError(t, err)
	o.await(handle, succeeded)
	require.Equal(t, 1, azure.Calls("submit")-before)
}

func TestCodeIsUploadedOnceByItsContent(t *testing.T) {
	o, code := open(t, nil), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(code, "train.sh"), []byte("echo perennial: final 5 # "+t.Name()), 0o644))
	first, err := o.Prepare(t.Context(), platforms.Bundle{CodeDirectory: code})
	require.NoError(t, err)
	before := azure.Calls("upload")
	again, err := open(t, nil).Prepare(t.Context(), platforms.Bundle{CodeDirectory: code})
	require.NoError(t, err)
	require.JSONEq(t, string(first.Data), string(again.Data))
	require.Equal(t, before, azure.Calls("upload"), "another experiment with the same code")
	job := o.job("sh train.sh")
	job.Workspace = first
	handle, err := o.Submit(t.Context(), job)
	require.NoError(t, err)
	report := o.await(handle, succeeded)
	require.Len(t, report.Journal.Records, 1)
	require.Equal(t, "5", report.Journal.Records[0].Value)
}

func TestARefusalSaysWhatToDo(t *testing.T) {
	o := open(t, nil)
	handle, err := o.Submit(t.Context(), o.job("exec sleep 60"))
	require.NoError(t, err)
	o.await(handle, running)
	for _, of := range []struct {
		servicelab.Fault
		code platforms.Code
		says string
	}{
		{servicelab.Fault{Of: "history", Status: 429, RetryAfter: "7"}, platforms.Exhausted, "429"},
		{servicelab.Fault{Of: "history", Status: 503}, platforms.Transient, "503"},
		{servicelab.Fault{Of: "history", Status: 403}, platforms.Denied, "renew the login of Azure"},
		{servicelab.Fault{Of: "log", Status: 500}, platforms.Transient, "500"},
	} {
		azure.Have(of.Fault)
		var err error
		require.Eventually(t, func() bool { // what was said just before is as good for a moment
			_, err = o.Poll(t.Context(), platforms.Ask(handle))
			return err != nil
		}, time.Minute, 20*time.Millisecond)
		require.Equal(t, of.code, platforms.CodeOf(err), err.Error())
		require.ErrorContains(t, err, of.says)
		require.NotContains(t, err.Error(), "sig=")
		if of.RetryAfter != "" {
			require.Equal(t, 7*time.Second, platforms.AfterOf(err))
		}
	}
	require.NoError(t, o.Cancel(t.Context(), handle, trial.Intent{Cause: trial.CauseUser}))
	report := o.await(handle, func(report platforms.Report) bool { return report.Phase == platforms.Exited })
	require.Contains(t, report.Handle.URL, "https://ml.azure.com/runs/")
}

func TestANodeThatIsLostIsNoEndOfTheTrials(t *testing.T) {
	o := open(t, nil)
	handle, err := o.Submit(t.Context(), o.job("echo perennial: intermediate 1; exec sleep 60"))
	require.NoError(t, err)
	o.await(handle, func(report platforms.Report) bool { return report.Journal != nil && len(report.Journal.Records) == 1 })
	azure.Kill("perennial-" + handle.Key.String())
	report := o.await(handle, func(report platforms.Report) bool { return report.Phase == platforms.Lost })
	require.Equal(t, "job-over", report.Reason.Code)
}

func TestALogThatIsBehindItsJobsEndLosesNothing(t *testing.T) {
	const ends, isEnded = "echo perennial: final 5", "trap 'echo perennial: intermediate 1; exit 0' TERM; touch %s; sleep 60 & wait"
	for _, command := range []string{ends, isEnded} {
		o, started := openKind(t, kindBehind(t.TempDir(), time.Hour), nil), filepath.Join(t.TempDir(), "started")
		azure.Behind(true)
		handle, err := o.Submit(t.Context(), o.job(strings.Replace(command, "%s", started, 1)))
		require.NoError(t, err)
		if command == isEnded {
			require.Eventually(t, func() bool { _, err := os.Stat(started); return err == nil }, time.Minute, 20*time.Millisecond)
			require.NoError(t, o.Cancel(t.Context(), handle, trial.Intent{Cause: trial.CauseEarlyStop}))
		}
		o.await(handle, func(report platforms.Report) bool {
			require.False(t, report.Phase.Definite(), report.Reason.Text)
			return report.Reason.Code == "log-behind"
		})
		azure.Behind(false)
		report := o.await(handle, func(report platforms.Report) bool { return report.Phase == platforms.Exited })
		require.Len(t, report.Journal.Records, 1)
	}
}

func TestALoginThatIsRefusedIsDeniedAndGoesOnOnceItIsGood(t *testing.T) {
	azure.Renew("another")
	o := open(t, nil)
	_, err := o.Submit(t.Context(), o.job("true"))
	azure.Renew(amllab.ClientSecret)
	require.Equal(t, platforms.Denied, platforms.CodeOf(err), "%v", err)
	require.ErrorContains(t, err, "renew the login of Azure")
	require.NotContains(t, err.Error(), amllab.ClientSecret)
	handle, err := o.Submit(t.Context(), o.job("true"))
	require.NoError(t, err)
	o.await(handle, succeeded)
}

func TestASectionsOwnLoginIsUsed(t *testing.T) {
	o := open(t, map[string]any{"tenantId": amllab.Tenant, "clientId": amllab.ClientID, "clientSecret": "wrong"})
	_, err := o.Submit(t.Context(), o.job("true"))
	require.Equal(t, platforms.Denied, platforms.CodeOf(err), "%v", err)
	o = open(t, map[string]any{"tenantId": amllab.Tenant, "clientId": amllab.ClientID, "clientSecret": amllab.ClientSecret})
	handle, err := o.Submit(t.Context(), o.job("true"))
	require.NoError(t, err)
	o.await(handle, succeeded)
}

func TestATokenThatAzureTakesNoLongerIsReplaced(t *testing.T) {
	o := open(t, nil)
	handle, err := o.Submit(t.Context(), o.job("sleep 0.5"))
	require.NoError(t, err)
	azure.Expire()
	o.await(handle, succeeded)
}

func TestWhatAJobPrintedIsThereWithoutItsJournal(t *testing.T) {
	o := open(t, nil)
	handle, err := o.Submit(t.Context(), o.job("echo hello; echo perennial: final 1"))
	require.NoError(t, err)
	o.await(handle, succeeded)
	log, err := o.Platform.(platforms.WithLogs).Logs(t.Context(), handle, platforms.Log{Stream: "stdout"})
	require.NoError(t, err)
	content := make([]byte, 1000)
	n, _ := log.Read(content)
	require.Contains(t, string(content[:n]), "hello\n")
	require.NotContains(t, string(content[:n]), "perennial-journal")
}

func TestTryTellsOfAComputeTargetThatThereIsNot(t *testing.T) {
	states, err := open(t, map[string]any{"computeTarget": "none"}).Platform.(platforms.WithHosts).Try(t.Context())
	require.NoError(t, err)
	require.Len(t, states[0].Problems, 1)
	require.Contains(t, states[0].Problems[0].Text, "computes/none")
	states, err = open(t, nil).Platform.(platforms.WithHosts).Try(t.Context())
	require.NoError(t, err)
	require.Empty(t, states[0].Problems)
}

func TestAnEndpointThatIsNoneIsRefused(t *testing.T) {
	var faults platforms.OptionFaults
	require.ErrorAs(t, kind(t.TempDir()).Check(options(t, map[string]any{"endpoint": "http://azure"})), &faults)
	require.Equal(t, "endpoint", faults[0].Field)
}

func TestALoginThatNobodyAnswersIsNotDenied(t *testing.T) {
	away := httptest.NewTLSServer(http.NotFoundHandler())
	away.Close()
	o := open(t, map[string]any{"endpoint": away.URL, "tenantId": amllab.Tenant, "clientId": amllab.ClientID, "clientSecret": amllab.ClientSecret})
	t.Setenv("AZURE_AUTHORITY_HOST", away.URL)
	_, err := o.Submit(t.Context(), o.job("true"))
	require.Equal(t, platforms.Transient, platforms.CodeOf(err), "%v", err)
	require.NotContains(t, err.Error(), amllab.ClientSecret)
}
