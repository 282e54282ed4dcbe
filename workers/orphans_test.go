package workers

import (
	"testing"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
)

func TestOnlyWhatADeadHostOfThisStateDirectoryBeganIsFailed(t *testing.T) {
	for identity, failed := range map[string]int{
		"mystate/before": 1,
		"mystate/now":    0, // our own
		"other/before":   0, // of somebody else, alive perhaps
		"mystates/now":   0,
		"":               0, // not begun by a worker
	} {
		t.Run(identity, func(t *testing.T) {
			w, temporal := believing(t, identity)
			require.NoError(t, w.failOrphans(t.Context()))
			temporal.AssertNumberOfCalls(t, "CompleteActivityByID", failed)
			if failed > 0 {
				temporal.AssertCalled(t, "CompleteActivityByID", mock.Anything, "somebodys", experimentWorkflow, "", "5", nil, mock.Anything)
			}
		})
	}
}
