//go:build !linux || !cgo

// Package nvml asks NVIDIA's management library which GPUs this host has. This
// build cannot: it was made without cgo.
package nvml

import (
	"errors"

	"github.com/perennial-ml/perennial/gpu"
)

// New returns why there is no NVML to ask.
func New() (gpu.Prober, error) {
	return nil, errors.New("this program was built without cgo, which NVML needs")
}
