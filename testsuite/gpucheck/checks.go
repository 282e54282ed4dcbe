package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/perennial-ml/perennial/gpu"
	"github.com/perennial-ml/perennial/gpu/nvml"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/runner/rundir"
	"github.com/perennial-ml/perennial/trial"
)

// forever is a trial that only is there.
const forever = "exec sleep 3600"

// inventories asks everybody who can tell what GPUs there are, and tells whether
// there is one.
func (c *checker) inventories() bool {
	byText, textErr := timed("nvidia-smi", c, gpu.Text{})
	library, err := nvml.New()
	if err != nil {
		c.say("NVML: %v", err)
		c.prober, c.inventory = gpu.Text{}, byText
	} else {
		byNVML, err := timed("NVML", c, library)
		c.prober, c.inventory = library, byNVML
		if len(byNVML.GPUs) > 0 && c.expect(errors.Join(err, textErr) == nil, "both answer (%v)", errors.Join(err, textErr)) {
			c.agree(byNVML, byText)
		}
	}
	if len(c.inventory.GPUs) == 0 {
		return false
	}
	for _, g := range c.inventory.GPUs {
		c.expect(g.UUID != "" && g.Name != "" && g.Failed == "", "%s is %s, %s%s", g, g.Name, g.UUID, g.Failed)
	}
	return c.place()
}

func timed(name string, c *checker, prober gpu.Prober) (gpu.Inventory, error) {
	began := time.Now()
	inventory, err := prober.Probe(c.ctx)
	c.say("%s, in %v: %v %v", name, time.Since(began).Round(time.Microsecond), inventory, cmp.Or(err, errors.New("(no error)")))
	return inventory, err
}

// agree compares what does not change from one moment to the next.
func (c *checker) agree(byNVML, byText gpu.Inventory) {
	one, other := lasting(byNVML), lasting(byText)
	c.expect(slices.Equal(one, other), "NVML and nvidia-smi tell the same:\n%s\nand\n%s", strings.Join(one, "\n"), strings.Join(other, "\n"))
}

func lasting(inventory gpu.Inventory) []string {
	var lines []string
	for _, g := range inventory.GPUs {
		if g.Parent != "" { // of these nvidia-smi knows little
			lines = append(lines, fmt.Sprint(g.Index, g.UUID, g.Parent))
			continue
		}
		memory := uint64(0)
		if g.Memory != nil {
			memory = *g.Memory >> 20
		}
		lines = append(lines, fmt.Sprint(g.Index, " ", g.UUID, " ", g.Name, " ", strings.ToLower(g.PCI), " ", memory, " MiB ", g.Divided))
	}
	return lines
}

// usable is how many GPUs a trial can be given.
func (c *checker) usable() []gpu.GPU {
	var usable []gpu.GPU
	for _, g := range c.inventory.GPUs {
		if !g.Divided && g.Failed == "" {
			usable = append(usable, g)
		}
	}
	return usable
}

// exclusion fills every GPU with a trial: each gets one of its own, and nobody
// else gets any, until one is free again.
func (c *checker) exclusion() {
	all := c.controller(`{"useActiveGpu": true}`)
	seen := map[string]bool{}
	var handles []platforms.Handle
	for range c.usable() {
		handle, err := all.submit(forever, 1)
		if !c.expect(err == nil, "a trial starts with a GPU (%v)", err) {
			return
		}
		seen[all.visible(handle)] = true
		handles = append(handles, handle)
	}
	c.expect(len(seen) == len(c.usable()), "%d trials have %d different GPUs", len(handles), len(seen))
	_, err := all.submit(forever, 1)
	c.expect(platforms.CodeOf(err) == platforms.Exhausted && err != nil, "one more waits: %v", err)
	other := c.controller(`{"useActiveGpu": true, "maxTrialNumberPerGpu": 4}`)
	_, err = other.submit(forever, 1)
	c.expect(err != nil && strings.Contains(err.Error(), "of experiment "+all.experiment), "another controller's waits: %v", err)
	table := all.table()
	c.expect(strings.Count(table, "of experiment "+all.experiment) == len(handles), "starter gpus shows who has them:\n%s", table)
	for _, handle := range handles {
		c.cancel(all, handle)
	}
	_, err = other.submit("true", 1)
	c.expect(err == nil, "then it starts (%v)", err)
	c.free()
}

