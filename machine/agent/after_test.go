package agent_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/gpu"
	"github.com/perennial-ml/perennial/machine"
	"github.com/perennial-ml/perennial/testsuite/gputest"
)

func TestAFaultTellsWhenToComeAgain(t *testing.T) {
	t.Setenv("PATH", gputest.NewDriver(t, gputest.Some(1)...).Smi()+":"+os.Getenv("PATH"))
	t.Setenv(gpu.LedgerVariable, filepath.Join(t.TempDir(), "ledger"))
	client, _ := serve(t, t.TempDir())
	request := gpu.Request{Experiment: key().Experiment, Count: 1, Share: 1}
	require.NoError(t, client.Reserve(t.Context(), key(), request))
	other := key()
	other.Sequence++
	var fault *machine.Error
	require.ErrorAs(t, client.Reserve(t.Context(), other, request), &fault)
	require.Equal(t, machine.Exhausted, fault.Code)
	require.Positive(t, fault.After)
}
