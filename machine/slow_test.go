package machine_test

import (
	"context"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/gpu"
	"github.com/perennial-ml/perennial/machine"
	"github.com/perennial-ml/perennial/testsuite/gputest"
)

// driver is a Prober of two GPUs that takes its time, and gives up with its context
// as a killed nvidia-smi does.
type driver struct {
	takes time.Duration
	asked atomic.Int32
}

func (d *driver) Probe(ctx context.Context) (gpu.Inventory, error) {
	d.asked.Add(1)
	select {
	case <-ctx.Done():
		return gpu.Inventory{}, ctx.Err()
	case <-time.After(d.takes):
		return gpu.Inventory{Format: gpu.Format, GPUs: []gpu.GPU{
			{UUID: gputest.UUID(0), Index: 0, Vendor: gpu.NVIDIA}, {UUID: gputest.UUID(1), Index: 1, Vendor: gpu.NVIDIA}}}, nil
	}
}

// machineOf is a machine with that driver, and its ledger.
func machineOf(t *testing.T, d *driver) (*machine.Machine, gpu.Ledger) {
	state, ledger := t.TempDir(), gpu.Ledger{Directory: filepath.Join(t.TempDir(), "ledger")}
	return machine.New(machine.Options{Index: filepath.Join(state, "runs"), Experiments: state, GPUs: d, GPULedger: ledger.Directory}), ledger
}

func TestADriverThatTakesLongerThanAnybodyWaitsIsHeardInTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &driver{takes: gpu.TextPatience - time.Second}
		here, _ := machineOf(t, d)
		began, offer, err := time.Now(), machine.Offer{}, error(nil)
		for {
			if offer, err = here.Offer(t.Context(), request(1)); err == nil {
				break
			}
			require.Equal(t, machine.Exhausted, machine.CodeOf(err))
			require.ErrorContains(t, err, "nvidia-smi of this machine is slow and is still being waited for")
			require.Less(t, time.Since(began), gpu.TextPatience)
			time.Sleep(time.Second)
		}
		require.Equal(t, machine.Offer{Free: 2}, offer)
		limited, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.NoError(t, here.Reserve(limited, key(1), request(1)), "what was waited for so long is good for the next step, too")
		require.EqualValues(t, 1, d.asked.Load())
		time.Sleep(time.Minute)
		require.NoError(t, here.Reserve(t.Context(), key(2), request(1)))
		require.EqualValues(t, 2, d.asked.Load(), "and for no longer than that")
	})
}

func TestADriverThatIsAskedAlreadyIsNotAskedAgainMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &driver{takes: time.Second}
		here, _ := machineOf(t, d)
		results := make(chan error)
		go func() {
			_, err := here.GPUs(t.Context())
			results <- err
		}()
		synctest.Wait()
		for i := range 2 {
			go func() { results <- here.Reserve(t.Context(), key(i), request(1)) }()
		}
		for range 3 {
			require.NoError(t, <-results)
		}
		require.EqualValues(t, 1, d.asked.Load())
	})
}

func TestWhereTrialsLeaveNoRoomAnOfferSaysSoWithoutWakingUpTheGPUs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &driver{}
		here, ledger := machineOf(t, d)
		require.NoError(t, here.Reserve(t.Context(), key(1), request(2)))
		var leases []gpu.Lease
		for i := range 2 {
			leases = append(leases, gpu.Lease{Slot: gpu.Slot{UUID: gputest.UUID(i), Index: i, Vendor: gpu.NVIDIA}, Share: 1, Experiment: "abcdefgh", Sequence: 1, Attempt: 1})
		}
		grant, err := ledger.Acquire(t.Context(), request(2), leases, func(gpu.Lease) bool { return false })
		require.NoError(t, err)
		defer grant.Release()
		for range 10 {
			offer, err := here.Offer(t.Context(), request(1))
			require.NoError(t, err)
			require.Zero(t, offer.Free)
			require.Contains(t, offer.Reason, "GPU 1 is held by")
			time.Sleep(time.Second)
		}
		require.EqualValues(t, 1, d.asked.Load())
		time.Sleep(time.Minute)
		_, err = here.Offer(t.Context(), request(1))
		require.NoError(t, err)
		require.EqualValues(t, 2, d.asked.Load(), "one that was broken may work again")
	})
}
