package raced

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/runner/binary"
	"github.com/perennial-ml/perennial/testsuite/endtoend"
	"github.com/perennial-ml/perennial/trial"
	"github.com/perennial-ml/perennial/workflows"
)

const head = `searchSpaceFile: space.json
trialCommand: ./trial.sh
trialCodeDirectory: .
tuner:
  name: Random
`

func write(t *testing.T, content string) string {
	work := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(work, "space.json"), []byte(`{"x": {"_type": "uniform", "_value": [0, 1]}}`), 0o644))
	script := "#!/bin/sh\nfor n in 1 2 3 4; do echo \"perennial: intermediate $n\"; sleep 0.3; done\necho 'perennial: final 1'\n"
	require.NoError(t, os.WriteFile(filepath.Join(work, "trial.sh"), []byte(script), 0o755))
	path := filepath.Join(work, "experiment.yml")
	require.NoError(t, os.WriteFile(path, []byte(head+content), 0o644))
	return path
}

func done(row record.Experiment) bool { return row.Status == record.Done }

func asked(count int) func(record.Experiment) bool {
	return func(row record.Experiment) bool { return row.Asked >= count }
}

const onFake = `trialConcurrency: 4
maxTrialNumber: 20
assessor:
  name: Medianstop
  classArgs:
    start_step: 2
trainingService:
  platform: fake
  duration: [0.2, 0.6]
  intermediates: [9, 9, 9, 9]
  final: 9
  rules:
    - {trials: [7], duration: 60, intermediates: [{at: 0.1, value: 1}, {at: 0.2, value: 1}, {at: 0.3, value: 1}]}
    - {trials: [3], attempts: [1], lostAfter: 0.2}
    - {trials: [5], lostReplies: 1}
    - {trials: [9], duration: 60}
`

func TestAnExperimentIsPausedSteeredAndServedAgainOnTheFakePlatform(t *testing.T) {
	home := t.TempDir()
	s := serve(t, home)
	require.False(t, s.polled(s.client.Queues.Platform("fake", "")), "nobody has named the platform")
	id := s.accept(write(t, onFake))
	s.await(id, "two trials asked", asked(2))
	s.send(id, trial.Pause, "")
	s.await(id, "paused", func(row record.Experiment) bool { return row.Paused })
	s.send(id, trial.SetConcurrency, "6")
	s.send(id, trial.Resume, "")
	s.await(id, "ten trials asked", asked(10))
	s.end()
	s = serve(t, home)
	killed(s, id, 9)
	row := s.await(id, "done", done)
	require.Equal(t, 1, row.Counts[trial.UserCanceled], "%v", row.Counts)
	require.Equal(t, 1, row.Counts[trial.EarlyStopped], "%v", row.Counts)
	require.Equal(t, 18, row.Counts[trial.Succeeded], "%v", row.Counts)
	lost, err := s.store.Trial(t.Context(), id, 3)
	require.NoError(t, err)
	require.Equal(t, 2, lost.Attempts)
	s.end()
	s = serve(t, home)
	s.await(id, "what has ended answers for itself", func(record.Experiment) bool {
		_, err := s.client.Temporal.QueryWorkflow(t.Context(), workflows.TrialWorkflowID(id, 0), "", workflows.QueryState)
		return err == nil
	})
	require.False(t, s.polled(workflows.Verbs(s.client.Queues.Platform("fake", ""))), "nothing is done on it any more")
	s.end()
}

// polled tells whether activities are taken from a queue.
func (s *served) polled(queue string) bool {
	answer, err := s.client.Temporal.DescribeTaskQueue(context.Background(), queue, enumspb.TASK_QUEUE_TYPE_ACTIVITY)
	require.NoError(s.t, err)
	return len(answer.GetPollers()) > 0
}

// killed ends a trial by hand as soon as it has a workflow.
func killed(s *served, id string, sequence int) {
	s.await(id, fmt.Sprintf("trial %d is told to end", sequence), func(record.Experiment) bool {
		err := s.client.End(context.Background(), id, sequence, workflows.Ending{Cause: trial.CauseUser})
		if !errors.Is(err, workflows.ErrNotDriven) {
			require.NoError(s.t, err)
		}
		return err == nil
	})
}

const onLocal = `trialConcurrency: 4
maxTrialNumber: 12
trainingService:
  platform: local
`

func TestAnExperimentIsStoppedAndResumedOnThisMachine(t *testing.T) {
	home := t.TempDir()
	if _, err := binary.Install(filepath.Join(home, "runner")); errors.Is(err, binary.ErrNotBuilt) {
		endtoend.Skip(t, "%v", err)
	}
	s := serve(t, home)
	id := s.accept(write(t, onLocal))
	s.await(id, "trials running", func(row record.Experiment) bool { return row.Counts[trial.Running] >= 2 })
	s.send(id, trial.Stop, "")
	s.await(id, "stopped", func(row record.Experiment) bool { return row.Status == record.Stopped })
	s.send(id, trial.Resume, "")
	s.await(id, "running again", func(row record.Experiment) bool { return row.Counts[trial.Running] > 0 })
	s.end()
	s = serve(t, home)
	row := s.await(id, "done", done)
	require.Equal(t, 12, row.Counts[trial.Succeeded], "%v", row.Counts)
	s.end()
}
