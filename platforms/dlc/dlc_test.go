package dlc_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/dlc"
	"github.com/perennial-ml/perennial/testsuite/dlclab"
	"github.com/perennial-ml/perennial/testsuite/platformtest"
	"github.com/perennial-ml/perennial/testsuite/servicelab"
	"github.com/perennial-ml/perennial/trial"
)

var runner string

func TestMain(m *testing.M) { os.Exit(platformtest.RunWithRunner(m, &runner)) }

// keys are a section for a service, as NNI's users write it, with some keys as a
// test has them.
func keys(service *dlclab.Service, more map[string]any) map[string]any {
	return platformtest.Keys(map[string]any{
		"type": "Worker", "image": "registry/nni:latest", "jobType": "PyTorchJob", "podCount": 1, "ecsSpec": dlclab.Spec,
		"region": dlclab.Region, "endpoint": service.URL, "workspaceId": dlclab.Workspace, "nasDataSourceId": dlclab.NAS,
		"accessKeyId": dlclab.KeyID, "accessKeySecret": dlclab.KeySecret,
		"localStorageMountPoint": service.Here, "containerStorageMountPoint": service.There,
	}, more)
}

const interval = 50 * time.Millisecond

func kind(state string) platforms.Kind {
	return dlc.New(dlc.Options{StateDirectory: state, Runner: runner, Interval: interval})
}

func TestConformance(t *testing.T) {
	platformtest.RunSection(t, kind, func(t *testing.T) map[string]any { return keys(dlclab.New(t), nil) })
}

func TestConformanceWithEnvironmentsThatTakeTrialAfterTrial(t *testing.T) {
	platformtest.RunSection(t, kind, func(t *testing.T) map[string]any { return keys(dlclab.New(t), map[string]any{"reuseMode": true}) })
}

// opened is a section of a service of its own.
type opened struct {
	*platformtest.Opened
	*dlclab.Service
}

func open(t *testing.T, more map[string]any) opened {
	service := dlclab.New(t)
	return opened{platformtest.Open(t, kind, keys(service, more)), service}
}

func TestASubmissionWhoseAnswerWasLostMakesNoSecondJob(t *testing.T) {
	t.Parallel()
	o := open(t, nil)
	o.Have(servicelab.Fault{Of: "CreateJob", Lost: true})
	_, err := o.Submit(t.Context(), o.Job(1, "sleep 0.3"))
	require.Equal(t, platforms.Transient, platforms.CodeOf(err))
	require.ErrorContains(t, err, "cannot reach 127.0.0.1")
	require.Positive(t, platforms.AfterOf(err), "not before lists show what there is")
	handle := o.Start(1, "sleep 0.3")
	o.Await(handle, platformtest.Succeeded)
	require.Equal(t, 1, o.Calls("CreateJob"))
}

func TestAJobThatWasMadeTwiceSinceListsWereLateRunsOnce(t *testing.T) {
	t.Parallel()
	o := open(t, nil)
	witness := filepath.Join(t.TempDir(), "witness")
	o.Nodes = 1
	o.Late(true)
	o.Have(servicelab.Fault{Of: "CreateJob", Lost: true})
	_, err := o.Submit(t.Context(), o.Job(1, "echo ran >>"+witness+"; sleep 1"))
	require.Error(t, err)
	handle := o.Start(1, "echo ran >>"+witness+"; sleep 1")
	require.Equal(t, 2, o.Calls("CreateJob"))
	o.Late(false)
	o.Await(handle, platformtest.Succeeded)
	require.Eventually(t, func() bool { states := o.States(); return states["Queuing"]+states["Running"] == 0 }, time.Minute, 50*time.Millisecond)
	content, err := os.ReadFile(witness)
	require.NoError(t, err)
	require.Equal(t, "ran\n", string(content))
}

func TestARunThatNoListShowsYetIsAskedAboutByItsID(t *testing.T) {
	t.Parallel()
	o := open(t, nil)
	o.Late(true)
	o.Await(o.Start(1, "sleep 0.3"), platformtest.Succeeded)
	require.Positive(t, o.Calls("GetJob"))
}

