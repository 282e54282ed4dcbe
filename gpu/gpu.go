// Package gpu knows the GPUs of a host: what there is and who uses it (an
// Inventory), which of them a trial may have (Allocate), and who was given what (a
// Ledger, the one truth that all users and experiments of a host share).
//
// What cannot be told counts as busy. GPUs are named by UUID; indices are for
// people and for gpuIndices. Package gpu imports nothing of ours, so that the
// runner, platforms and remote hosts' agents can all stand on it.
package gpu

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Format is the number in what this package writes. Newer ones are refused, older
// ones read.
const Format = 1

// The makers of GPUs that are known.
const (
	NVIDIA = "nvidia"
	AMD    = "amd"
)

// GPU is one GPU, or one MIG device of a GPU that is divided. A nil number is one
// that the driver would not tell.
type GPU struct {
	UUID        string    `json:"uuid"`
	Index       int       `json:"index"` // the driver's, in PCI order; a MIG device has its GPU's
	Vendor      string    `json:"vendor"`
	Name        string    `json:"name"`
	PCI         string    `json:"pci,omitempty"`         // bus id
	Memory      *uint64   `json:"memory,omitempty"`      // bytes
	Used        *uint64   `json:"used,omitempty"`        // bytes of Memory
	Utilisation *int      `json:"utilisation,omitempty"` // percent
	Processes   []Process `json:"processes,omitempty"`   // that compute on it
	// Unknown says why nobody can tell what runs on it; empty where it is known.
	Unknown string `json:"unknown,omitempty"`
	// Requested is who has asked a cluster for a GPU and got one, where that does not say
	// which one; empty: nobody, or this machine knows better.
	Requested string `json:"requested,omitempty"`
	Failed    string `json:"failed,omitempty"`  // why it cannot be used at all
	Parent    string `json:"parent,omitempty"`  // UUID of the GPU that a MIG device is part of
	Divided   bool   `json:"divided,omitempty"` // MIG is on: only its devices can be given away
}

// Process is one that computes on a GPU.
type Process struct {
	PID  int    `json:"pid"` // as the driver tells it; it may lie in another PID namespace
	Name string `json:"name,omitempty"`
	User string `json:"user,omitempty"`
	Used uint64 `json:"used,omitempty"` // bytes of the GPU's memory; 0 where unknown
	// Trial is the trial it belongs to, as "experiment/n"; empty: a stranger.
	Trial string `json:"trial,omitempty"`
}

// Inventory is what GPUs a host has at one moment.
type Inventory struct {
	Format int    `json:"format"`
	GPUs   []GPU  `json:"gpus"`           // by index, MIG devices behind their GPU
	Source string `json:"source"`         // who was asked: "NVML", "nvidia-smi", …
	None   string `json:"none,omitempty"` // why there is no GPU, where there is none
}

// Prober finds out what GPUs this host has. That it has none is no error; an error
// means that nobody knows.
type Prober interface {
	Probe(ctx context.Context) (Inventory, error)
}

// String names the GPU for people, such as "GPU 0" or "MIG device 1g.10gb of GPU 0".
func (g GPU) String() string {
	if g.Parent == "" {
		return fmt.Sprintf("GPU %d", g.Index)
	}
	return fmt.Sprintf("MIG device %s of GPU %d", strings.TrimPrefix(g.Name, "MIG "), g.Index)
}

// String lists the GPUs in one line, such as "GPU 0 (NVIDIA A100), GPU 1 (NVIDIA A100)".
func (i Inventory) String() string {
	if len(i.GPUs) == 0 {
		return "no GPU: " + i.None
	}
	var words []string
	for _, g := range i.GPUs {
		word := g.String()
		if g.Parent == "" {
			word += " (" + g.Name + ")"
		}
		if g.Divided {
			word += " divided by MIG"
		}
		words = append(words, word)
	}
	return strings.Join(words, ", ")
}

// Without returns the inventory without some processes: those of trials, so that
// only others' are left.
func (i Inventory) Without(pids map[int]bool) Inventory {
	i.GPUs = slices.Clone(i.GPUs)
	for n := range i.GPUs {
		i.GPUs[n].Processes = slices.DeleteFunc(slices.Clone(i.GPUs[n].Processes), func(p Process) bool { return pids[p.PID] })
	}
	return i
}

// First is a Prober that asks one after the other until one knows a GPU. Where none
// does, the last one's answer stands.
type First []Prober

// Probe implements Prober.
func (f First) Probe(ctx context.Context) (inventory Inventory, err error) {
	for _, prober := range f {
		if inventory, err = prober.Probe(ctx); err == nil && len(inventory.GPUs) > 0 {
			return inventory, nil
		}
	}
	return inventory, err
}

// Idle returns the inventory as it would be if nobody but trials used the GPUs.
func (i Inventory) Idle() Inventory {
	i.GPUs = slices.Clone(i.GPUs)
	for n := range i.GPUs {
		i.GPUs[n].Processes, i.GPUs[n].Unknown, i.GPUs[n].Used = nil, "", nil
	}
	return i
}

// Host is a host's GPUs as they are shown to people.
type Host struct {
	Name string `json:"host"`
	// Indices are the only GPUs that trials may use; empty: all.
	Indices   []int     `json:"gpuIndices,omitempty"`
	Inventory Inventory `json:"inventory"`       // with all processes
	Leases    []Lease   `json:"leases"`          // those that count
	Fault     string    `json:"fault,omitempty"` // why nothing is known of it
	// Elastic says that it is one of a cluster, which may get others.
	Elastic bool `json:"elastic,omitempty"`
}
