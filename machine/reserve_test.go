package machine_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/gpu"
	"github.com/perennial-ml/perennial/machine"
	"github.com/perennial-ml/perennial/testsuite/gputest"
	"github.com/perennial-ml/perennial/trial"
)

// machineWith is a machine with so many GPUs, by the words of its nvidia-smi, and a
// ledger of its own.
func machineWith(t *testing.T, gpus int) *machine.Machine {
	t.Setenv("PATH", gputest.NewDriver(t, gputest.Some(gpus)...).Smi()+":"+os.Getenv("PATH"))
	state := t.TempDir()
	return machine.New(machine.Options{Index: filepath.Join(state, "runs"), Experiments: state, NNIPlatform: "remote",
		GPULedger: filepath.Join(t.TempDir(), "ledger")})
}

func request(count int) gpu.Request {
	return gpu.Request{Experiment: "abcdefgh", Count: count, Share: 1}
}

func key(sequence int) trial.Key {
	return trial.Key{Experiment: "abcdefgh", Sequence: sequence, Attempt: 1}
}

func TestAnOfferTellsHowManyGPUsAreFreeAndWhyTheyAreTooFew(t *testing.T) {
	here := machineWith(t, 3)
	offer, err := here.Offer(t.Context(), request(1))
	require.NoError(t, err)
	require.Equal(t, machine.Offer{Free: 3}, offer)
	offer, err = here.Offer(t.Context(), request(4))
	require.NoError(t, err)
	require.Zero(t, offer.Free)
	require.Contains(t, offer.Reason, "this host has")
}

func TestWhatIsReservedForOneRunNoOtherGets(t *testing.T) {
	here := machineWith(t, 2)
	require.NoError(t, here.Reserve(t.Context(), key(1), request(1)))
	require.NoError(t, here.Reserve(t.Context(), key(1), request(1)), "a repeated reservation is the same one")
	offer, err := here.Offer(t.Context(), request(1))
	require.NoError(t, err)
	require.Equal(t, 1, offer.Free)
	require.NoError(t, here.Reserve(t.Context(), key(2), request(1)))
	err = here.Reserve(t.Context(), key(3), request(1))
	require.Equal(t, machine.Exhausted, machine.CodeOf(err))
	offer, err = here.Offer(t.Context(), request(1))
	require.NoError(t, err)
	require.Zero(t, offer.Free)
	require.Contains(t, offer.Reason, "0 can be had")
}
