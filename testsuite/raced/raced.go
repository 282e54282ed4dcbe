// Package raced runs whole experiments in one process, server, workers and
// runners' supervision included, so that the race detector sees all of it.
package raced

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"

	"github.com/perennial-ml/perennial/activities"
	"github.com/perennial-ml/perennial/activities/poller"
	"github.com/perennial-ml/perennial/assessors"
	"github.com/perennial-ml/perennial/experiment"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/all"
	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/runner/binary"
	"github.com/perennial-ml/perennial/starter/host"
	"github.com/perennial-ml/perennial/trial"
	"github.com/perennial-ml/perennial/tuners"
	"github.com/perennial-ml/perennial/workers"
	"github.com/perennial-ml/perennial/workflows"
)

// patience is how long anything may take under the race detector on a busy
// machine.
const patience = 2 * time.Minute

// served is a host in this process.
type served struct {
	t      testing.TB
	home   string
	store  *record.Store
	client workflows.Client
	stop   context.CancelFunc
	ended  chan error
}

// serve brings a host up on a state directory and returns once it works.
func serve(t testing.TB, home string) *served {
	t.Helper()
	dir, err := host.Open(home)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	s := &served{t: t, home: home, stop: stop, ended: make(chan error, 1)}
	ready := make(chan struct{})
	go func() {
		s.ended <- host.Serve(ctx, host.Config{Dir: dir, Version: "test", Service: s.service(ready)})
	}()
	select {
	case <-ready:
	case err := <-s.ended:
		require.NoError(t, err)
	}
	return s
}

func (s *served) service(ready chan<- struct{}) host.Service {
	return func(ctx context.Context, running host.Running) (err error) {
		if s.store, err = record.Open(filepath.Join(s.home, "record.sqlite")); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.store.Close()) }()
		return s.work(ctx, running, ready)
	}
}

func (s *served) work(ctx context.Context, running host.Running, ready chan<- struct{}) error {
	options := running.Client
	options.Identity = workers.Identity(running.Dir.StateID(), running.Nonce)
	options.Logger = log.NewStructuredLogger(running.Log)
	temporal, err := client.DialContext(ctx, options)
	if err != nil {
		return err
	}
	defer temporal.Close()
	registry, err := s.platforms()
	if err != nil {
		return err
	}
	sections := poller.Observe(poller.Options{
		Registry: registry, Sections: activities.SectionsOf(s.store, activities.Secrets{}), Record: s.store, Logger: running.Log,
	})
	defer sections.Stop()
	started, err := workers.Start(ctx, workers.Options{
		Client: temporal, Namespace: options.Namespace, Record: s.store, Sections: sections,
		Environment: func(string) string { return "" },
		StateID:     running.Dir.StateID(), Nonce: running.Nonce, Logger: running.Log,
	})
	if err != nil {
		return err
	}
	s.client = started.Workflows()
	close(ready)
	<-ctx.Done()
	started.Stop()
	return nil
}

func (s *served) platforms() (platforms.Registry, error) {
	runner, err := binary.Install(filepath.Join(s.home, "runner"))
	return all.All(all.Options{Runner: runner, StateDirectory: s.home}), err
}

// end ends the host in order.
func (s *served) end() {
	s.t.Helper()
	s.stop()
	require.NoError(s.t, <-s.ended)
}

// accept starts an experiment from its YAML and returns its id.
func (s *served) accept(file string) string {
	s.t.Helper()
	loaded, err := experiment.Load(file, experiment.Build{
		Tuners: tuners.Names(), Assessors: assessors.Names(), Platforms: []string{"fake", "local"},
	})
	require.NoError(s.t, err)
	value, err := json.Marshal(loaded.Experiment)
	require.NoError(s.t, err)
	id := trial.NewExperimentID()
	s.send(id, trial.Accept, string(value))
	return id
}

func (s *served) send(id, name, value string) {
	s.t.Helper()
	command := trial.Command{ID: trial.NewExperimentID(), Name: name}
	if value != "" {
		command.Value = json.RawMessage(value)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err := s.client.Send(ctx, id, command)
	require.NoError(s.t, err)
}

// await waits until the experiment's row satisfies a condition.
func (s *served) await(id, what string, holds func(record.Experiment) bool) record.Experiment {
	s.t.Helper()
	var row record.Experiment
	came := assert.Eventually(s.t, func() bool {
		var err error
		row, err = s.store.Experiment(context.Background(), id)
		return err == nil && holds(row)
	}, patience, 20*time.Millisecond)
	require.True(s.t, came, "waited for: %s; the experiment is %s (%s), %v", what, row.Status, row.Reason.Text, row.Counts)
	return row
}
