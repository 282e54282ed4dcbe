package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/starter/command"
	"github.com/perennial-ml/perennial/starter/host"
	"github.com/perennial-ml/perennial/telemetry"
)

// metricsVariable is where a host serves metrics and health to monitoring, such as
// 127.0.0.1:9464, or :9464 in a container.
const metricsVariable = "PERENNIAL_METRICS"

// readyLimit is how long Temporal and the record together may take to answer a probe.
const readyLimit = 3 * time.Second

// monitoring serves metrics and health at an address of its own, where one is wanted:
// the dashboard's address changes, and is on loopback only.
type monitoring struct {
	server   *http.Server
	temporal atomic.Pointer[func(context.Context) error] // asks it; nil until the workers have begun
}

// start does nothing without an address.
func (m *monitoring) start(address string, dir host.Dir, store *record.Store) error {
	if address == "" {
		return nil
	}
	token, err := dir.MetricsToken()
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("$%s: %w", metricsVariable, err)
	}
	ready := func(ctx context.Context) error { return m.ready(ctx, store) }
	m.server = &http.Server{ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		Handler: telemetry.Handler(telemetry.Metrics(store, command.Version), token, ready)}
	go m.server.Serve(listener) //nolint:errcheck // it always ends with ErrServerClosed
	return nil
}

// begun has the host be ready as long as Temporal answers.
func (m *monitoring) begun(temporal client.Client) {
	ask := func(ctx context.Context) error {
		_, err := temporal.CheckHealth(ctx, &client.CheckHealthRequest{})
		return err
	}
	m.temporal.Store(&ask)
}

// ready tells why the host cannot work at present.
func (m *monitoring) ready(ctx context.Context, store *record.Store) error {
	asked := m.temporal.Load()
	if asked == nil {
		return errors.New("waiting for Temporal")
	}
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	if err := (*asked)(ctx); err != nil {
		return errors.New("Temporal does not answer; the host's log says why")
	}
	if _, err := store.Active(ctx); err != nil {
		return errors.New("the record does not answer; the host's log says why") // an error may name a database's address
	}
	return nil
}

// stop may be called without a start.
func (m *monitoring) stop() {
	if m.server != nil {
		m.server.Close()
	}
}
