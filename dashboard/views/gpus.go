package views

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/perennial-ml/perennial/experiment"
	"github.com/perennial-ml/perennial/gpu"
	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
)

// GPUs are all GPUs that are known, and who waits for some.
type GPUs struct {
	Hosts   []gpu.Host   `json:"hosts"`
	Waiting []GPUWaiting `json:"waiting"`
}

// GPUWaiting is a trial that waits for GPUs.
type GPUWaiting struct {
	Experiment string       `json:"experiment"`
	Trial      string       `json:"trial"`
	Sequence   int          `json:"sequence"`
	GPUs       int          `json:"gpus" doc:"how many it asks for"`
	Reason     trial.Reason `json:"reason"`
}

// GPUHosts knows where GPUs are.
type GPUHosts struct {
	// Of returns the hosts that a section of an experiment's configuration names. The
	// experiment may be empty: then the section refers to no secrets.
	Of func(ctx context.Context, experiment string, platform experiment.Platform) ([]gpu.Host, error)
	// RunsHere tells whether a platform's trials run on this very machine.
	RunsHere func(platform string) bool
}

// ThisMachine is the platform that tells of the GPUs of this very machine.
var ThisMachine = experiment.Platform{Name: "local"}

// GPUs returns those of this machine and, where there is a record, those that active
// experiments run on and who waits for some. A Reader without a Store knows no
// experiments.
func (r Reader) GPUs(ctx context.Context, hosts GPUHosts) (GPUs, error) {
	view := GPUs{Waiting: []GPUWaiting{}}
	here, err := hosts.Of(ctx, "", ThisMachine)
	if view.Hosts = here; err != nil || r.Store == nil {
		return view, err
	}
	all, err := r.Experiments(ctx)
	if err != nil {
		return view, err
	}
	for _, e := range all {
		if e.Status.Active() {
			err = r.gpusOf(ctx, e, hosts, &view)
		}
		if err != nil {
			return view, err
		}
	}
	return view, nil
}

// gpusOf adds what an experiment knows.
func (r Reader) gpusOf(ctx context.Context, e record.Experiment, hosts GPUHosts, view *GPUs) error {
	var config experiment.Experiment
	if json.Unmarshal(e.Config, &config) != nil {
		return nil
	}
	for _, platform := range config.Platforms {
		view.add(hosts.elsewhere(ctx, e.ID, platform))
	}
	waiting, err := r.waitingForGPUs(ctx, e, config)
	view.Waiting = append(view.Waiting, waiting...)
	return err
}

// elsewhere are the hosts of a platform other than this one. That a platform
// cannot be asked is worth a line, and no reason to show nothing.
func (h GPUHosts) elsewhere(ctx context.Context, id string, platform experiment.Platform) []gpu.Host {
	if h.RunsHere(platform.Name) {
		return nil
	}
	hosts, err := h.Of(ctx, id, platform)
	if err != nil {
		return []gpu.Host{{Name: platform.Name, Fault: err.Error()}}
	}
	return hosts
}

// add adds hosts that are not there yet.
func (v *GPUs) add(hosts []gpu.Host) {
	for _, host := range hosts {
		if !slices.ContainsFunc(v.Hosts, func(h gpu.Host) bool { return h.Name == host.Name }) {
			v.Hosts = append(v.Hosts, host)
		}
	}
}

// waitingForGPUs are the trials of an experiment that ask for GPUs and wait for a
// reason of their platform's.
func (r Reader) waitingForGPUs(ctx context.Context, e record.Experiment, config experiment.Experiment) ([]GPUWaiting, error) {
	rows, err := r.List(ctx, e.ID, record.Listing{States: []trial.State{trial.Waiting}})
	if err != nil || len(config.Platforms) == 0 {
		return nil, err
	}
	var waiting []GPUWaiting
	for _, row := range rows {
		count := config.Platforms[row.Sequence%len(config.Platforms)].GPUs
		if !row.Reason.Zero() && count != nil && *count > 0 {
			waiting = append(waiting, GPUWaiting{e.ID, row.ID, row.Sequence, *count, row.Reason})
		}
	}
	return waiting, nil
}
