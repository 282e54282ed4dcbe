package gpu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

func nobody(Lease) bool { return false }

func testLedger(t testing.TB) Ledger { return Ledger{filepath.Join(t.TempDir(), "ledger")} }

func leaseOf(request Request, sequence int, slots ...Slot) []Lease {
	var leases []Lease
	for _, slot := range slots {
		leases = append(leases, Lease{Slot: slot, Share: request.Share, Experiment: request.Experiment, Trial: "abcde",
			Sequence: sequence, Since: time.Now(), User: "bob", Runner: Identity{PID: 4242, Start: uint64(sequence)}})
	}
	return leases
}

func one(experiment string) Request { return Request{Experiment: experiment, Count: 1, Share: 1} }

func acquire(t *testing.T, l Ledger, request Request, sequence int, slots ...Slot) *Grant {
	grant, err := l.Acquire(t.Context(), request, leaseOf(request, sequence, slots...), nobody)
	require.NoError(t, err)
	t.Cleanup(grant.Release)
	return grant
}

func leases(t *testing.T, l Ledger) []Lease {
	found, err := l.Counting(t.Context(), nobody)
	require.NoError(t, err)
	return found
}

// crash is what the death of the grant's process does: the kernel gives the locks
// back, and the leases stay.
func (g *Grant) crash() {
	for _, file := range g.locks {
		file.Close()
	}
	g.kept.Close()
	g.locks, g.noted, g.kept = nil, false, nil
}

var slot = Slot{UUID: "GPU-1", Index: 0, Vendor: NVIDIA}

func TestASlotIsHeldUntilItIsReleased(t *testing.T) {
	l := testLedger(t)
	require.Empty(t, leases(t, l), "no ledger yet")
	require.NoDirExists(t, l.Directory, "looking makes nothing")
	grant := acquire(t, l, one("aaaaaaaa"), 3, slot)
	held := leases(t, l)
	require.Len(t, held, 1)
	require.True(t, held[0].Held)
	require.Equal(t, os.Geteuid(), held[0].UID)
	require.Equal(t, "trial 3 (abcde) of experiment aaaaaaaa (pid 4242, user bob)", held[0].Holder())

	_, err := l.Acquire(t.Context(), one("bbbbbbbb"), leaseOf(one("bbbbbbbb"), 0, slot), nobody)
	require.ErrorIs(t, err, ErrTaken)
	require.ErrorContains(t, err, "GPU 0 is held by trial 3 (abcde) of experiment aaaaaaaa")
	require.Len(t, leases(t, l), 1, "who fails takes nothing away")

	grant.Release()
	require.Empty(t, leases(t, l))
	acquire(t, l, one("bbbbbbbb"), 0, slot)
}

func TestALeaseOfTheDeadCountsWhileItsProcessesLive(t *testing.T) {
	l := testLedger(t)
	acquire(t, l, one("aaaaaaaa"), 3, slot).crash()
	alive := func(Lease) bool { return true }
	counting, err := l.Counting(t.Context(), alive)
	require.NoError(t, err)
	require.Len(t, counting, 1)
	require.False(t, counting[0].Held)
	_, err = l.Acquire(t.Context(), one("aaaaaaaa"), leaseOf(one("aaaaaaaa"), 4, slot), alive)
	require.ErrorIs(t, err, ErrTaken)

	require.Empty(t, leases(t, l), "and not a moment longer")
	next := acquire(t, l, one("aaaaaaaa"), 4, slot)
	require.NoError(t, l.Forget(t.Context(), counting[0]), "the old lease is no reason to touch the new one")
	require.Len(t, leases(t, l), 1)
	next.Release()
}

func TestForgetRemovesOnlyWhatIsOver(t *testing.T) {
	l := testLedger(t)
	grant := acquire(t, l, one("aaaaaaaa"), 3, slot)
	held := leases(t, l)[0]
	require.NoError(t, l.Forget(t.Context(), held))
	require.Len(t, leases(t, l), 1, "its runner lives")
	grant.crash()
	require.NoError(t, l.Forget(t.Context(), held))
	found, err := l.Leases(t.Context())
	require.NoError(t, err)
	require.Empty(t, found)
	require.NoError(t, l.Forget(t.Context(), held), "twice is as good as once")
}

