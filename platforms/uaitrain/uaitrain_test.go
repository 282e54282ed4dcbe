package uaitrain_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/uaitrain"
	"github.com/perennial-ml/perennial/testsuite/platformtest"
	"github.com/perennial-ml/perennial/testsuite/servicelab"
	"github.com/perennial-ml/perennial/testsuite/uailab"
	"github.com/perennial-ml/perennial/trial"
)

var runner string

func TestMain(m *testing.M) { os.Exit(platformtest.RunWithRunner(m, &runner)) }

// keys are a section for a service, with some keys as a test has them.
func keys(service *uailab.Service, more map[string]any) map[string]any {
	return platformtest.Keys(map[string]any{
		"publicKey": uailab.PublicKey, "privateKey": uailab.PrivateKey, "projectId": uailab.Project, "endpoint": service.URL,
		"image": uailab.Image, "nodeType": "1-P40", "ufsPath": uailab.UFS, "localStorageMountPoint": service.Here,
	}, more)
}

func kind(state string) platforms.Kind {
	return uaitrain.New(uaitrain.Options{StateDirectory: state, Runner: runner, Interval: 50 * time.Millisecond, CallsAMinute: 1 << 20})
}

func TestConformance(t *testing.T) {
	platformtest.RunSection(t, kind, func(t *testing.T) map[string]any { return keys(uailab.New(t), nil) })
}

// opened is a section of a service of its own.
type opened struct {
	*platformtest.Opened
	*uailab.Service
}

func open(t *testing.T, more map[string]any) opened {
	service := uailab.New(t)
	return opened{platformtest.Open(t, kind, keys(service, more)), service}
}

func TestASubmissionWhoseAnswerWasLostMakesNoSecondJob(t *testing.T) {
	t.Parallel()
	o := open(t, nil)
	o.Have(servicelab.Fault{Of: "CreateUAITrainJob", Lost: true})
	_, err := o.Submit(t.Context(), o.Job(1, "sleep 0.3"))
	require.Equal(t, platforms.Transient, platforms.CodeOf(err))
	require.ErrorContains(t, err, "cannot reach 127.0.0.1")
	require.Positive(t, platforms.AfterOf(err), "not before lists show what there is")
	handle := o.Start(1, "sleep 0.3")
	o.Await(handle, platformtest.Succeeded)
	require.Equal(t, 1, o.Calls("CreateUAITrainJob"))
}

func TestAJobThatWasMadeTwiceSinceListsWereLateRunsOnce(t *testing.T) {
	t.Parallel()
	o := open(t, nil)
	witness := filepath.Join(t.TempDir(), "witness")
	o.Slots = 1
	o.Late(true)
	o.Have(servicelab.Fault{Of: "CreateUAITrainJob", Lost: true})
	_, err := o.Submit(t.Context(), o.Job(1, "echo ran >>"+witness+"; sleep 1"))
	require.Error(t, err)
	handle := o.Start(1, "echo ran >>"+witness+"; sleep 1")
	require.Equal(t, 2, o.Calls("CreateUAITrainJob"))
	o.Late(false)
	o.Await(handle, platformtest.Succeeded)
	require.Eventually(t, func() bool { states := o.States(); return states["Waiting"]+states["Doing"] == 0 }, time.Minute, 50*time.Millisecond)
	content, err := os.ReadFile(witness)
	require.NoError(t, err)
	require.Equal(t, "ran\n", string(content))
}

func TestARunThatNoListShowsYetIsAskedAboutByItsID(t *testing.T) {
	t.Parallel()
	o := open(t, nil)
	o.Late(true)
	o.Await(o.Start(1, "sleep 0.3"), platformtest.Succeeded)
	require.Positive(t, o.Calls("GetUAITrainJobList"))
}

