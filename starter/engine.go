package main

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/perennial-ml/perennial/door"
	"github.com/perennial-ml/perennial/embedded"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/runner/binary"
	"github.com/perennial-ml/perennial/starter/command"
	"github.com/perennial-ml/perennial/starter/host"
	"github.com/perennial-ml/perennial/trial"
	"github.com/perennial-ml/perennial/workflows"
	"go.temporal.io/sdk/client"
)

// engine is the host process and its Temporal server, as commands see them.
type engine struct {
	home     string
	external *external // nil where the embedded server is meant
	record   host.Record
	homeless error // why it cannot be told where the record is

	mutex  sync.Mutex
	chosen record.Worker                 // who drives what is submitted here, see elsewhere
	opened map[string]platforms.Platform // sections that commands read from, see reading
}

var _ command.Engine = (*engine)(nil)

// Check implements command.Engine.
func (e *engine) Check() error {
	_, err := host.Open(e.home)
	return errors.Join(err, e.homeless)
}

// readRecord opens the record to read it.
func (e *engine) readRecord() (*record.Store, error) {
	if e.homeless != nil {
		return nil, e.homeless
	}
	return record.OpenReadOnly(e.record.Location)
}

// Find implements command.Engine. It makes no state directory.
func (e *engine) Find(context.Context) (command.Host, error) {
	if _, err := os.Stat(e.home); errors.Is(err, fs.ErrNotExist) {
		return command.Host{}, command.ErrNoHost
	}
	dir, err := host.Open(e.home)
	if err != nil {
		return command.Host{}, err
	}
	info, alive, err := host.Find(dir)
	switch {
	case err != nil || alive:
	case info.PID != 0:
		err = command.ErrHostDied
	default:
		err = command.ErrNoHost
	}
	return seen(dir, info), err
}

// Ensure implements command.Engine.
func (e *engine) Ensure(ctx context.Context) (command.Host, error) {
	dir, err := host.Open(e.home)
	if err != nil {
		return command.Host{}, err
	}
	if e.homeless != nil {
		return command.Host{}, e.homeless
	}
	worker, err := e.elsewhere(ctx)
	if err != nil {
		return command.Host{}, err
	}
	if worker != nil {
		return e.distant(worker), nil
	}
	if err := e.ready(ctx, dir); err != nil {
		return command.Host{}, err
	}
	// A host without one would end as soon as it started, again and again.
	if _, err := binary.Install(filepath.Join(e.home, "runner")); err != nil {
		return command.Host{}, err
	}
	program, err := os.Executable()
	if err != nil {
		return command.Host{}, err
	}
	say := func(line string) { io.WriteString(os.Stderr, line+"\n") }
	info, err := host.Ensure(ctx, dir, host.Starter{Path: program, Version: command.Version, Say: say, Record: e.record.Given})
	return seen(dir, info), err
}

// ready refuses a host that would use, or could only use, another Temporal than
// the one that is named.
func (e *engine) ready(ctx context.Context, dir host.Dir) error {
	info, alive, err := host.Find(dir)
	if err != nil {
		return err
	}
	if alive && info.Ready() {
		return e.agrees(info)
	}
	if alive || e.external == nil {
		return nil
	}
	return e.external.use(ctx, dir, e.readRecord)
}

func seen(dir host.Dir, info host.Info) command.Host {
	return command.Host{PID: info.PID, Version: info.Version, Address: info.Address, Namespace: info.Namespace,
		WebUI: info.WebUI, Dashboard: info.Dashboard, TokenFile: info.TokenFile, Log: dir.LogFile()}
}

// Stop implements command.Engine.
func (e *engine) Stop(ctx context.Context) error {
	if _, err := e.Find(ctx); err != nil {
		return err
	}
	dir, err := host.Open(e.home)
	if err != nil {
		return err
	}
	return host.Stop(ctx, dir)
}

// Connect implements command.Engine.
func (e *engine) Connect(ctx context.Context, _ command.Host) (command.Client, error) {
	dir, err := host.Open(e.home)
	if err != nil {
		return nil, err
	}
	info, _, err := host.Find(dir)
	if err != nil {
		return nil, err
	}
	options, err := e.clientOptions(info)
	if err != nil {
		return nil, err
	}
	id, err := e.recordID(ctx)
	if err != nil {
		return nil, err
	}
	temporal, err := client.DialContext(ctx, options)
	if err != nil {
		return nil, err
	}
	return connection{workflows.Client{Temporal: temporal, Queues: workflows.Queues{Record: id}, ShareOf: e.shareOf}}, nil
}

func (e *engine) clientOptions(info host.Info) (client.Options, error) {
	if e.external != nil && !info.Ready() {
		info.Keys = e.external.keys(e.home)
		return e.external.clientOptions(info) // the worker is another machine's
	}
	if err := e.agrees(info); err != nil {
		return client.Options{}, err
	}
	if e.external != nil {
		return e.external.clientOptions(info)
	}
	return info.ClientOptions()
}

// recordID waits for the record, which a host that is just starting makes, or brings up
// to date, after it can be found.
func (e *engine) recordID(ctx context.Context) (string, error) {
	for {
		store, err := e.readRecord()
		if err == nil {
			defer store.Close()
			return store.ID(), nil
		}
		if !errors.Is(err, record.ErrNotFound) && !errors.Is(err, record.ErrOlder) {
			return "", err
		}
		select {
		case <-ctx.Done():
			return "", err
		case <-time.After(20 * time.Millisecond):
		}
	}
}

type connection struct{ workflows.Client }

// Close implements command.Client.
func (c connection) Close() { c.Temporal.Close() }

// Probe implements command.Engine.
func (e *engine) Probe(ctx context.Context) map[string][]trial.Reason {
	// A runner that cannot be had is what the platform then finds missing.
	runner, _ := binary.Install(filepath.Join(e.home, "runner"))
	reasons := map[string][]trial.Reason{}
	for name, kind := range e.registry(runner) {
		reasons[name] = nil
		if kind.Probe != nil {
			reasons[name] = kind.Probe(ctx)
		}
	}
	return reasons
}

// Link implements command.Engine.
func (e *engine) Link(at command.Host, page string) string {
	token, err := e.token()
	if err != nil || at.TokenFile == "" {
		return at.WebUI + page
	}
	return embedded.Link(at.WebUI, token, page)
}

// DashboardLink implements command.Engine.
func (e *engine) DashboardLink(at command.Host, page string) string {
	token, err := e.token()
	if err != nil {
		return at.Dashboard + page
	}
	return door.Link(at.Dashboard, token, page)
}

func (e *engine) token() (string, error) {
	dir, err := host.Open(e.home)
	if err != nil {
		return "", err
	}
	return dir.Token()
}

// Unit implements command.Engine.
func (e *engine) Unit(out io.Writer) error {
	dir, err := host.Open(e.home)
	if err != nil {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	return host.PrintUnit(out, program, dir)
}
