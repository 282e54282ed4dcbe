package gpu

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func idle(n int) Inventory {
	var inventory Inventory
	for i := range n {
		inventory.GPUs = append(inventory.GPUs, GPU{UUID: "GPU-" + string(rune('a'+i)), Index: i, Name: "T4"})
	}
	return inventory
}

func indices(slots []Slot) []int {
	var list []int
	for _, slot := range slots {
		list = append(list, slot.Index)
	}
	return list
}

func TestTheEmptiestGPUsComeFirstThenTheLowest(t *testing.T) {
	inventory := idle(4)
	inventory.GPUs[0].Processes = []Process{{PID: 1}}
	request := Request{Experiment: "aaaaaaaa", Count: 2, Share: 2, UseActive: true}
	state := State{Inventory: inventory, Leases: []Lease{{Slot: Slot{UUID: "GPU-b"}, Share: 2, Experiment: "aaaaaaaa"}}}
	slots, err := Allocate(request, state)
	require.NoError(t, err)
	require.Equal(t, []int{2, 3}, indices(slots))
	request.Count = 4
	slots, err = Allocate(request, state)
	require.NoError(t, err)
	require.Equal(t, []int{0, 1, 2, 3}, indices(slots))
	require.Equal(t, 1, slots[1].Number, "the first slot that is free")
}

func TestAStrangersGPUIsTakenOnlyByWhoSaysSo(t *testing.T) {
	inventory := idle(1)
	inventory.GPUs[0].Processes = []Process{{PID: 4242, Name: "python", User: "bob"}}
	_, err := Allocate(one("aaaaaaaa"), State{Inventory: inventory})
	require.EqualError(t, err, "needs 1 GPU, 0 can be had: GPU 0 is in use by process 4242 (python, user bob) and useActiveGpu is false")
	request := one("aaaaaaaa")
	request.UseActive = true
	_, err = Allocate(request, State{Inventory: inventory})
	require.NoError(t, err)
}

func TestMemoryInUseTellsOfProcessesThatCannotBeSeen(t *testing.T) {
	inventory := idle(1)
	total, little, much := uint64(40<<30), uint64(600<<20), uint64(3<<30)
	inventory.GPUs[0].Memory, inventory.GPUs[0].Used = &total, &little
	_, err := Allocate(one("aaaaaaaa"), State{Inventory: inventory})
	require.NoError(t, err, "a driver needs some for itself")
	inventory.GPUs[0].Used = &much
	_, err = Allocate(one("aaaaaaaa"), State{Inventory: inventory})
	require.ErrorContains(t, err, "has 3072 MiB of its memory in use by processes that cannot be seen from here")
	request := Request{Experiment: "aaaaaaaa", Count: 1, Share: 2}
	_, err = Allocate(request, State{Inventory: inventory, Leases: []Lease{{Slot: Slot{UUID: "GPU-a"}, Share: 2, Experiment: "aaaaaaaa"}}})
	require.NoError(t, err, "it is our own trial's")
}

func TestWhatCanNeverFitIsToldWithTheInventory(t *testing.T) {
	require.EqualError(t, Request{Count: 3}.Fits(idle(2)),
		"a trial asks for 3 GPUs, and only 2 can be given to it: this host has GPU 0 (T4), GPU 1 (T4)")
	require.EqualError(t, Request{Count: 1, Indices: []int{1, 2}}.Fits(idle(2)),
		"gpuIndices names GPU 2, and there is none: this host has GPU 0 (T4), GPU 1 (T4)")
	require.ErrorContains(t, Request{Count: 2, Indices: []int{1}}.Fits(idle(2)), "only 1 can be given to it by gpuIndices [1]")
	require.ErrorContains(t, Request{Count: 1}.Fits(Inventory{None: "there is no driver"}), "this host has no GPU: there is no driver")
	require.NoError(t, Request{Count: 1}.Fits(idle(1)), "NNI 3.0 never gave a trial the only GPU of a host")
}

func TestOnlyTheGPUsOfGpuIndicesAreGiven(t *testing.T) {
	slots, err := Allocate(Request{Experiment: "aaaaaaaa", Count: 2, Share: 1, Indices: []int{3, 1}}, State{Inventory: idle(4)})
	require.NoError(t, err)
	require.Equal(t, []int{1, 3}, indices(slots), "in order of index")
}

func TestAReasonStaysShortOnABigHost(t *testing.T) {
	inventory := idle(16)
	for i := range inventory.GPUs {
		inventory.GPUs[i].Processes = []Process{{PID: 1}}
	}
	_, err := Allocate(one("aaaaaaaa"), State{Inventory: inventory})
	require.ErrorContains(t, err, "; and 12 more")
}