func TestAJobThatWaitsSaysForWhichNodes(t *testing.T) {
	t.Parallel()
	o := open(t, nil)
	o.Slots = 1
	first := o.Start(1, "exec sleep 60")
	o.Await(first, platformtest.Running)
	second := o.Start(2, "true")
	report := o.Await(second, func(report platforms.Report) bool { return report.Reason.Code == "queued" })
	require.Contains(t, report.Reason.Text, "is waiting, on 1-P40")
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
		{servicelab.Fault{Status: 429, RetryAfter: "7"}, platforms.Exhausted, "429"},
		{servicelab.Fault{Status: 502}, platforms.Transient, "502"},
		{servicelab.Fault{Status: 200, Code: uailab.Refusal(110, "timeout")}, platforms.Transient, "RetCode 110: timeout"},
		{servicelab.Fault{Status: 200, Code: uailab.Refusal(130, "")}, platforms.Transient, "RetCode 130"},
		{servicelab.Fault{Status: 200, Code: uailab.Refusal(150, "")}, platforms.Transient, "RetCode 150"},
		{servicelab.Fault{Status: 200, Code: uailab.Refusal(100, "")}, platforms.Denied, "renew publicKey and privateKey"},
		{servicelab.Fault{Status: 200, Code: uailab.Refusal(170, "")}, platforms.Denied, "renew publicKey and privateKey"},
		{servicelab.Fault{Status: 200, Code: uailab.Refusal(171, "with "+uailab.PrivateKey)}, platforms.Denied, "with ***; renew publicKey and privateKey"},
		{servicelab.Fault{Status: 200, Code: uailab.Refusal(140, "")}, platforms.Denied, "have UAI-Train allowed"},
		{servicelab.Fault{Status: 200, Code: uailab.Refusal(240, "")}, platforms.Denied, "have the project allowed"},
		{servicelab.Fault{Status: 200, Code: uailab.Refusal(210, "")}, platforms.Invalid, "RetCode 210"},
		{servicelab.Fault{Status: 200, Code: uailab.Refusal(220, "")}, platforms.Invalid, "RetCode 220"},
		{servicelab.Fault{Status: 200, Code: uailab.Refusal(230, "")}, platforms.Invalid, "RetCode 230"},
		{servicelab.Fault{Status: 200, Code: uailab.Refusal(520, "")}, platforms.Exhausted, "top up the account"},
		{servicelab.Fault{Status: 200, Code: uailab.Refusal(999, "")}, platforms.Denied, "enabled for the project"},
		{servicelab.Fault{Status: 200, Code: uailab.Refusal(31337, "news")}, platforms.Transient, "RetCode 31337: news"},
	} {
		p := o.Again() // each as a process that was not told to wait
		o.Have(of.Fault)
		_, err := p.Poll(t.Context(), platforms.Ask(handle))
		require.Equal(t, of.code, platforms.CodeOf(err), "%v", err)
		require.ErrorContains(t, err, of.says)
		require.NotContains(t, err.Error(), uailab.PrivateKey)
		if of.RetryAfter != "" {
			require.Equal(t, 7*time.Second, platforms.AfterOf(err))
		}
	}
	o.End(handle)
}

func TestAThrottledServiceIsLeftAloneForAsLongAsItWants(t *testing.T) {
	t.Parallel()
	o := open(t, nil)
	handle := o.Start(1, "exec sleep 60")
	o.Have(servicelab.Fault{Of: "GetUAITrainJobList", Status: 429, RetryAfter: "3600"})
	_, err := o.Poll(t.Context(), platforms.Ask(handle))
	require.Equal(t, platforms.Exhausted, platforms.CodeOf(err))
	before := o.Calls("GetUAITrainJobList")
	_, err = o.Submit(t.Context(), o.Job(2, "true"))
	require.True(t, platforms.NoRoom(err), "%v", err)
	require.ErrorContains(t, err, "the next one at")
	require.Equal(t, before, o.Calls("GetUAITrainJobList"))
	require.Equal(t, 1, o.Calls("CreateUAITrainJob"))
	o.Platform = o.Again()
	o.End(handle)
}

func TestAnOutageSaysNothingOfARun(t *testing.T) {
	t.Parallel()
	o := open(t, nil)
	handle := o.Start(1, "sleep 0.5")
	o.Down(true)
	_, err := o.Poll(t.Context(), platforms.Ask(handle))
	require.Equal(t, platforms.Transient, platforms.CodeOf(err))
	require.ErrorContains(t, err, "cannot reach 127.0.0.1")
	o.Down(false)
	o.Await(handle, platformtest.Succeeded)
}

func TestARenewedKeyIsUsedAtOnce(t *testing.T) {
	t.Parallel()
	o := open(t, nil)
	o.Renew("another-private-key")
	_, err := o.Submit(t.Context(), o.Job(1, "true"))
	require.Equal(t, platforms.Denied, platforms.CodeOf(err))
	o.Set("privateKey", "another-private-key")
	o.Await(o.Start(1, "true"), platformtest.Succeeded)
}

