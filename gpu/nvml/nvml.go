//go:build linux && cgo

// Package nvml asks NVIDIA's management library which GPUs this host has. The
// library is opened when it is first needed: where there is none, as on a host
// without an NVIDIA driver, New says so and nothing else happens.
//
// A program that was linked with -z now, the habit of some distributions, does not
// start without the library; the Makefile sees to it that it is not.
package nvml

import (
	"context"
	"errors"
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/perennial-ml/perennial/gpu"
)

// errStuck says that the driver hangs.
var errStuck = errors.New("NVML still has not answered an earlier question: the driver may hang")

// prober asks NVML. Between two questions it keeps nothing open, so that a driver
// can be updated and a GPU reset while this process lives.
type prober struct {
	library nvml.Interface
	turn    chan struct{} // holds one token: whoever has it may call the library
}

// New returns a prober that asks NVML, or why there is no NVML to ask. Every call
// of the library but Init kills the process while the library is not open: all of
// them are in this package, behind a successful Init.
func New() (gpu.Prober, error) {
	made := newProber(nvml.New())
	if err := made.open(); err != nil {
		return nil, err
	}
	made.library.Shutdown()
	return made, nil
}

func newProber(library nvml.Interface) *prober {
	p := &prober{library: library, turn: make(chan struct{}, 1)}
	p.turn <- struct{}{}
	return p
}

func (p *prober) open() error {
	if ret := p.library.Init(); ret != nvml.SUCCESS {
		return fmt.Errorf("NVML cannot be used: %w", ret)
	}
	return nil
}

// Probe implements gpu.Prober.
func (p *prober) Probe(ctx context.Context) (gpu.Inventory, error) {
	ctx, cancel := context.WithTimeout(ctx, gpu.TextPatience)
	defer cancel()
	select {
	case <-p.turn:
	case <-ctx.Done():
		return gpu.Inventory{}, errors.Join(errStuck, ctx.Err())
	}
	answers := make(chan answer, 1)
	go func() {
		defer func() { p.turn <- struct{}{} }()
		inventory, err := p.probe()
		answers <- answer{inventory, err}
	}()
	select {
	case got := <-answers:
		return got.inventory, got.err
	case <-ctx.Done():
		return gpu.Inventory{}, fmt.Errorf("NVML does not answer: %w", ctx.Err())
	}
}

type answer struct {
	inventory gpu.Inventory
	err       error
}

func (p *prober) probe() (gpu.Inventory, error) {
	inventory := gpu.Inventory{Format: gpu.Format, Source: "NVML"}
	if err := p.open(); err != nil {
		return inventory, err
	}
	defer p.library.Shutdown()
	count, ret := p.library.DeviceGetCount()
	if ret != nvml.SUCCESS {
		return inventory, fmt.Errorf("NVML cannot count the GPUs: %w", ret)
	}
	if count == 0 {
		inventory.None = "NVML knows of none"
	}
	for index := range count {
		found, err := p.gpus(index)
		if err != nil {
			return inventory, err
		}
		inventory.GPUs = append(inventory.GPUs, found...)
	}
	return inventory, nil
}

// gpus returns a GPU and the MIG devices it is divided into.
func (p *prober) gpus(index int) ([]gpu.GPU, error) {
	device, ret := p.library.DeviceGetHandleByIndex(index)
	if ret != nvml.SUCCESS {
		failed := gpu.GPU{UUID: fmt.Sprintf("lost-%d", index), Index: index, Vendor: gpu.NVIDIA, Name: "unknown", Failed: text(ret)}
		return []gpu.GPU{failed}, nil
	}
	whole, err := p.describe(device, index)
	if err != nil {
		return nil, err
	}
	whole.PCI = busID(device)
	instances, err := p.instances(device, whole)
	whole.Divided = instances != nil
	return append([]gpu.GPU{whole}, instances...), err
}

func busID(device nvml.Device) string {
	pci, ret := device.GetPciInfo()
	if ret != nvml.SUCCESS {
		return ""
	}
	var id []byte
	for _, letter := range pci.BusId {
		if letter == 0 {
			break
		}
		id = append(id, byte(letter))
	}
	return string(id)
}
