package openpai_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/openpai"
	"github.com/perennial-ml/perennial/testsuite/openpailab"
	"github.com/perennial-ml/perennial/testsuite/platformtest"
	"github.com/perennial-ml/perennial/testsuite/servicelab"
	"github.com/perennial-ml/perennial/trial"
)

// world is a section on a cluster of its own, whose limits go by a clock of the test's.
type world struct {
	*openpailab.Cluster
	*platformtest.Opened
	t      *testing.T
	mutex  sync.Mutex
	now    time.Time
	passed time.Duration
}

func newWorld(t *testing.T, more map[string]any) *world { return newWorldOf(t, more, time.Hour) }

func newWorldOf(t *testing.T, more map[string]any, idle time.Duration) *world {
	w := &world{Cluster: openpailab.New(t), t: t, now: time.Now()}
	w.Cluster.At(w.clock)
	w.Opened = platformtest.Open(t, func(state string) platforms.Kind {
		return openpai.New(openpai.Options{StateDirectory: state, Runner: runner, Now: w.clock, Interval: time.Microsecond, Idle: idle})
	}, keys(w.Cluster, more))
	return w
}

func (w *world) clock() time.Time {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.now
}

func (w *world) pass(time time.Duration) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.now, w.passed = w.now.Add(time), w.passed+time
}

func (w *world) job(sequence int, behaviour platformtest.Behaviour) platforms.Job {
	return w.Job(sequence, behaviour.Command(""))
}

func (w *world) report(handle platforms.Handle) platforms.Report {
	reports, err := w.Poll(w.t.Context(), platforms.Ask(handle))
	require.NoError(w.t, err)
	return reports[0]
}

func (w *world) becomes(handle platforms.Handle, phase platforms.Phase) platforms.Report {
	w.t.Helper()
	var report platforms.Report
	require.Eventually(w.t, func() bool {
		w.pass(time.Second)
		report = w.report(handle)
		return report.Phase == phase
	}, time.Minute, 20*time.Millisecond, "it becomes %s", phase)
	return report
}

func TestAnAnswerThatIsLostIsFoundAgainByTheJobsName(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]any{})
	final := 0.5
	job := w.job(1, platformtest.Behaviour{Final: &final})
	w.Have(servicelab.Fault{Of: "submit", Lost: true})
	_, err := w.Submit(t.Context(), job)
	require.Equal(t, platforms.Transient, platforms.CodeOf(err))
	require.NotContains(t, err.Error(), "/rest-server", "what cannot be reached is named by its host")
	handle, err := w.Submit(t.Context(), job)
	require.NoError(t, err)
	require.Equal(t, 0, w.becomes(handle, platforms.Exited).Exit.Code)
	require.Len(t, w.States(), 1)
}

func TestATokenThatIsRevokedWaitsForAnotherAndSaysWhich(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]any{})
	handle, err := w.Submit(t.Context(), w.job(1, platformtest.Behaviour{Forever: true}))
	require.NoError(t, err)
	require.Equal(t, w.URL+"/job-detail.html?jobName=perennial-"+handle.Key.String()+"&username=ada", w.becomes(handle, platforms.Running).Handle.URL)
	w.Revoke("the new one")
	_, err = w.Poll(t.Context(), platforms.Ask(handle))
	require.Equal(t, platforms.Denied, platforms.CodeOf(err))
	require.ErrorContains(t, err, "renew the token of OpenPAI's user ada")
	require.NotContains(t, err.Error(), openpailab.Token)
	w.Set("token", "the new one")
	require.Equal(t, platforms.Running, w.report(handle).Phase)
	require.NoError(t, w.Cancel(t.Context(), handle, trial.Intent{Cause: trial.CauseUser}))
	require.Equal(t, trial.CauseUser, w.becomes(handle, platforms.Exited).Intent.Cause)
}

func TestAPasswordsTokenIsRenewedWhenItHasExpired(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]any{"token": "", "password": openpailab.Password})
	handle, err := w.Submit(t.Context(), w.job(1, platformtest.Behaviour{Forever: true}))
	require.NoError(t, err)
	w.becomes(handle, platforms.Running)
	require.Equal(t, 1, w.Calls("login"))
	w.pass(8 * 24 * time.Hour)
	require.Equal(t, platforms.Running, w.report(handle).Phase)
	require.Equal(t, 2, w.Calls("login"))
	w.Set("password", "wrong")
	_, err = w.Poll(t.Context(), platforms.Ask(handle))
	require.Equal(t, platforms.Denied, platforms.CodeOf(err))
	require.ErrorContains(t, err, "renew the password of OpenPAI's user ada")
	w.Set("password", openpailab.Password)
	require.NoError(t, w.Cancel(t.Context(), handle, trial.Intent{Cause: trial.CauseUser}))
	w.becomes(handle, platforms.Exited)
}