func TestOfSeveralGPUsAllAreTakenOrNone(t *testing.T) {
	l := testLedger(t)
	second := Slot{UUID: "GPU-2", Index: 1}
	acquire(t, l, one("aaaaaaaa"), 3, second)
	two := Request{Experiment: "bbbbbbbb", Count: 2, Share: 1}
	_, err := l.Acquire(t.Context(), two, leaseOf(two, 0, slot, second), nobody)
	require.ErrorIs(t, err, ErrTaken)
	require.Len(t, leases(t, l), 1)
	acquire(t, l, one("cccccccc"), 0, slot)
}

func TestTrialsShareAGPUAsFarAsAllOfThemAllow(t *testing.T) {
	l := testLedger(t)
	shared := Request{Experiment: "aaaaaaaa", Count: 1, Share: 2}
	at := func(n int) Slot { return Slot{UUID: "GPU-1", Number: n} }
	acquire(t, l, shared, 0, at(0))
	_, err := l.Acquire(t.Context(), one("aaaaaaaa"), leaseOf(one("aaaaaaaa"), 1, at(1)), nobody)
	require.ErrorIs(t, err, ErrTaken, "who wants a GPU for himself")
	stranger := Request{Experiment: "bbbbbbbb", Count: 1, Share: 2}
	_, err = l.Acquire(t.Context(), stranger, leaseOf(stranger, 1, at(1)), nobody)
	require.ErrorIs(t, err, ErrTaken, "another experiment")
	acquire(t, l, shared, 1, at(1))
	_, err = l.Acquire(t.Context(), shared, leaseOf(shared, 2, at(2)), nobody)
	require.ErrorIs(t, err, ErrTaken, "two at a time")
	stranger.UseActive, stranger.Share = true, 3
	_, err = l.Acquire(t.Context(), stranger, leaseOf(stranger, 2, at(2)), nobody)
	require.ErrorIs(t, err, ErrTaken, "useActiveGpu asks nobody to put up with more than he said")
}

func TestALockOfNobodyKnowsWhomCounts(t *testing.T) {
	l := testLedger(t)
	acquire(t, l, one("aaaaaaaa"), 0, slot).Release()
	file, err := os.Open(filepath.Join(l.Directory, "GPU-1.0"))
	require.NoError(t, err)
	defer file.Close()
	require.NoError(t, flock(file, unix.LOCK_EX))
	_, err = l.Acquire(t.Context(), one("aaaaaaaa"), leaseOf(one("aaaaaaaa"), 1, Slot{UUID: "GPU-1", Number: 1}), nobody)
	require.ErrorIs(t, err, ErrTaken)
	require.ErrorContains(t, err, "says nothing of itself")
}

func TestNothingInTheLedgerIsTrustedThatIsNotAPlainFile(t *testing.T) {
	l := testLedger(t)
	require.NoError(t, l.make())
	victim := filepath.Join(t.TempDir(), "victim")
	require.NoError(t, os.WriteFile(victim, []byte("precious"), 0o600))
	require.NoError(t, os.Symlink(victim, filepath.Join(l.Directory, "GPU-1.0")))
	_, err := l.Acquire(t.Context(), one("aaaaaaaa"), leaseOf(one("aaaaaaaa"), 0, slot), nobody)
	require.ErrorIs(t, err, errOdd)
	require.NoError(t, unix.Mkfifo(filepath.Join(l.Directory, "GPU-2.0"), 0o644))
	_, err = l.Acquire(t.Context(), one("aaaaaaaa"), leaseOf(one("aaaaaaaa"), 0, Slot{UUID: "GPU-2"}), nobody)
	require.ErrorIs(t, err, errOdd)
	require.NoError(t, os.Symlink(victim, filepath.Join(l.Directory, fmt.Sprintf("GPU-3.0.%d.lease", os.Geteuid()))))
	require.NoError(t, os.WriteFile(filepath.Join(l.Directory, "GPU-4.0.12345.lease"), []byte(`{"format":1,"uuid":"GPU-4","slot":0}`), 0o644))
	found, err := l.Leases(t.Context())
	require.NoError(t, err)
	require.Empty(t, found, "a lease belongs to the user in its name")
	acquire(t, l, one("aaaaaaaa"), 0, Slot{UUID: "GPU-3"})
	content, err := os.ReadFile(victim)
	require.NoError(t, err)
	require.Equal(t, "precious", string(content))
}

