package activities_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/experiment"
	"github.com/perennial-ml/perennial/trial"
)

// savedTo is where the first trial of an experiment with PBT shall leave its
// checkpoint.
func (f *fixture) savedTo() string {
	f.round(1, 1)
	row, err := f.Trial(ctx, id, 0)
	require.NoError(f, err)
	var parameters struct {
		Save string `json:"save_checkpoint_dir"`
	}
	require.NoError(f, json.Unmarshal(row.Parameters, &parameters))
	return parameters.Save
}

func TestLocalTrialsLeaveCheckpointsInADirectoryOfTheirExperiment(t *testing.T) {
	f := newFixtureWith(t, func(e *experiment.Experiment) {
		e.Tuner.Name, e.Platforms[0].Name = "PBT", "local"
	})
	require.Equal(t, "/state/experiments/"+id+"/checkpoint/0/0", f.savedTo())

	f = newFixtureWith(t, func(e *experiment.Experiment) {
		e.Tuner.Name, e.Platforms[0].Name, e.Directory = "PBT", "local", "/home/me/nni"
	})
	require.Equal(t, "/home/me/nni/"+id+"/checkpoint/0/0", f.savedTo())
}

func TestTrialsOfOtherPlatformsNeedADirectoryThatIsGiven(t *testing.T) {
	f := newFixtureWith(t, func(e *experiment.Experiment) { e.Tuner.Name = "PBT" })
	answer := f.rounding(1, 1)
	f.awaitReason("tuner", "all_checkpoint_dir")
	f.command(trial.Stop, "")
	<-answer

	f = newFixtureWith(t, func(e *experiment.Experiment) {
		e.Tuner.Name, e.Tuner.Arguments = "PBT", json.RawMessage(`{"all_checkpoint_dir": "/nfs/c"}`)
	})
	require.Equal(t, "/nfs/c/0/0", f.savedTo())
}
