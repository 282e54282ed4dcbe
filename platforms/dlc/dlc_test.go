package dlc_test

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
	"github.com/perennial-ml/perennial/platforms/dlc"
	"github.com/perennial-ml/perennial/testsuite/dlclab"
	"github.com/perennial-ml/perennial/testsuite/platformtest"
	"github.com/perennial-ml/perennial/testsuite/servicelab"
	"github.com/perennial-ml/perennial/trial"
)

var runner string

func TestMain(m *testing.M) {
	directory, err := os.MkdirTemp("", "dlc-test-")
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

// options are a section for a service, as NNI's users write it, with some keys as a
// test has them.
func options(t *testing.T, service *dlclab.Service, more map[string]any) json.RawMessage {
	section := map[string]any{
		"type": "Worker", "image": "registry/nni:latest", "jobType": "PyTorchJob", "podCount": 1, "ecsSpec": dlclab.Spec,
		"region": dlclab.Region, "endpoint": service.URL, "workspaceId": dlclab.Workspace, "nasDataSourceId": dlclab.NAS,
		"accessKeyId": dlclab.KeyID, "accessKeySecret": dlclab.KeySecret,
		"localStorageMountPoint": service.Here, "containerStorageMountPoint": service.There,
	}
	for name, value := range more {
		section[name] = value
	}
	content, err := json.Marshal(section)
	require.NoError(t, err)
	return content
}

func kind(state string) platforms.Kind {
	return dlc.New(dlc.Options{StateDirectory: state, Runner: runner, Interval: 50 * time.Millisecond})
}

func TestConformance(t *testing.T) {
	platformtest.Run(t, func(t *testing.T) platformtest.Subject {
		service, state := dlclab.New(t), t.TempDir()
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
	*dlclab.Service
	t       *testing.T
	section json.RawMessage
}

func open(t *testing.T, more map[string]any) *opened {
	o := &opened{Service: dlclab.New(t), t: t}
	o.section = options(t, o.Service, more)
	o.Platform = kind(t.TempDir()).Open(platforms.Section{
		Platform: dlc.Name, Experiment: "abcdefgh", Resolve: func(context.Context) (json.RawMessage, error) { return o.section, nil },
	})
	return o
}

func (o *opened) job(sequence int, command string) platforms.Job {
	job := platformtest.ShellJob(o.t, trial.Key{Experiment: "abcdefgh", Sequence: sequence, Attempt: 1}, platformtest.Behaviour{})
	job.Command = command
	return job
}

func (o *opened) submit(sequence int, command string) platforms.Handle {
	handle, err := o.Submit(o.t.Context(), o.job(sequence, command))
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

func TestASubmissionWhoseAnswerWasLostMakesNoSecondJob(t *testing.T) {
	t.Parallel()
	o := open(t, nil)
	o.Have(servicelab.Fault{Of: "CreateJob", Lost: true})
	_, err := o.Submit(t.Context(), o.job(1, "sleep 0.3"))
	require.Equal(t, platforms.Transient, platforms.CodeOf(err))
	require.ErrorContains(t, err, "cannot reach 127.0.0.1")
	require.Positive(t, platforms.AfterOf(err), "not before lists show what there is")
	handle := o.submit(1, "sleep 0.3")
	o.await(handle, succeeded)
	require.Equal(t, 1, o.Calls("CreateJob"))
}

func TestAJobThatWasMadeTwiceSinceListsWereLateRunsOnce(t *testing.T) {
	t.Parallel()
	o := open(t, nil)
	witness := filepath.Join(t.TempDir(), "witness")
	o.Nodes = 1
	o.Late(true)
	o.Have(servicelab.Fault{Of: "CreateJob", Lost: true})
	_, err := o.Submit(t.Context(), o.job(1, "echo ran >>"+witness+"; sleep 1"))
	require.Error(t, err)
	handle := o.submit(1, "echo ran >>"+witness+"; sleep 1")
	require.Equal(t, 2, o.Calls("CreateJob"))
	o.Late(false)
	o.await(handle, succeeded)
	require.Eventually(t, func() bool { states := o.States(); return states["Queuing"]+states["Running"] == 0 }, time.Minute, 50*time.Millisecond)
	content, err := os.ReadFile(witness)
	require.NoError(t, err)
	require.Equal(t, "ran\n", string(content))
}

func TestARunThatNoListShowsYetIsAskedAboutByItsID(t *testing.T) {
	t.Parallel()
	o := open(t, nil)
	o.Late(true)
	o.await(o.submit(1, "sleep 0.3"), succeeded)
	require.Positive(t, o.Calls("GetJob"))
}

func TestAJobThatWaitsSaysWhatDLCsEventsSay(t *testing.T) {
	t.Parallel()
	o := open(t, nil)
	o.Nodes = 1
	first := o.submit(1, "exec sleep 60")
	o.await(first, func(report platforms.Report) bool { return report.Phase == platforms.Running })
	second := o.submit(2, "true")
	report := o.await(second, func(report platforms.Report) bool { return report.Reason.Code == "queued" })
	require.Contains(t, report.Reason.Text, "insufficient nvidia.com/gpu")
	require.NoError(t, o.Cancel(t.Context(), first, trial.Intent{Cause: trial.CauseUser}))
	last := o.await(second, succeeded)
	require.Zero(t, last.Reason)
}

func TestARefusalSaysWhatToDo(t *testing.T) {
	t.Parallel()
	o := open(t, nil)
	handle := o.submit(1, "exec sleep 60")
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
		var err error
		require.Eventually(t, func() bool { // what was said just before is as good for a moment
			_, err = o.Poll(t.Context(), platforms.Ask(handle))
			return err != nil
		}, time.Minute, 20*time.Millisecond)
		require.Equal(t, of.code, platforms.CodeOf(err), err.Error())
		require.ErrorContains(t, err, of.says)
		require.NotContains(t, err.Error(), dlclab.KeySecret)
		if of.RetryAfter != "" {
			require.Equal(t, 7*time.Second, platforms.AfterOf(err))
		}
	}
	require.NoError(t, o.Cancel(t.Context(), handle, trial.Intent{Cause: trial.CauseUser}))
	o.await(handle, func(report platforms.Report) bool { return report.Phase.Definite() })
}

func TestARenewedKeyIsUsedAtOnce(t *testing.T) {
	t.Parallel()
	o := open(t, nil)
	o.Renew("another-secret-of-the-access-key")
	_, err := o.Submit(t.Context(), o.job(1, "true"))
	require.Equal(t, platforms.Denied, platforms.CodeOf(err))
	o.section = options(t, o.Service, map[string]any{"accessKeySecret": "another-secret-of-the-access-key"})
	o.await(o.submit(1, "true"), succeeded)
}

func TestManyRunsAreAskedAboutByOneCall(t *testing.T) {
	t.Parallel()
	o := open(t, nil)
	var handles []platforms.Handle
	for sequence := range 5 {
		handles = append(handles, o.submit(sequence, "exec sleep 60"))
	}
	before := o.Calls("ListJobs")
	require.Eventually(t, func() bool { // what was said just before is as good for a moment
		_, err := o.Poll(t.Context(), platforms.Ask(handles...))
		return err == nil && o.Calls("ListJobs") > before
	}, time.Minute, 20*time.Millisecond)
	require.Equal(t, 1, o.Calls("ListJobs")-before)
	for _, handle := range handles {
		require.NoError(t, o.Cancel(t.Context(), handle, trial.Intent{Cause: trial.CauseUser}))
		o.await(handle, func(report platforms.Report) bool { return report.Phase.Definite() })
	}
}

func TestResourcesOfOnesOwnAreWrittenAsNNIsUsersDo(t *testing.T) {
	t.Parallel()
	o := open(t, map[string]any{"ecsSpec": `{'resource_id': 'quota1', 'cpu': '4', 'memory': '16Gi', 'gpu': 1, 'gputype': 'V100', 'shared_memory': '8Gi'}`})
	o.await(o.submit(1, "true"), succeeded)
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
		var faults platforms.OptionFaults
		require.ErrorAs(t, kind(t.TempDir()).Check(options(t, service, more)), &faults, field)
		require.Len(t, faults, 1)
		require.Equal(t, field, faults[0].Field)
	}
}

func TestTryTellsOfTheSpecAndTheKey(t *testing.T) {
	t.Parallel()
	o := open(t, map[string]any{"ecsSpec": "ecs.none"})
	states, err := o.Platform.(platforms.WithHosts).Try(t.Context())
	require.NoError(t, err)
	require.Len(t, states[0].Problems, 1)
	require.Contains(t, states[0].Problems[0].Text, "has no instance type ecs.none")
	o.Renew("another")
	states, err = o.Platform.(platforms.WithHosts).Try(t.Context())
	require.NoError(t, err)
	require.Contains(t, states[0].Problems[0].Text, "renew accessKeyId")
}

func TestJobsGoWithTheirExperimentUnlessTheyAreKept(t *testing.T) {
	t.Parallel()
	for _, keep := range []bool{false, true} {
		o := open(t, map[string]any{"keepJobs": keep})
		o.await(o.submit(1, "true"), succeeded)
		require.Eventually(t, func() bool { return o.States()["Succeeded"] == 1 }, time.Minute, 20*time.Millisecond)
		require.NoError(t, o.Platform.(platforms.WithCleanup).CleanUp(t.Context()))
		require.Equal(t, keep, len(o.States()) == 1)
	}
}
