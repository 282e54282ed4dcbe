package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/perennial-ml/perennial/activities"
	"github.com/perennial-ml/perennial/experiment"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/all"
	"github.com/perennial-ml/perennial/runner/binary"
	"github.com/perennial-ml/perennial/runner/rundir"
	"github.com/perennial-ml/perennial/starter/command"
	"github.com/perennial-ml/perennial/starter/host"
)

// registry is the platforms of this program, with a runner for this machine; empty
// where nothing is started.
func (e *engine) registry(runner string) platforms.Registry {
	return all.All(all.Options{Runner: runner, StateDirectory: e.home, Home: e.Mark(), GPUs: gpus(), Runners: binary.For, Environment: os.Environ()})
}

// kept is what was kept beside experiments when they were run.
func (e *engine) kept() activities.Secrets {
	return activities.Secrets{Resolve: e.secrets, Environment: e.variables}
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

// Logs implements command.Engine. The section stays open for as long as this
// process: whoever follows a log asks often.
func (e *engine) Logs(ctx context.Context, handle platforms.Handle, wanted platforms.Log) (io.ReadCloser, error) {
	platform, err := e.reading(ctx, handle)
	if err != nil {
		return nil, err
	}
	logs, can := platform.(platforms.WithLogs)
	if !can {
		return nil, fmt.Errorf("platform %s keeps no logs", handle.Platform)
	}
	return logs.Logs(ctx, handle, wanted)
}

// Replicas implements command.Engine.
func (e *engine) Replicas(ctx context.Context, handle platforms.Handle) ([]string, error) {
	platform, err := e.reading(ctx, handle)
	if err != nil {
		return nil, err
	}
	several, can := platform.(platforms.WithReplicas)
	if !can {
		return nil, nil
	}
	return several.Replicas(ctx, handle)
}

// reading returns a run's section of its platform, for a command that only reads.
func (e *engine) reading(ctx context.Context, handle platforms.Handle) (platforms.Platform, error) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	store, err := e.readRecord()
	if err != nil {
		return nil, err
	}
	defer store.Close()
	sections, err := activities.SectionsOf(store, e.kept())(ctx, handle.Key.Experiment)
	if err != nil {
		return nil, err
	}
	kind, known := e.registry("")[handle.Platform]
	if !known || len(sections) == 0 {
		return nil, fmt.Errorf("platform %s is not in this build", handle.Platform)
	}
	at := handle.Key.Sequence % len(sections)
	name := fmt.Sprintf("%s/%d", handle.Key.Experiment, at)
	if e.opened == nil {
		e.opened = map[string]platforms.Platform{}
	}
	if e.opened[name] == nil {
		e.opened[name] = kind.Open(sections[at])
	}
	return e.opened[name], nil
}

// Try implements command.Engine.
func (e *engine) Try(ctx context.Context, platform experiment.Platform) ([]platforms.HostState, error) {
	section, known := e.open("", "", platform)
	if !known {
		return nil, nil
	}
	defer section.Close()
	trying, can := section.(platforms.WithHosts)
	if !can {
		return nil, nil
	}
	return trying.Try(ctx)
}

// Rights implements command.Engine.
func (e *engine) Rights(ctx context.Context, platform experiment.Platform) (string, error) {
	section, known := e.open("", "", platform)
	if !known {
		return "", nil
	}
	defer section.Close()
	giving, can := section.(platforms.WithRights)
	if !can {
		return "", nil
	}
	return giving.Rights(ctx)
}

// Mark implements command.Engine. Before the first host there is none.
func (e *engine) Mark() string {
	id := host.IDOf(e.home)
	if id == "" {
		return ""
	}
	machine, _ := os.Hostname() // without a name the id alone is the mark
	return platforms.Home(machine, id)
}

// Place implements command.Engine.
func (e *engine) Place(experiment string, platform experiment.Platform, work func(platforms.WithLeftovers) error) error {
	section, known := e.open("", experiment, platform)
	if !known {
		return nil
	}
	defer section.Close()
	place, can := section.(platforms.WithLeftovers)
	if !can {
		return nil
	}
	return work(place)
}

// open opens a section of an experiment, or of one that is not run yet: then the
// references in it lead into this environment.
func (e *engine) open(runner, id string, platform experiment.Platform) (section platforms.Platform, known bool) {
	kind, known := e.registry(runner)[platform.Name]
	if !known {
		return nil, false
	}
	return kind.Open(e.kept().Section(id, platform)), true
}