func (c *checker) cancel(of *controller, handle platforms.Handle) {
	err := of.Cancel(c.ctx, handle, trial.Intent{Cause: trial.CauseUser})
	report := of.end(handle)
	c.expect(err == nil && report.Phase.Definite(), "trial %d ends (%v)", handle.Key.Sequence, err)
}

// free ends every trial and expects the ledger to be empty.
func (c *checker) free() {
	for _, r := range c.running {
		if !r.report(r.handle, func(platforms.Report) bool { return true }).Phase.Definite() {
			c.cancel(r.controller, r.handle)
		}
	}
	c.running = nil
	leases, err := gpu.Ledger{Directory: c.ledger()}.Counting(c.ctx, rundir.LeaseCounts)
	c.expect(err == nil && len(leases) == 0, "every GPU is free again (%d leases, %v)", len(leases), err)
}

// self is this program as a command.
func self(word string) string {
	program, err := os.Executable()
	if err != nil {
		return "false"
	}
	return "'" + program + "' " + word
}

// sight asks CUDA itself what a trial sees.
func (c *checker) sight() {
	if !c.cuda() {
		return
	}
	one := c.controller(`{"useActiveGpu": true}`)
	last := c.usable()[len(c.usable())-1]
	one.options = fmt.Sprintf(`{"useActiveGpu": true, "gpuIndices": [%d]}`, last.Index)
	handle, err := one.submit(self("devices"), 1)
	if !c.expect(err == nil, "a trial asks CUDA what it sees (%v)", err) {
		return
	}
	one.end(handle)
	seen, given := strings.TrimSpace(one.output(handle)), one.visible(handle)
	c.expect(seen == given, "it sees %q, and was given %q", seen, given)
	none, err := one.submit(self("devices"), 0)
	c.expect(err == nil, "a trial with 0 GPUs starts (%v)", err)
	one.end(none)
	c.expect(strings.TrimSpace(one.output(none)) == "", "it sees none: %q", one.output(none))
	c.free()
}

// cuda tells whether the driver's CUDA library can be used here.
func (c *checker) cuda() bool {
	output, err := exec.CommandContext(c.ctx, "/proc/self/exe", "devices").CombinedOutput()
	if err != nil {
		c.say("left out, since CUDA cannot be used here: %v %s", err, output)
	}
	return err == nil
}

// strangers has a process that is no trial compute on the first GPU.
func (c *checker) strangers() {
	first, whole := c.whole()
	if !whole || !c.cuda() {
		return
	}
	stranger := exec.CommandContext(c.ctx, "/proc/self/exe", "hold")
	stranger.Env = append(os.Environ(), "CUDA_VISIBLE_DEVICES="+first.UUID)
	stranger.Stderr = os.Stderr
	pipe, err := stranger.StdoutPipe()
	if err == nil {
		err = stranger.Start()
	}
	if !c.expect(err == nil, "a stranger starts (%v)", err) {
		return
	}
	said := make([]byte, 16)
	n, _ := pipe.Read(said)
	c.expect(strings.HasPrefix(string(said[:n]), "holding"), "it has memory of %s", first)
	for name, prober := range map[string]gpu.Prober{"starter": c.prober, "nvidia-smi": gpu.Text{}} {
		inventory, err := prober.Probe(c.ctx)
		c.say("%s sees on it: %v, %v (%v)", name, onGPU(inventory, first.UUID).Processes, usedMiB(onGPU(inventory, first.UUID)), err)
	}
	shy := c.controller(fmt.Sprintf(`{"useActiveGpu": false, "gpuIndices": [%d]}`, first.Index))
	_, err = shy.submit(forever, 1)
	c.expect(platforms.CodeOf(err) == platforms.Exhausted && err != nil, "a trial that minds waits: %v", err)
	c.say("starter gpus:\n%s", shy.table())
	bold := c.controller(fmt.Sprintf(`{"useActiveGpu": true, "gpuIndices": [%d]}`, first.Index))
	_, err = bold.submit("true", 1)
	c.expect(err == nil, "one that does not mind starts (%v)", err)
	stranger.Process.Kill()
	stranger.Wait()
	c.free()
}