func TestManyRunsAreAskedAboutByOneCallForEachPageOfJobs(t *testing.T) {
	t.Parallel()
	o := open(t, nil)
	o.Fill(230)
	o.Clock = 3 * time.Hour
	var handles []platforms.Handle
	for sequence := range 5 {
		handles = append(handles, o.Start(sequence, "exec sleep 60"))
	}
	before := o.Calls("GetUAITrainJobList")
	require.Zero(t, before, "what was never asked for need not be looked for")
	require.Eventually(t, func() bool {
		reports, err := o.Poll(t.Context(), platforms.Ask(handles...))
		return err == nil && reports[0].Phase == platforms.Running && reports[4].Phase == platforms.Running
	}, time.Minute, 50*time.Millisecond)
	calls := o.Calls("GetUAITrainJobList")
	require.Zero(t, calls%2, "235 jobs are two pages, of 100 and 200")
	for _, handle := range handles {
		o.End(handle)
	}
}

func TestASectionThatCannotWorkIsRefusedByField(t *testing.T) {
	t.Parallel()
	service := uailab.New(t)
	for field, more := range map[string]map[string]any{
		"nodeType":               {"nodeType": "P40"},
		"ufsPath":                {"ufsPath": "/mnt/ufs"},
		"inputPath":              {"inputPath": "data"},
		"localStorageMountPoint": {"localStorageMountPoint": "/no/such/mount"},
		"endpoint":               {"endpoint": "ftp://api"},
		"framework":              {"nodeCount": 2},
	} {
		platformtest.RequireFault(t, kind(t.TempDir()), keys(service, more), field)
	}
}

func TestWhatTheServiceDoesNotHaveIsSaidByField(t *testing.T) {
	t.Parallel()
	for field, of := range map[string]struct {
		more map[string]any
		says string
	}{
		"nodeType":        {map[string]any{"nodeType": "8-V100"}, "there is 1-P40, 4-P40"},
		"nodeCount":       {map[string]any{"nodeCount": 9, "framework": "tensorflow"}, "from 2 to 4 nodes"},
		"framework":       {map[string]any{"nodeCount": 2, "framework": "caffe"}, "which cn-bj2-04 does not have"},
		"maxExecuteHours": {map[string]any{"maxExecuteHours": 1}, "from 6 to 720 hours"},
	} {
		o := open(t, of.more)
		states, err := o.Platform.(platforms.WithHosts).Try(t.Context())
		require.NoError(t, err)
		require.Len(t, states[0].Faults, 1, field)
		require.Equal(t, field, states[0].Faults[0].Field)
		require.ErrorContains(t, states[0].Faults[0], of.says)
		_, err = o.Submit(t.Context(), o.Job(1, "true"))
		require.Equal(t, platforms.Invalid, platforms.CodeOf(err))
		require.Zero(t, o.Calls("CreateUAITrainJob"), "limits are checked before a job is made")
	}
}

func TestTryTellsOfThePriceAndTheKey(t *testing.T) {
	t.Parallel()
	o := open(t, nil)
	states, err := o.Platform.(platforms.WithHosts).Try(t.Context())
	require.NoError(t, err)
	require.Empty(t, states[0].Problems)
	require.Contains(t, states[0].Text, "1-P40 at a unit price of 4.20 CNY, for 6 to 720 hours")
	o.Renew("another")
	o.Platform = o.Again()
	require.Contains(t, o.Problems()[0], "renew publicKey and privateKey")
}

func TestJobsGoWithTheirExperimentUnlessTheyAreKept(t *testing.T) {
	t.Parallel()
	for _, keep := range []bool{false, true} {
		o := open(t, map[string]any{"keepJobs": keep})
		o.Await(o.Start(1, "true"), platformtest.Succeeded)
		require.NoError(t, o.Platform.(platforms.WithCleanup).CleanUp(t.Context()))
		require.Equal(t, keep, len(o.States()) == 1)
	}
}

func TestNoJobIsBilledAfterItsExperiment(t *testing.T) {
	t.Parallel()
	o := open(t, map[string]any{"keepJobs": true})
	handle := o.Start(1, "exec sleep 600")
	o.Await(handle, platformtest.Running)
	require.NoError(t, o.Platform.(platforms.WithCleanup).CleanUp(t.Context()))
	require.Equal(t, map[string]int{"Stopped": 1}, o.States())
}

func TestWhatARunCostsAndItsTensorBoardAreTold(t *testing.T) {
	t.Parallel()
	o := open(t, nil)
	handle := o.Start(1, "exec sleep 60")
	var learned platforms.Handle
	o.Await(handle, func(report platforms.Report) bool {
		if report.Handle != nil {
			learned = *report.Handle
		}
		return learned.TensorBoard != ""
	})
	require.Contains(t, learned.Host, "on 1-P40, 0.07 CNY")
	require.Contains(t, learned.URL, "https://console.ucloud.cn/uaitrain/")
	require.Contains(t, learned.TensorBoard, "http://tensorboard.standin/")
	o.End(handle)
}
