package rundir

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/perennial-ml/perennial/gpu"
	"github.com/perennial-ml/perennial/trial"
)

// GPULease is what GPUs a run shall have: the submitter proposes, the runner takes.
type GPULease struct {
	Ledger  string      `json:"ledger"` // its directory
	Request gpu.Request `json:"request"`
	Slots   []gpu.Slot  `json:"slots"`
}

// Leases returns the entries for the ledger by which a run's runner takes its
// slots.
func (s Spec) Leases(run Run, runner Process) []gpu.Lease {
	if s.Lease == nil {
		return nil
	}
	var leases []gpu.Lease
	for _, slot := range s.Lease.Slots {
		leases = append(leases, gpu.Lease{
			Slot: slot, Share: s.Lease.Request.Share, Since: time.Now(), User: gpu.UserName(os.Geteuid()),
			Experiment: s.Key.Experiment, Trial: s.Key.TrialID(), Sequence: s.Key.Sequence, Attempt: s.Key.Attempt,
			Directory: run.Directory, Claim: run.Claim,
			BootID: runner.BootID, PIDNamespace: runner.PIDNamespace, Runner: gpu.Identity(runner.Runner),
		})
	}
	return leases
}

// LeaseCounts tells whether a lease still keeps its GPU, a gpu.Judge. It does while
// the kernel holds its lock, and beyond that while a process of its trial lives as
// far as can be seen from here. Where that cannot be told it counts; only the free
// lock of another PID namespace is believed, since nobody here will ever see more.
func LeaseCounts(lease gpu.Lease) bool {
	if lease.Held {
		return true
	}
	runner := runnerOf(lease)
	here, err := runner.here()
	if err != nil || !here {
		return err != nil
	}
	if lease.UID == os.Geteuid() && leftovers(lease) || lease.UID != os.Geteuid() && hidden() {
		return true
	}
	family, err := runner.family(markOf(leaseKey(lease)))
	return err != nil || len(family) > 0
}

// leftovers tells whether a run of our own user goes on or has left processes.
func leftovers(lease gpu.Lease) bool {
	run := Run{Directory: lease.Directory, Claim: lease.Claim}
	if held, err := run.Held(); err != nil || held {
		return true
	}
	left, err := run.Processes(leaseKey(lease))
	return err != nil || len(left) > 0
}

func leaseKey(lease gpu.Lease) trial.Key {
	return trial.Key{Experiment: lease.Experiment, Sequence: lease.Sequence, Attempt: lease.Attempt}
}

// runnerOf is the process record that a lease holds of its run.
func runnerOf(lease gpu.Lease) Process {
	process := Process{Runner: Identity(lease.Runner), Child: Identity(lease.Child),
		BootID: lease.BootID, PIDNamespace: lease.PIDNamespace}
	for _, member := range lease.Tree {
		process.Tree = append(process.Tree, Identity(member))
	}
	return process
}

// LeaseFamily returns the pids of a lease's trial, none where they mean nothing
// here.
func LeaseFamily(lease gpu.Lease) ([]int, error) {
	family, err := runnerOf(lease).family(markOf(leaseKey(lease)))
	var pids []int
	for _, member := range family {
		pids = append(pids, member.PID)
	}
	return pids, err
}

// SweepLeases frees the GPUs that dead runs of our own user still keep: it kills
// what they left and removes their leases. Others' are left alone.
func SweepLeases(ctx context.Context, ledger gpu.Ledger) error {
	leases, err := ledger.Leases(ctx)
	if err != nil {
		return err
	}
	var faults []error
	for _, lease := range leases {
		if !lease.Held && lease.UID == os.Geteuid() {
			faults = append(faults, sweepLease(ctx, ledger, lease))
		}
	}
	return errors.Join(faults...)
}

func sweepLease(ctx context.Context, ledger gpu.Ledger, lease gpu.Lease) error {
	here, err := runnerOf(lease).here()
	if err != nil {
		return err
	}
	run := Run{Directory: lease.Directory, Claim: lease.Claim}
	if here {
		// A runner that just ends has given its lock back before its claim.
		if held, err := run.Held(); err != nil || held {
			return err
		}
		if err := run.Sweep(ctx, leaseKey(lease)); err != nil {
			return err
		}
	}
	if LeaseCounts(lease) {
		return nil
	}
	return ledger.Forget(ctx, lease)
}