func TestADirectoryThatOthersCannotUseIsRefused(t *testing.T) {
	l := testLedger(t)
	require.NoError(t, os.Symlink(t.TempDir(), l.Directory))
	_, err := l.Leases(t.Context())
	require.ErrorContains(t, err, "is no directory")
	require.NoError(t, os.Remove(l.Directory))
	require.NoError(t, os.Mkdir(l.Directory, 0o700))
	require.NoError(t, os.Chmod(l.Directory, 0o777))
	_, err = l.Acquire(t.Context(), one("aaaaaaaa"), leaseOf(one("aaaaaaaa"), 0, slot), nobody)
	require.ErrorContains(t, err, "can remove what is not theirs")
}

func TestAGuardThatIsKeptIsWaitedForAndNamed(t *testing.T) {
	l := testLedger(t)
	require.NoError(t, l.make())
	guard, err := l.guard(t.Context(), unix.LOCK_EX)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = l.Leases(ctx)
	require.ErrorContains(t, err, "somebody keeps "+l.Directory)
	go func() {
		time.Sleep(20 * time.Millisecond)
		guard.Close()
	}()
	require.Empty(t, leases(t, l))
}

func TestAHeldLedgerIsLockedAgainstThoseWhoTidyUp(t *testing.T) {
	l := testLedger(t)
	grant := acquire(t, l, one("aaaaaaaa"), 0, slot)
	tidier, err := os.Open(l.Directory)
	require.NoError(t, err)
	defer tidier.Close()
	require.ErrorIs(t, flock(tidier, unix.LOCK_EX), unix.EWOULDBLOCK)
	other := acquire(t, l, one("aaaaaaaa"), 1, Slot{UUID: "GPU-2"})
	grant.Release()
	require.ErrorIs(t, flock(tidier, unix.LOCK_EX), unix.EWOULDBLOCK)
	other.Release()
	require.NoError(t, flock(tidier, unix.LOCK_EX))
}

func TestUUIDsBecomeFileNames(t *testing.T) {
	l := testLedger(t)
	old := Slot{UUID: "MIG-GPU-b9a1/../x/1/0"}
	acquire(t, l, one("aaaaaaaa"), 0, old)
	require.Equal(t, old.UUID, leases(t, l)[0].UUID)
	files, err := os.ReadDir(l.Directory)
	require.NoError(t, err)
	require.Len(t, files, 3)
}

// world is a model of a host: who was given what, and whose processes live.
type world struct {
	t         *rapid.T
	ledger    Ledger
	inventory Inventory
	requests  []Request
	running   map[int]*Grant // by sequence
	crashed   map[int]*Grant // their processes live
	proposals map[int]proposal
	next      int
}

type proposal struct {
	request Request
	slots   []Slot
}

func (w *world) judge(lease Lease) bool { return w.crashed[lease.Sequence] != nil }

func (w *world) state() State {
	counting, err := w.ledger.Counting(context.Background(), w.judge)
	require.NoError(w.t, err)
	return State{Inventory: w.inventory, Leases: counting}
}

// propose proposes slots that may be gone when they are taken.
func (w *world) propose(t *rapid.T) {
	request := rapid.SampledFrom(w.requests).Draw(t, "request")
	slots, err := Allocate(request, w.state())
	if busy := (*NoRoom)(nil); errors.As(err, &busy) {
		require.NotEmpty(t, busy.Reasons)
		return
	}
	require.NoError(t, err)
	require.Len(t, slots, request.Count)
	w.proposals[w.next] = proposal{request, slots}
	w.next++
}

func (w *world) take(t *rapid.T) {
	sequence := drawKey(t, w.proposals)
	made := w.proposals[sequence]
	delete(w.proposals, sequence)
	grant, err := w.ledger.Acquire(context.Background(), made.request, leaseOf(made.request, sequence, made.slots...), w.judge)
	if err == nil {
		w.running[sequence] = grant
		return
	}
	require.ErrorIs(t, err, ErrTaken)
}

