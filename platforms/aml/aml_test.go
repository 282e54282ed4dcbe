package aml_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
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
	runner string
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
	if azure, err = amllab.Start(); err != nil {
		return 1, err
	}
	defer azure.Close()
	for _, variable := range azure.Environment() {
		name, value, _ := strings.Cut(variable, "=")
		os.Setenv(name, value)
	}
	return platformtest.RunWithRunner(m, &runner), nil
}

func keys(more map[string]any) map[string]any {
	return platformtest.Keys(map[string]any{
		"subscriptionId": amllab.Subscription, "resourceGroup": amllab.Group, "workspaceName": amllab.Workspace,
		"computeTarget": amllab.Compute, "dockerImage": "msranni/nni:latest", "endpoint": azure.URL,
	}, more)
}

// kind is the platform where logs of jobs that are over are behind for a moment only.
func kind(state string) platforms.Kind { return kindBehind(time.Second)(state) }

func kindBehind(behind time.Duration) platformtest.KindMaker {
	return func(state string) platforms.Kind {
		return aml.New(aml.Options{
			StateDirectory: state, Interval: 50 * time.Millisecond, Behind: behind, HTTP: azure.Client,
			Runner: func(string, string) ([]byte, error) { return os.ReadFile(runner) },
		})
	}
}

func TestConformance(t *testing.T) {
	platformtest.RunSection(t, kind, func(*testing.T) map[string]any { return keys(nil) })
}

func open(t *testing.T, more map[string]any) *platformtest.Opened {
	return platformtest.Open(t, kind, keys(more))
}

func TestASubmissionWhoseAnswerWasLostMakesNoSecondJob(t *testing.T) {
	o := open(t, nil)
	before := azure.Calls("submit")
	azure.Have(servicelab.Fault{Of: "submit", Lost: true})
	job := o.Job(1, "sleep 0.3")
	handle, err := o.Submit(t.Context(), job)
	if err != nil { // it may have been found again at once
		require.Equal(t, platforms.Transient, platforms.CodeOf(err))
		handle, err = o.Submit(t.Context(), job)
	}
	require.NoError(t, err)
	o.Await(handle, platformtest.Succeeded)
	require.Equal(t, 1, azure.Calls("submit")-before)
}

func TestCodeIsUploadedOnceByItsContent(t *testing.T) {
	o, code := open(t, nil), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(code, "train.sh"), []byte("echo perennial: final 5 # "+t.Name()), 0o644))
	first := o.Prepared(code)
	before := azure.Calls("upload")
	again := open(t, nil).Prepared(code)
	require.JSONEq(t, string(first.Data), string(again.Data))
	require.Equal(t, before, azure.Calls("upload"), "another experiment with the same code")
	job := o.Job(1, "sh train.sh")
	job.Workspace = first
	handle, err := o.Submit(t.Context(), job)
	require.NoError(t, err)
	report := o.Await(handle, platformtest.Succeeded)
	require.Len(t, report.Journal.Records, 1)
	require.Equal(t, "5", report.Journal.Records[0].Value)
}

func TestARefusalSaysWhatToDo(t *testing.T) {
	o := open(t, nil)
	handle := o.Start(1, "exec sleep 60")
	o.Await(handle, platformtest.Running)
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
		err := o.AwaitFault(handle)
		require.Equal(t, of.code, platforms.CodeOf(err), err.Error())
		require.ErrorContains(t, err, of.says)
		require.NotContains(t, err.Error(), "sig=")
		if of.RetryAfter != "" {
			require.Equal(t, 7*time.Second, platforms.AfterOf(err))
		}
	}
	report := o.End(handle)
	require.Contains(t, report.Handle.URL, "https://ml.azure.com/runs/")
}

func TestARunThatCannotBeAskedAboutKeepsNothingFromOthers(t *testing.T) {
	o := open(t, nil)
	first, second := o.Start(1, "exec sleep 60"), o.Start(2, "exec sleep 60")
	o.Await(first, platformtest.Running)
	o.Await(second, platformtest.Running)
	azure.Have(servicelab.Fault{Of: "history", Status: 500})
	require.Eventually(t, func() bool { // what was said just before is as good for a moment
		reports, err := o.Poll(t.Context(), platforms.Ask(first, second))
		require.NoError(t, err)
		phases := []platforms.Phase{reports[0].Phase, reports[1].Phase}
		require.Contains(t, phases, platforms.Running)
		return slices.Contains(phases, platforms.Unreachable)
	}, time.Minute, 20*time.Millisecond)
	o.End(first)
	o.End(second)
}

func TestAnOutageSaysNothingOfARun(t *testing.T) {
	o := open(t, nil)
	handle := o.Start(1, "exec sleep 60")
	o.Await(handle, platformtest.Running)
	azure.Down(true)
	err := o.AwaitFault(handle)
	azure.Down(false)
	require.Equal(t, platforms.Transient, platforms.CodeOf(err), "%v", err)
	require.ErrorContains(t, err, "cannot reach 127.0.0.1")
	require.Equal(t, platforms.Exited, o.End(handle).Phase)
}

