package runner

import (
	"context"
	"time"

	"github.com/perennial-ml/perennial/gpu"
	"github.com/perennial-ml/perennial/runner/rundir"
)

// leasePatience bounds what the host's GPU ledger may take. It answers in some
// milliseconds, unless a process stands still in the middle of it.
const leasePatience = 20 * time.Second

// takeGPUs takes the GPUs that the attempt was proposed, for as long as this
// process lives, and gives up where somebody else was faster: then nothing of the
// attempt has begun. It comes before all else that an attempt does.
func (a *attempt) takeGPUs() error {
	if a.spec.Lease == nil {
		return nil
	}
	process, err := rundir.ThisProcess()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), leasePatience)
	defer cancel()
	ledger := gpu.Ledger{Directory: a.spec.Lease.Ledger}
	a.grant, err = ledger.Acquire(ctx, a.spec.Lease.Request, a.spec.Leases(a.run, process), a.countsHere)
	if err == nil {
		rundir.CrashPoint("runner.leased-before-start")
	}
	return err
}

// countsHere is rundir.LeaseCounts, but for what an earlier try at this very
// attempt may have left.
func (a *attempt) countsHere(lease gpu.Lease) bool {
	return lease.Directory != a.run.Directory && rundir.LeaseCounts(lease)
}

// noteLease tells the other users of the host which processes the GPUs were given
// to: they cannot read this attempt's directory.
func (a *attempt) noteLease() {
	if a.grant == nil {
		return
	}
	var tree []gpu.Identity
	for _, member := range a.process.Tree {
		tree = append(tree, gpu.Identity(member))
	}
	if err := a.grant.Note(gpu.Identity(a.process.Child), tree); err != nil {
		a.log.sayOnce("cannot note in the GPU ledger which processes the trial has: %v", err)
	}
}