func TestAJobThatWaitsSaysWhatDLCsEventsSay(t *testing.T) {
	t.Parallel()
	o := open(t, nil)
	o.Nodes = 1
	first := o.Start(1, "exec sleep 60")
	o.Await(first, platformtest.Running)
	second := o.Start(2, "true")
	report := o.Await(second, func(report platforms.Report) bool { return report.Reason.Code == "queued" })
	require.Contains(t, report.Reason.Text, "insufficient nvidia.com/gpu")
	require.NoError(t, o.Cancel(t.Context(), first, trial.Intent{Cause: trial.CauseUser}))
	last := o.Await(second, platformtest.Succeeded)
	require.Zero(t, last.Reason)
}

func TestARefusalSaysWhatToDo(t *testing.T) {
	t.Parallel()
	o := open(t, nil)
	handle := o.Start(1, "exec sleep 60")
	for _, of := range []struct {
		servicelab.Fault
		code platforms.Code
		says string
	}{
		{servicelab.Fault{Status: 503, Code: dlclab.Refusal("Throttling.User"), RetryAfter: "7"}, platforms.Exhausted, "Throttling.User"},
		{servicelab.Fault{Status: 429, HTML: true, RetryAfter: "7"}, platforms.Exhausted, "429"},
		{servicelab.Fault{Status: 502, HTML: true}, platforms.Transient, "502"},
		{servicelab.Fault{Status: 400, Code: dlclab.Refusal("SignatureDoesNotMatch")}, platforms.Denied, "renew accessKeyId and accessKeySecret"},
		{servicelab.Fault{Status: 403, Code: dlclab.Refusal("Forbidden")}, platforms.Denied, "renew accessKeyId and accessKeySecret"},
		{servicelab.Fault{Status: 400, Code: dlclab.Refusal("IllegalTimestamp")}, platforms.Transient, "IllegalTimestamp"},
	} {
		of.Fault.Of = "ListJobs"
		o.Have(of.Fault)
		err := o.AwaitFault(handle)
		require.Equal(t, of.code, platforms.CodeOf(err), err.Error())
		require.ErrorContains(t, err, of.says)
		require.NotContains(t, err.Error(), dlclab.KeySecret)
		if of.RetryAfter != "" {
			require.Equal(t, 7*time.Second, platforms.AfterOf(err))
		}
	}
	o.End(handle)
}

func TestARenewedKeyIsUsedAtOnce(t *testing.T) {
	t.Parallel()
	o := open(t, nil)
	o.Renew("another-secret-of-the-access-key")
	_, err := o.Submit(t.Context(), o.Job(1, "true"))
	require.Equal(t, platforms.Denied, platforms.CodeOf(err))
	o.Set("accessKeySecret", "another-secret-of-the-access-key")
	o.Await(o.Start(1, "true"), platformtest.Succeeded)
}

func TestManyRunsAreAskedAboutByOneCall(t *testing.T) {
	t.Parallel()
	o := open(t, nil)
	var handles []platforms.Handle
	for sequence := range 5 {
		handles = append(handles, o.Start(sequence, "exec sleep 60"))
	}
	before := o.Calls("ListJobs")
	require.Eventually(t, func() bool { // what was said just before is as good for a moment
		_, err := o.Poll(t.Context(), platforms.Ask(handles...))
		return err == nil && o.Calls("ListJobs") > before
	}, time.Minute, 20*time.Millisecond)
	require.Equal(t, 1, o.Calls("ListJobs")-before)
	for _, handle := range handles {
		o.End(handle)
	}
}

func TestResourcesOfOnesOwnAreWrittenAsNNIsUsersDo(t *testing.T) {
	t.Parallel()
	o := open(t, map[string]any{"ecsSpec": `{'resource_id': 'quota1', 'cpu': '4', 'memory': '16Gi', 'gpu': 1, 'gputype': 'V100', 'shared_memory': '8Gi'}`})
	o.Await(o.Start(1, "true"), platformtest.Succeeded)
}