func TestANodeThatIsLostIsNoEndOfTheTrials(t *testing.T) {
	o := open(t, nil)
	handle := o.Start(1, "echo perennial: intermediate 1; exec sleep 60")
	o.Await(handle, func(report platforms.Report) bool { return report.Journal != nil && len(report.Journal.Records) == 1 })
	azure.Kill("perennial-" + handle.Key.String())
	report := o.Await(handle, func(report platforms.Report) bool { return report.Phase == platforms.Lost })
	require.Equal(t, "job-over", report.Reason.Code)
}

func TestALogThatIsBehindItsJobsEndLosesNothing(t *testing.T) {
	const ends, isEnded = "echo perennial: final 5", "trap 'echo perennial: intermediate 1; exit 0' TERM; touch %s; sleep 60 & wait"
	for _, command := range []string{ends, isEnded} {
		o, started := platformtest.Open(t, kindBehind(time.Hour), keys(nil)), filepath.Join(t.TempDir(), "started")
		azure.Behind(true)
		handle := o.Start(1, strings.Replace(command, "%s", started, 1))
		if command == isEnded {
			require.Eventually(t, func() bool { _, err := os.Stat(started); return err == nil }, time.Minute, 20*time.Millisecond)
			require.NoError(t, o.Cancel(t.Context(), handle, trial.Intent{Cause: trial.CauseEarlyStop}))
		}
		o.Await(handle, func(report platforms.Report) bool {
			require.False(t, report.Phase.Definite(), report.Reason.Text)
			return report.Reason.Code == "log-behind"
		})
		azure.Behind(false)
		report := o.Await(handle, func(report platforms.Report) bool { return report.Phase == platforms.Exited })
		require.Len(t, report.Journal.Records, 1)
	}
}

func TestTheStudioShowsParametersAndMetricsAsFarAsThereIsRoom(t *testing.T) {
	o, gate := open(t, nil), filepath.Join(t.TempDir(), "gate")
	handle := o.Start(1, `echo perennial: intermediate 1; echo 'perennial: intermediate {"default": 2, "loss (%)": 0.5, "note": "x", "none": NaN}'
for i in $(seq 60); do echo "perennial: intermediate {\"m$i\": 1}"; done; for i in $(seq 300); do echo perennial: intermediate 3; done
echo 'perennial: final {"default": 4, "loss (%)": 0.25}'; while [ ! -e '`+gate+`' ]; do sleep 0.1; done`)
	var metrics map[string][]float64
	var parameters map[string]string
	require.Eventually(t, func() bool {
		_, err := o.Poll(t.Context(), platforms.Ask(handle))
		metrics, parameters = azure.Shown("perennial-" + handle.Key.String())
		return err == nil && metrics["final"] != nil
	}, 3*time.Minute, 50*time.Millisecond)
	require.Equal(t, map[string]string{"x": "5.0"}, parameters)
	require.Len(t, metrics, 50, "a workspace has no more names of a run")
	require.GreaterOrEqual(t, len(metrics["default"]), 302)
	require.Equal(t, []float64{1, 2, 3}, metrics["default"][:3])
	require.Equal(t, 0.5, metrics["loss ___"][0])
	require.Equal(t, 4.0, metrics["final"][0])
	require.NoError(t, os.WriteFile(gate, nil, 0o644))
	o.Await(handle, platformtest.Succeeded)
	require.Len(t, o.Reported(handle), 363, "here all is")
}

func TestALineThatIsNoMetricEndsLikeAnyOther(t *testing.T) {
	o := open(t, nil)
	handle := o.Start(1, "echo perennial: final five; echo perennial: final 5")
	o.Await(handle, platformtest.Succeeded)
	require.Equal(t, []string{"UNREADABLE perennial: final five", "FINAL 5"}, o.Reported(handle))
}

func TestAStudioThatTakesNoMetricsKeepsNothingWaiting(t *testing.T) {
	o := open(t, nil)
	azure.Have(servicelab.Fault{Of: "show", Status: 500})
	handle := o.Start(1, "echo perennial: final 4")
	require.Len(t, o.Await(handle, platformtest.Succeeded).Journal.Records, 1)
}

func TestALoginThatIsRefusedIsDeniedAndGoesOnOnceItIsGood(t *testing.T) {
	azure.Renew("another")
	o := open(t, nil)
	_, err := o.Submit(t.Context(), o.Job(1, "true"))
	azure.Renew(amllab.ClientSecret)
	require.Equal(t, platforms.Denied, platforms.CodeOf(err), "%v", err)
	require.ErrorContains(t, err, "renew the login of Azure")
	require.NotContains(t, err.Error(), amllab.ClientSecret)
	handle := o.Start(1, "true")
	o.Await(handle, platformtest.Succeeded)
}

