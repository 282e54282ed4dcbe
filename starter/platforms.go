package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/perennial-ml/perennial/experiment"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/all"
	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/runner/binary"
	"github.com/perennial-ml/perennial/runner/rundir"
	"github.com/perennial-ml/perennial/starter/command"
)

// stand is what platforms stand on here; without a store they know no experiment.
func (e *engine) stand(runner string, store *record.Store) all.Options {
	options := all.Options{
		Runner: runner, StateDirectory: e.home, GPUs: gpus(), Runners: binary.For, LookupEnv: e.lookupEnv,
	}
	if store != nil {
		options.Sections = func(experiment, platform string) ([]json.RawMessage, error) {
			return e.sections(store, experiment, platform)
		}
	}
	return options
}

// here are the platforms of this host.
func here(options all.Options) []platforms.Platform {
	var list []platforms.Platform
	for _, construct := range all.All(options) {
		list = append(list, construct())
	}
	return list
}

// sections are what an experiment says about a platform, with its secrets.
func (e *engine) sections(store *record.Store, id, platform string) ([]json.RawMessage, error) {
	row, err := store.Experiment(context.Background(), id)
	if err != nil {
		return nil, err
	}
	var config experiment.Experiment
	if err := json.Unmarshal(row.Config, &config); err != nil {
		return nil, fmt.Errorf("configuration of experiment %s: %w", id, err)
	}
	var sections []json.RawMessage
	for _, p := range config.Platforms {
		if p.Name != platform {
			continue
		}
		resolved, err := e.secrets(id, p.Options)
		if err != nil {
			return nil, err
		}
		sections = append(sections, resolved)
	}
	return sections, nil
}

// lookupEnv finds a variable of whoever ran an experiment; of this process where
// none was kept.
func (e *engine) lookupEnv(experiment, name string) (string, bool) {
	kept, err := rundir.ReadEnvironment(command.EnvironmentFile(e.home, experiment))
	if err != nil {
		return os.LookupEnv(name)
	}
	return command.World{Env: kept.Variables}.LookupEnv(name)
}

// Logs implements command.Engine. The platform stays open for as long as this
// process: whoever follows a log asks often.
func (e *engine) Logs(ctx context.Context, handle platforms.Handle, stream string) (io.ReadCloser, error) {
	platform, err := e.reading(handle.Platform)
	if err != nil {
		return nil, err
	}
	logs, can := platform.(platforms.WithLogs)
	if !can {
		return nil, fmt.Errorf("platform %s keeps no logs", handle.Platform)
	}
	return logs.Logs(ctx, handle, stream)
}

// reading returns a platform that only reads for a command.
func (e *engine) reading(name string) (platforms.Platform, error) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if known := e.opened[name]; known != nil {
		return known, nil
	}
	store, err := record.OpenReadOnly(command.RecordFile(e.home))
	if err != nil {
		return nil, err
	}
	construct, known := all.All(e.stand("", store))[name]
	if !known {
		return nil, fmt.Errorf("platform %s is not in this build", name)
	}
	if e.opened == nil {
		e.opened = map[string]platforms.Platform{}
	}
	e.opened[name] = construct()
	return e.opened[name], nil
}

// Try implements command.Engine.
func (e *engine) Try(ctx context.Context, platform string, options json.RawMessage) ([]platforms.HostState, error) {
	construct, known := all.All(e.stand("", nil))[platform]
	if !known {
		return nil, nil
	}
	made := construct()
	defer made.Close()
	trying, can := made.(platforms.WithHosts)
	if !can {
		return nil, nil
	}
	resolved, err := e.secrets("", options)
	if err != nil {
		return nil, err
	}
	return trying.Try(ctx, resolved)
}