func (w *world) end(t *rapid.T) {
	sequence := drawKey(t, w.running)
	w.running[sequence].Release()
	delete(w.running, sequence)
}

// crash kills a runner whose processes go on.
func (w *world) crash(t *rapid.T) {
	sequence := drawKey(t, w.running)
	w.running[sequence].crash()
	w.crashed[sequence] = w.running[sequence]
	delete(w.running, sequence)
}

// die is the end of what a dead runner left, swept or not.
func (w *world) die(t *rapid.T) {
	sequence := drawKey(t, w.crashed)
	dead := w.crashed[sequence]
	delete(w.crashed, sequence)
	if rapid.Bool().Draw(t, "swept") {
		for _, lease := range dead.leases {
			require.NoError(t, w.ledger.Forget(context.Background(), lease))
		}
	}
}

func drawKey[T any](t *rapid.T, from map[int]T) int {
	var keys []int
	for key := range from {
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		t.Skip("nobody")
	}
	slices.Sort(keys)
	return rapid.SampledFrom(keys).Draw(t, "trial")
}

// check holds the ledger to the model: it knows exactly who has what, and nobody
// has to put up with more company than he said.
func (w *world) check(t *rapid.T) {
	onGPU := map[string][]Lease{}
	holders := map[int]bool{}
	for _, grants := range []map[int]*Grant{w.running, w.crashed} {
		for sequence, grant := range grants {
			holders[sequence] = true
			for _, lease := range grant.leases {
				onGPU[lease.UUID] = append(onGPU[lease.UUID], lease)
			}
		}
	}
	for uuid, leases := range onGPU {
		taken := map[int]bool{}
		for _, lease := range leases {
			require.LessOrEqual(t, len(leases), lease.Share, "GPU %s is over-committed", uuid)
			require.False(t, taken[lease.Number], "slot %d of %s is taken twice", lease.Number, uuid)
			taken[lease.Number] = true
		}
	}
	for _, lease := range w.state().Leases {
		require.True(t, holders[lease.Sequence], "trial %d holds %s and is over", lease.Sequence, lease.UUID)
		require.Equal(t, w.running[lease.Sequence] != nil, lease.Held)
	}
	require.Equal(t, w.held(), len(w.state().Leases), "a lease is missing")
}

func (w *world) held() int {
	held := 0
	for _, grants := range []map[int]*Grant{w.running, w.crashed} {
		for _, grant := range grants {
			held += len(grant.leases)
		}
	}
	return held
}

// drain ends everything: then everything can be had again.
func (w *world) drain() {
	for sequence, grant := range w.running {
		grant.Release()
		delete(w.running, sequence)
	}
	clear(w.crashed)
	all := Request{Experiment: "zzzzzzzz", Count: len(w.inventory.GPUs), Share: 1}
	slots, err := Allocate(all, w.state())
	require.NoError(w.t, err)
	grant, err := w.ledger.Acquire(context.Background(), all, leaseOf(all, w.next, slots...), w.judge)
	require.NoError(w.t, err, "a GPU leaked")
	grant.Release()
}

func TestNoInterleavingOverCommitsOrLeaksAGPU(t *testing.T) {
	root := t.TempDir()
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		w := &world{t: rt, ledger: Ledger{filepath.Join(root, fmt.Sprint(n))}, running: map[int]*Grant{}, crashed: map[int]*Grant{}, proposals: map[int]proposal{}}
		for i := range rapid.IntRange(1, 4).Draw(rt, "GPUs") {
			w.inventory.GPUs = append(w.inventory.GPUs, GPU{UUID: fmt.Sprintf("GPU-%d", i), Index: i})
		}
		for _, id := range []string{"aaaaaaaa", "bbbbbbbb", "cccccccc"} {
			w.requests = append(w.requests, Request{
				Experiment: id, Count: rapid.IntRange(1, len(w.inventory.GPUs)).Draw(rt, "count"),
				Share: rapid.IntRange(1, 3).Draw(rt, "share"), UseActive: rapid.Bool().Draw(rt, "use active"),
			})
		}
		rt.Repeat(map[string]func(*rapid.T){
			"propose": w.propose, "take": w.take, "end": w.end, "crash": w.crash, "die": w.die, "": w.check,
		})
		w.drain()
	})
}
