package command

import (
	"context"
	"testing"
	"time"

	"github.com/perennial-ml/perennial/trial"
	"github.com/stretchr/testify/require"
)

var elsewhere = External{Address: "temporal.example.org:7233", Namespace: "default"}

// idles says which queue nobody polls.
func (e *engine) idles(queue string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lonely = queue
}

func TestAWorkerWithoutATemporalToWorkForIsToldHowToNameOne(t *testing.T) {
	s := newStage(t)
	require.Equal(t, ExitBadInput, s.run("worker"))
	require.Contains(t, s.err.String(), "no Temporal is named")
	require.Contains(t, s.err.String(), "TEMPORAL_ADDRESS")
}

func TestAWorkerSaysWhatItWorksForUntilItIsEnded(t *testing.T) {
	s := newStage(t)
	s.other = elsewhere
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	go func() { ended <- s.runIn(ctx, "worker", "--platform", "local,fake") }()
	require.Eventually(t, func() bool { return s.out.String() != "" }, patience, time.Millisecond)
	require.Contains(t, s.out.String(), "Temporal  temporal.example.org:7233, namespace default")
	require.Contains(t, s.out.String(), "platforms local, fake")
	cancel()
	require.Equal(t, ExitDone, <-ended)
}

func TestNoWorkerNeedsATemporalOfOthers(t *testing.T) {
	s := newStage(t)
	s.accepted(anID)
	require.Equal(t, ExitBadInput, s.run("resume", anID, "--no-worker"))
	require.Contains(t, s.err.String(), "--no-worker needs a Temporal that others run")
	require.Zero(t, s.started)
}

func TestNoWorkerStartsNoHostAndWaitsForAWorkerWithTheReason(t *testing.T) {
	s := newStage(t)
	s.accepted(anID).finishes("STOPPED")
	s.other, s.running = elsewhere, false
	s.idles("perennial-experiment.abcdefgh")
	ended := make(chan int, 1)
	go func() { ended <- s.run("resume", anID, "--no-worker", "--detach") }()
	require.Eventually(t, func() bool { return s.err.String() != "" }, patience, time.Millisecond)
	require.Contains(t, s.err.String(), "waiting: no worker polls the queue perennial-experiment.abcdefgh; starter worker starts one")
	s.mu.Lock()
	s.engine.running, s.lonely = true, ""
	s.mu.Unlock()
	require.Equal(t, ExitDone, <-ended, s.err.String())
	require.Zero(t, s.started, "a host was started")
	require.Equal(t, trial.Resume, s.sent[0].Name)
}

func TestCtrlCEndsTheWaitForAWorkerAndNothingWasAsked(t *testing.T) {
	s := newStage(t)
	s.accepted(anID).finishes("STOPPED")
	s.other = elsewhere
	s.idles("perennial-experiment.abcdefgh")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	go func() { ended <- s.runIn(ctx, "resume", anID, "--no-worker") }()
	require.Eventually(t, func() bool { return s.err.String() != "" }, patience, time.Millisecond)
	cancel()
	require.Equal(t, ExitDetached, <-ended)
	require.Contains(t, s.err.String(), "nothing was asked")
	require.Empty(t, s.sent)
}

func TestAQueueThatNobodyPollsIsWhyATrialWaits(t *testing.T) {
	s := newStage(t)
	s.told(anID)
	s.other = elsewhere
	s.idles("platform.local.myhostid.abcdefgh")
	require.Equal(t, ExitDone, s.run("trials", anID))
	why := "no worker polls the queue platform.local.myhostid.abcdefgh; a worker started by starter worker --platform local does"
	require.Contains(t, s.out.String(), why)
	require.Equal(t, ExitDone, s.run("show", anID))
	require.Contains(t, s.out.String(), why)
	s.idles("")
	require.Equal(t, ExitDone, s.run("show", anID))
	require.NotContains(t, s.out.String(), "no worker")
}

func TestDoctorPrintsTheCommandThatAddsSearchAttributes(t *testing.T) {
	s := newStage(t)
	require.NotContains(t, []int{ExitBadInput}, s.run("doctor"))
	require.NotContains(t, s.out.String(), "search attributes")
	s.other, s.mend = elsewhere, "temporal operator search-attribute create --name ExperimentId --type Keyword"
	s.run("doctor")
	require.Contains(t, s.out.String(), "Temporal at temporal.example.org:7233")
	require.Contains(t, s.out.String(), "mend: "+s.mend)
}

func TestWhatIsSubmittedWhereAnotherMachineWorksIsHandedOverToIt(t *testing.T) {
	s := newStage(t)
	s.other, s.running, s.distant = elsewhere, false, "lab-1"
	require.Equal(t, ExitDone, s.run("run", s.example(), "--detach"), s.err.String())
	require.Contains(t, s.err.String(), "the worker on lab-1 runs it")
	require.Zero(t, s.started, "a host was started")
	require.Len(t, s.sent, 1)
	require.Contains(t, string(s.sent[0].Value), `"trialCodeDirectory":"code of `)
	require.Equal(t, ExitBadInput, s.run("serve", "--detach"))
	require.Contains(t, s.err.String(), "the worker on lab-1 works on this record")
	require.Equal(t, ExitBadInput, s.run("dashboard"))
	require.Contains(t, s.err.String(), "the dashboard of this record is on lab-1")
}