// whole is the first GPU that is not divided.
func (c *checker) whole() (gpu.GPU, bool) {
	for _, g := range c.usable() {
		if g.Parent == "" {
			return g, true
		}
	}
	c.say("left out, since every GPU is divided by MIG")
	return gpu.GPU{}, false
}

func onGPU(inventory gpu.Inventory, uuid string) gpu.GPU {
	for _, g := range inventory.GPUs {
		if g.UUID == uuid {
			return g
		}
	}
	return gpu.GPU{}
}

func usedMiB(g gpu.GPU) string {
	if g.Used == nil {
		return "memory in use unknown"
	}
	return fmt.Sprintf("%d MiB in use", *g.Used>>20)
}

// company has two trials share a GPU on which both compute: they are no strangers
// to each other.
func (c *checker) company() {
	first, whole := c.whole()
	if !whole || !c.cuda() {
		return
	}
	inventory, err := c.prober.Probe(c.ctx)
	if g := onGPU(inventory, first.UUID); err != nil || len(g.Processes) > 0 {
		c.say("left out, since %s is in use: %v %v", first, g.Processes, err)
		return
	}
	pair := c.controller(fmt.Sprintf(`{"useActiveGpu": false, "maxTrialNumberPerGpu": 2, "gpuIndices": [%d]}`, first.Index))
	one, err := pair.submit(self("hold"), 1)
	c.expect(err == nil && pair.prints(one, "holding"), "a trial computes on %s (%v)", first, err)
	two, err := pair.submit(self("hold"), 1)
	c.expect(err == nil && pair.prints(two, "holding"), "another one shares it (%v)", err)
	c.say("starter gpus:\n%s", pair.table())
	c.cancel(pair, one)
	c.cancel(pair, two)
	alone := c.controller(fmt.Sprintf(`{"useActiveGpu": false, "gpuIndices": [%d]}`, first.Index))
	_, err = alone.submit("true", 1)
	c.expect(err == nil, "the moment they are over a trial that wants it for itself starts (%v)", err)
	c.free()
}

// orphans kills a runner whose trial has made a daemon: the GPU is not free while
// that lives.
func (c *checker) orphans() {
	first, whole := c.whole()
	if !whole {
		return
	}
	options := fmt.Sprintf(`{"useActiveGpu": true, "gpuIndices": [%d]}`, first.Index)
	mine := c.controller(options)
	handle, err := mine.submit(`env -i setsid sh -c 'while :; do sleep 0.1; done' </dev/null >/dev/null 2>&1 & sleep 3600`, 1)
	if !c.expect(err == nil, "a trial makes a daemon (%v)", err) {
		return
	}
	var run rundir.Run
	var process rundir.Process
	for deadline := time.Now().Add(time.Minute); len(process.Tree) == 0 && time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		run, process = mine.process(handle)
	}
	err = syscall.Kill(process.Runner.PID, syscall.SIGKILL)
	leases, lookErr := gpu.Ledger{Directory: c.ledger()}.Counting(c.ctx, rundir.LeaseCounts)
	c.expect(errors.Join(err, lookErr) == nil && len(leases) > 0, "its runner is killed, and the GPU is not free yet (%v)", errors.Join(err, lookErr))
	mine.end(handle) // whoever asks finds it lost, and clears up behind it
	other := c.controller(options)
	_, err = other.submit("true", 1)
	c.expect(err == nil, "the next trial sweeps what is left and starts (%v)", err)
	left, err := run.Processes(handle.Key)
	c.expect(err == nil && len(left) == 0, "the daemon is gone %v (%v)", left, err)
	c.free()
}