func TestAWorkspaceThatIsNotThereSaysNothingOfItsRuns(t *testing.T) {
	o := open(t, nil)
	handle := o.Start(1, "exec sleep 60")
	o.Await(handle, platformtest.Running)
	azure.Vanish(true)
	defer azure.Vanish(false)
	refused := func(err error) {
		require.Equal(t, platforms.Denied, platforms.CodeOf(err), "%v", err)
		require.ErrorContains(t, err, "no workspace trials in the resource group research")
	}
	refused(o.AwaitFault(handle))
	refused(o.Cancel(t.Context(), handle, trial.Intent{Cause: trial.CauseEarlyStop}))
	_, err := o.Submit(t.Context(), o.Job(2, "true"))
	refused(err)
	require.Contains(t, o.Problems()[0], "no workspace trials")
	azure.Vanish(false)
	require.Equal(t, platforms.Exited, o.End(handle).Phase)
}

func TestAJobThatSomebodyDeletedIsGone(t *testing.T) {
	o := open(t, nil)
	handle := o.Start(1, "sleep 1")
	azure.Forget("perennial-" + handle.Key.String())
	require.Equal(t, "gone", o.Await(handle, func(report platforms.Report) bool { return report.Phase == platforms.Lost }).Reason.Code)
}

func TestASectionsOwnLoginIsUsed(t *testing.T) {
	o := open(t, map[string]any{"tenantId": amllab.Tenant, "clientId": amllab.ClientID, "clientSecret": "wrong"})
	_, err := o.Submit(t.Context(), o.Job(1, "true"))
	require.Equal(t, platforms.Denied, platforms.CodeOf(err), "%v", err)
	o = open(t, map[string]any{"tenantId": amllab.Tenant, "clientId": amllab.ClientID, "clientSecret": amllab.ClientSecret})
	handle := o.Start(1, "true")
	o.Await(handle, platformtest.Succeeded)
}

func TestATokenThatAzureTakesNoLongerIsReplaced(t *testing.T) {
	o := open(t, nil)
	handle := o.Start(1, "sleep 0.5")
	azure.Expire()
	o.Await(handle, platformtest.Succeeded)
}

func TestWhatAJobPrintedIsThereWithoutItsJournal(t *testing.T) {
	o := open(t, nil)
	handle := o.Start(1, "echo hello; echo perennial: final 1")
	o.Await(handle, platformtest.Succeeded)
	log := o.Read(handle, platforms.Log{Stream: "stdout"})
	require.Contains(t, log, "hello\n")
	require.NotContains(t, log, "perennial-journal")
}

func TestTryTellsOfAComputeTargetThatThereIsNot(t *testing.T) {
	problems := open(t, map[string]any{"computeTarget": "none"}).Problems()
	require.Len(t, problems, 1)
	require.Contains(t, problems[0], "computes/none")
	require.Empty(t, open(t, nil).Problems())
}

func TestAnEndpointThatIsNoneIsRefused(t *testing.T) {
	platformtest.RequireFault(t, kind(t.TempDir()), keys(map[string]any{"endpoint": "http://azure"}), "endpoint")
}

func TestALoginThatNobodyAnswersIsNotDenied(t *testing.T) {
	away := httptest.NewTLSServer(http.NotFoundHandler())
	away.Close()
	o := open(t, map[string]any{"endpoint": away.URL, "tenantId": amllab.Tenant, "clientId": amllab.ClientID, "clientSecret": amllab.ClientSecret})
	t.Setenv("AZURE_AUTHORITY_HOST", away.URL)
	_, err := o.Submit(t.Context(), o.Job(1, "true"))
	require.Equal(t, platforms.Transient, platforms.CodeOf(err), "%v", err)
	require.NotContains(t, err.Error(), amllab.ClientSecret)
}

func TestManyTrialsCostFewCallsOfTheResourceManager(t *testing.T) {
	o, number := open(t, nil), platformtest.Many(t, 60)
	before := azure.AllCalls()
	azure.Allow("submit", 200+60*10, time.Minute) // what Resource Manager has of writes and of reads, at once and again each second
	azure.Allow("find", 250+60*25, time.Minute)
	defer azure.Unlimited()
	o.RunMany(number, 20, "sleep 2.5; echo perennial: final 1", platformtest.Tick)
	calls := azure.AllCalls()
	for sort := range calls {
		calls[sort] -= before[sort]
	}
	t.Logf("calls: %v", calls)
	require.Zero(t, azure.Refused())
	require.Equal(t, number, calls["submit"])
	require.Equal(t, number, calls["find"], "whether there is one")
	require.LessOrEqual(t, calls["asset"], number+5, "whether the code is there")
}