func TestWhatIsWrongIsSaidInOpenPAIsWords(t *testing.T) {
	t.Parallel()
	for _, wrong := range []struct {
		key, value string
		code       platforms.Code
		says       string
	}{
		{"virtualCluster", "nowhere", platforms.Denied, "or name another virtualCluster"},
		{"storageConfigName", "nowhere", platforms.NotFound, "Storage nowhere is not found"},
		{"dockerImage", "", platforms.Invalid, "InvalidProtocolError"},
	} {
		w := newWorld(t, map[string]any{wrong.key: wrong.value})
		_, err := w.Submit(t.Context(), w.job(1, platformtest.Behaviour{}))
		require.Equal(t, wrong.code, platforms.CodeOf(err), "%v", err)
		require.ErrorContains(t, err, wrong.says)
	}
}

func TestAnOutageAndAListThatIsBehindEndNobody(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]any{})
	w.Freeze(true)
	handle, err := w.Submit(t.Context(), w.job(1, platformtest.Behaviour{Forever: true}))
	require.NoError(t, err)
	w.becomes(handle, platforms.Running)
	w.Freeze(false)
	for _, fault := range []servicelab.Fault{{Status: 500}, {Status: 502, HTML: true}, {Lost: true}} {
		w.Have(fault)
		_, err := w.Poll(t.Context(), platforms.Ask(handle))
		require.Equal(t, platforms.Transient, platforms.CodeOf(err))
	}
	w.Have(servicelab.Fault{Status: 429, HTML: true, RetryAfter: "7"})
	_, err = w.Poll(t.Context(), platforms.Ask(handle))
	require.True(t, platforms.NoRoom(err))
	require.Equal(t, 7*time.Second, platforms.AfterOf(err))
	w.pass(7 * time.Second)
	report := w.report(handle)
	require.Equal(t, platforms.Running, report.Phase)
	require.NoError(t, w.Cancel(t.Context(), handle, trial.Intent{Cause: trial.CauseUser}))
	w.becomes(handle, platforms.Exited)
}

func TestMoreTrialsThanAnHourTakesMeetNoRefusalForTheyWaitBefore(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]any{})
	w.Idle = true
	const trials = 130
	submitted, waits := 0, 0
	for submitted < trials {
		_, err := w.Submit(t.Context(), w.job(submitted, platformtest.Behaviour{}))
		if err == nil {
			submitted++
			if submitted%25 == 0 {
				w.Platform = w.Again() // OpenPAI counts on
			}
			continue
		}
		waits++
		require.True(t, platforms.NoRoom(err), "%v", err)
		require.ErrorContains(t, err, "OpenPAI takes 60 submissions an hour from one user; the next one at")
		w.pass(platforms.AfterOf(err))
	}
	require.Zero(t, w.Refused())
	require.Equal(t, trials, w.Calls("submit"))
	require.GreaterOrEqual(t, w.passed, 2*time.Hour)
	require.Equal(t, 2, waits, "one in each hour")
}

func TestListsOfAllExperimentsOfAUserStayBelowTheLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]any{})
	w.Idle = true
	handle, err := w.Submit(t.Context(), w.job(1, platformtest.Behaviour{}))
	require.NoError(t, err)
	exhausted := false
	for range 200 {
		_, err := w.Poll(t.Context(), platforms.Ask(handle))
		if exhausted = platforms.NoRoom(err); exhausted {
			require.ErrorContains(t, err, "60 lists a minute")
			w.pass(platforms.AfterOf(err))
		}
	}
	require.Zero(t, w.Refused())
	require.Positive(t, w.Calls("list"))
}

func TestASectionThatCannotWorkIsRefusedBeforeAnythingStarts(t *testing.T) {
	t.Parallel()
	cluster := openpailab.New(t)
	kind := openpai.New(openpai.Options{})
	require.NoError(t, kind.Check(platformtest.Options(t, keys(cluster, nil))))
	for field, value := range map[string]any{
		"host": "pai.example", "containerStorageMountPoint": "/mnt/<% $x %>", "skuNumber": 2,
		"openpaiConfig": map[string]any{"protocolVersion": 1},
	} {
		platformtest.RequireFault(t, kind, keys(cluster, map[string]any{field: value}), field)
	}
}

func TestAJobOfOnesOwnIsSubmittedWithOurNameAndCommand(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]any{"openpaiConfig": map[string]any{
		"protocolVersion": 2, "name": "mine", "type": "job",
		"prerequisites": []any{map[string]any{"type": "dockerimage", "name": "mine", "uri": "python"}},
		"taskRoles": map[string]any{"worker": map[string]any{
			"instances": 1, "dockerImage": "mine", "commands": []any{"echo <% $parameters.x %>"},
			"resourcePerInstance": map[string]any{"gpu": 0, "cpu": 1, "memoryMB": 100},
		}},
	}})
	handle, err := w.Submit(t.Context(), w.job(1, platformtest.Behaviour{}))
	require.NoError(t, err)
	report := w.becomes(handle, platforms.Exited)
	require.Equal(t, 0, report.Exit.Code)
	name := fmt.Sprintf("perennial-%s", handle.Key)
	require.Contains(t, w.States(), name)
}