func TestASectionThatCannotWorkIsRefusedByField(t *testing.T) {
	t.Parallel()
	service := dlclab.New(t)
	for field, more := range map[string]map[string]any{
		"ecsSpec":                    {"ecsSpec": "{'cpus': 4}"},
		"podCount":                   {"podCount": 2},
		"localStorageMountPoint":     {"localStorageMountPoint": "/no/such/mount"},
		"containerStorageMountPoint": {"containerStorageMountPoint": "data"},
		"endpoint":                   {"endpoint": "ftp://pai"},
		"priority":                   {"priority": 12},
	} {
		platformtest.RequireFault(t, kind(t.TempDir()), keys(service, more), field)
	}
}

func TestTryTellsOfTheSpecAndTheKey(t *testing.T) {
	t.Parallel()
	o := open(t, map[string]any{"ecsSpec": "ecs.none"})
	problems := o.Problems()
	require.Len(t, problems, 1)
	require.Contains(t, problems[0], "has no instance type ecs.none")
	o.Renew("another")
	require.Contains(t, o.Problems()[0], "renew accessKeyId")
}

func TestJobsGoWithTheirExperimentUnlessTheyAreKept(t *testing.T) {
	t.Parallel()
	for _, keep := range []bool{false, true} {
		o := open(t, map[string]any{"keepJobs": keep})
		o.Await(o.Start(1, "true"), platformtest.Succeeded)
		require.Eventually(t, func() bool { return o.States()["Succeeded"] == 1 }, time.Minute, 20*time.Millisecond)
		require.NoError(t, o.Platform.(platforms.WithCleanup).CleanUp(t.Context()))
		require.Equal(t, keep, len(o.States()) == 1)
	}
}

func TestManyTrialsCostFewCallsNoneOfWhichIsRefused(t *testing.T) {
	t.Parallel()
	o, number := open(t, nil), platformtest.Many(t, 60)
	polls := 0
	o.RunMany(number, 20, "echo perennial: final 1", func() { polls++; platformtest.Tick() })
	t.Logf("polls: %d, calls: %v", polls, o.AllCalls())
	require.Equal(t, number, o.Calls("CreateJob"))
	require.LessOrEqual(t, o.Calls("ListJobs"), number+polls, "one before a job is made, and one for all of them")
}

func TestAnEnvironmentOfWhichNobodyHeardServesAndGoesWithItsExperiment(t *testing.T) {
	t.Parallel()
	o := open(t, map[string]any{"reuseMode": true})
	o.Have(servicelab.Fault{Of: "CreateJob", Lost: true})
	handle := o.Start(1, "sleep 2; echo perennial: final 1")
	o.Await(handle, platformtest.Running)
	report := o.Await(handle, platformtest.Succeeded)
	require.Len(t, report.Journal.Records, 1)
	require.Equal(t, 1, o.Calls("CreateJob"))
	require.Eventually(t, func() bool {
		require.NoError(t, o.Platform.(platforms.WithCleanup).CleanUp(t.Context()))
		return len(o.States()) == 0
	}, time.Minute, 20*time.Millisecond)
}

func TestManyTrialsOfAFewEnvironmentsCostFewJobs(t *testing.T) {
	t.Parallel()
	o := open(t, map[string]any{"reuseMode": true})
	o.RunMany(platformtest.Many(t, 60), 5, "echo perennial: final 1", platformtest.Tick)
	t.Logf("calls: %v", o.AllCalls())
	require.LessOrEqual(t, o.Calls("CreateJob"), 5)
	require.NoError(t, o.Platform.(platforms.WithCleanup).CleanUp(t.Context()))
	require.Eventually(t, func() bool { states := o.States(); return states["Queuing"]+states["Running"] == 0 }, time.Minute, 20*time.Millisecond)
}
