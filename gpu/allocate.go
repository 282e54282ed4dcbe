package gpu

import (
	"fmt"
	"slices"
	"strings"
)

// Request is what a trial asks for, in NNI's words: trialGpuNumber, useActiveGpu,
// maxTrialNumberPerGpu and gpuIndices.
type Request struct {
	Experiment string `json:"experiment"`          // id: trials of others are strangers
	Count      int    `json:"count"`               // of GPUs, above 0
	UseActive  bool   `json:"useActive,omitempty"` // strangers on a GPU do not matter
	Share      int    `json:"share"`               // trials that share a GPU, at least 1
	Indices    []int  `json:"indices,omitempty"`   // the only GPUs to use; empty: all
}

// State is how a host's GPUs stand: all that Allocate goes by.
type State struct {
	Inventory Inventory `json:"inventory"` // without processes of the leases' trials
	Leases    []Lease   `json:"leases"`    // those that count
}

// NoRoom says why a request cannot be met at present. Free is the number of GPUs
// that could be had.
type NoRoom struct {
	Request Request
	Free    int
	Reasons []string // one for each GPU that cannot be had, such as "GPU 0 is held by …"
}

// shown bounds the reasons in NoRoom's text: the rest of a big host is no news.
const shown = 4

func (n *NoRoom) Error() string {
	text := fmt.Sprintf("needs %s, %d can be had: ", counted(n.Request.Count), n.Free)
	text += strings.Join(n.Reasons[:min(shown, len(n.Reasons))], "; ")
	if more := len(n.Reasons) - shown; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}

func counted(gpus int) string {
	if gpus == 1 {
		return "1 GPU"
	}
	return fmt.Sprintf("%d GPUs", gpus)
}

// Fits tells whether a host with this inventory could ever meet the request: nil,
// or why not, with the inventory in its words.
func (r Request) Fits(inventory Inventory) error {
	for _, index := range r.Indices {
		if !slices.ContainsFunc(inventory.GPUs, func(g GPU) bool { return g.Index == index }) {
			return fmt.Errorf("gpuIndices names GPU %d, and there is none: this host has %s", index, inventory)
		}
	}
	usable := len(r.candidates(inventory))
	if usable >= r.Count {
		return nil
	}
	return fmt.Errorf("a trial asks for %s, and only %d can be given to it%s: this host has %s",
		counted(r.Count), usable, r.narrowed(), inventory)
}

func (r Request) narrowed() string {
	if len(r.Indices) == 0 {
		return ""
	}
	return fmt.Sprintf(" by gpuIndices %v", r.Indices)
}

// candidates are the GPUs that the request could ever be given. CUDA shows a
// program only one MIG device, so nobody who needs two gets any.
func (r Request) candidates(inventory Inventory) []GPU {
	var found []GPU
	for _, g := range inventory.GPUs {
		listed := len(r.Indices) == 0 || slices.Contains(r.Indices, g.Index)
		if listed && !g.Divided && (g.Parent == "" || r.Count == 1) {
			found = append(found, g)
		}
	}
	return found
}

// Allocate proposes a slot on each of as many GPUs as the request needs: those
// without strangers first, then those with the fewest trials, then by index. The
// slots come in order of index. It changes nothing; only Ledger.Acquire gives
// slots away. The error is *NoRoom, or Fits'.
func Allocate(r Request, state State) ([]Slot, error) {
	if err := r.Fits(state.Inventory); err != nil {
		return nil, err
	}
	free, reasons := r.free(state)
	if len(free) < r.Count {
		return nil, &NoRoom{Request: r, Free: len(free), Reasons: reasons}
	}
	slices.SortStableFunc(free, func(a, b choice) int { return a.cost - b.cost })
	free = free[:r.Count]
	slices.SortStableFunc(free, func(a, b choice) int { return a.gpu.Index - b.gpu.Index })
	slots := make([]Slot, r.Count)
	for i, chosen := range free {
		slots[i] = Slot{UUID: chosen.gpu.UUID, Number: lowest(chosen.leases), Index: chosen.gpu.Index, Vendor: chosen.gpu.Vendor}
	}
	return slots, nil
}

// choice is a GPU that the request may have.
type choice struct {
	gpu    GPU
	leases []Lease // on it
	cost   int
}

// strangers is the cost of a GPU that somebody else computes on: more than any
// number of trials.
const strangers = 1 << 20

func (r Request) free(state State) (free []choice, reasons []string) {
	for _, g := range r.candidates(state.Inventory) {
		leases := On(g.UUID, state.Leases)
		stranger := g.stranger(len(leases) > 0)
		why := r.Against(leases)
		if g.Failed != "" {
			why = "does not work (" + g.Failed + ")"
		}
		if why == "" && stranger != "" && !r.UseActive {
			why = stranger + " and useActiveGpu is false"
		}
		if why != "" {
			reasons = append(reasons, g.String()+" "+why)
			continue
		}
		cost := len(leases)
		if stranger != "" {
			cost += strangers
		}
		free = append(free, choice{g, leases, cost})
	}
	return free, reasons
}

// On returns the leases on one GPU.
func On(uuid string, leases []Lease) []Lease {
	var on []Lease
	for _, lease := range leases {
		if lease.UUID == uuid {
			on = append(on, lease)
		}
	}
	return on
}

// Against says why the leases on a GPU leave no room on it for the request, empty
// where they do: a GPU has as many trials as every one of them allows, and those
// of another experiment are strangers.
func (r Request) Against(leases []Lease) string {
	limit := r.Share
	for _, lease := range leases {
		if lease.Experiment != r.Experiment && !r.UseActive {
			return "is held by " + lease.Holder()
		}
		limit = min(limit, lease.Share)
	}
	if len(leases) < limit {
		return ""
	}
	var holders []string
	for _, lease := range leases {
		holders = append(holders, lease.Holder())
	}
	return "is held by " + strings.Join(holders, " and ")
}

// strayMemory is how much memory in use, in bytes, tells of processes where none
// can be seen: more than a driver needs for itself.
const strayMemory = 1 << 30

// stranger says who else uses the GPU, empty where nobody does. Memory is only a
// sign where no trial of ours could be what uses it: processes cannot be seen in
// containers and under WSL.
func (g GPU) stranger(leased bool) string {
	if g.Unknown != "" {
		return "may be in use, its processes cannot be seen (" + g.Unknown + ")"
	}
	if len(g.Processes) > 0 {
		return "is in use by " + g.Processes[0].String()
	}
	if leased || g.Used == nil || g.Memory == nil || *g.Used < min(strayMemory, *g.Memory/2) {
		return ""
	}
	return fmt.Sprintf("has %d MiB of its memory in use by processes that cannot be seen from here", *g.Used>>20)
}

// String names a process for people, such as "process 4242 (python, user bob)".
func (p Process) String() string {
	var about []string
	if p.Name != "" {
		about = append(about, p.Name)
	}
	if p.User != "" {
		about = append(about, "user "+p.User)
	}
	if len(about) == 0 {
		return fmt.Sprintf("process %d", p.PID)
	}
	return fmt.Sprintf("process %d (%s)", p.PID, strings.Join(about, ", "))
}

// lowest is the first slot number that none of the leases has.
func lowest(leases []Lease) int {
	for n := 0; ; n++ {
		if !slices.ContainsFunc(leases, func(l Lease) bool { return l.Number == n }) {
			return n
		}
	}
}
