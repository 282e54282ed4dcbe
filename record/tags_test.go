package record

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/trial"
)

func TestTagsAreSetReplacedAndRemovedAlsoOfWhatIsOver(t *testing.T) {
	f := newFixture(t)
	require.Equal(t, trial.Tags{}, f.experiment().Tags)
	f.command(trial.SetTags, `{"baseline": "", "dataset": "cifar10"}`)
	f.command(trial.SetTags, `{"dataset": "ümlaut = 1", "unknown": null}`)
	f.command(trial.Stop, "")
	f.command(trial.SetTags, `{"baseline": null}`)
	require.Equal(t, trial.Tags{"dataset": "ümlaut = 1"}, f.experiment().Tags)
	for _, value := range []string{`null`, `["a"]`, `{"a": 1}`, `{"": "x"}`, `{"a=b": "x"}`, `{"a": "x\ny"}`} {
		_, err := f.try(trial.SetTags, value)
		var rejection *RejectedError
		require.ErrorAs(t, err, &rejection, value)
	}
	require.Equal(t, trial.Tags{"dataset": "ümlaut = 1"}, f.experiment().Tags)
	require.Equal(t, Stopping, f.experiment().Status, "a tag goes on with nothing")
}
