// Package embedded runs a Temporal server and its Web UI inside this process.
//
// The server listens on loopback ports that the operating system picks, keeps
// everything in one SQLite file and lets in only callers that know its token.
// Nothing here stops two servers from opening the same file: SQLite would let
// them wreck each other's shard, so the caller holds a lock on the directory.
//
// It is the only package that imports the Temporal server and its Web UI.
package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"go.temporal.io/server/common/authorization"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/dynamicconfig"
	"go.temporal.io/server/temporal"
)

// Namespace is the Temporal namespace that exists when Options names none.
const Namespace = "perennial"

// DefaultRetention is how long a closed workflow stays readable. Temporal's own
// default would delete results after 24 hours.
const DefaultRetention = 10 * 365 * 24 * time.Hour

// Options says where a server keeps its data and who may call it.
type Options struct {
	// Directory holds temporal.db. It must exist, be private to the user and
	// lie on a local file system.
	Directory string
	// Token is what callers present as "Authorization: Bearer <token>".
	// Whoever knows it may do everything; it must not be empty.
	Token string
	// Namespace is created when it does not exist; empty means Namespace.
	Namespace string
	// Retention applies when the namespace is created; zero means
	// DefaultRetention.
	Retention time.Duration
	// Logger gets what the server logs as errors; nil drops it.
	Logger *slog.Logger
	// Codec decodes payloads for the Web UI. It serves /encode and /decode and
	// is reached below /codec/ of the Web UI's address; nil means that payloads
	// are shown as they are stored.
	Codec http.Handler
}

// Server is a running Temporal server with its Web UI.
type Server struct {
	address   string
	namespace string
	temporal  temporal.Server
	webUI     *webUI
	wal       *walSync
	stopping  sync.Once
	stopped   error
}

// Start brings the server up and returns once it answers. A database that is
// damaged is a DamagedError, one written by a newer server a NewerError;
// neither is touched.
func Start(ctx context.Context, options Options) (*Server, error) {
	options, err := withDefaults(options)
	if err != nil {
		return nil, err
	}
	if err := prepareDatabase(ctx, options.Directory); err != nil {
		return nil, err
	}
	server := &Server{namespace: options.Namespace}
	if err := server.start(ctx, options); err != nil {
		return nil, errors.Join(err, server.Stop())
	}
	return server, nil
}

func withDefaults(options Options) (Options, error) {
	if options.Token == "" {
		return options, errors.New("an embedded Temporal server needs a token: without one every local user could drive it")
	}
	if options.Namespace == "" {
		options.Namespace = Namespace
	}
	if options.Retention == 0 {
		options.Retention = DefaultRetention
	}
	if options.Logger == nil {
		options.Logger = slog.New(slog.DiscardHandler)
	}
	return options, nil
}

func (s *Server) start(ctx context.Context, options Options) error {
	if err := createNamespace(options); err != nil {
		return err
	}
	s.wal = startWALSync(databasePath(options.Directory), options.Logger)
	if err := s.startTemporal(options); err != nil {
		return err
	}
	if err := waitUntilServing(ctx, s.address); err != nil {
		return err
	}
	var err error
	s.webUI, err = startWebUI(s.address, options)
	return err
}

// bindAttempts bounds how often other ports are tried when somebody takes one
// between our picking and Temporal's binding it.
const bindAttempts = 5

func (s *Server) startTemporal(options Options) error {
	var err error
	for range bindAttempts {
		var ports ports
		if ports, err = freePorts(); err != nil {
			return err
		}
		if s.temporal, err = launch(ports, options); err == nil {
			s.address = ports.address(frontend)
			return nil
		}
		if !errors.Is(err, errListen) {
			return err
		}
	}
	return err
}

// launch starts Temporal's services. The server reports what it cannot survive,
// a port that is taken above all, by a fatal log entry; while it starts, that
// comes back as an error instead of ending the process.
func launch(p ports, options Options) (server temporal.Server, err error) {
	logger := newServerLog(options.Logger)
	defer logger.started.Store(true)
	defer recoverFatal(&err)
	identity, err := newInternodeIdentity()
	if err != nil {
		return nil, err
	}
	server, err = temporal.NewServer(
		temporal.WithConfig(serverConfig(options.Directory, p)),
		temporal.ForServices(services),
		temporal.WithStaticHosts(p.hosts()),
		temporal.WithLogger(logger),
		temporal.WithAuthorizer(authorization.NewDefaultAuthorizer()),
		temporal.WithClaimMapper(func(*config.Config) authorization.ClaimMapper { return bearer(options.Token) }),
		temporal.WithTLSConfigFactory(identity),
		temporal.WithDynamicConfigClient(dynamicconfig.StaticClient(tuning())),
	)
	if err != nil {
		return nil, fmt.Errorf("temporal server: %w", err)
	}
	if err := server.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("temporal server: %w", err), server.Stop())
	}
	return server, nil
}

// Address is the host:port of Temporal's frontend.
func (s *Server) Address() string { return s.address }

// Namespace is the namespace that exists on the server.
func (s *Server) Namespace() string { return s.namespace }

// WebUI is the address of the Web UI. It answers 401 until a browser has opened
// a link made by Link.
func (s *Server) WebUI() string { return s.webUI.address }

// stopGrace bounds how long a stop waits for Temporal's services; what takes
// longer ends with the process, which loses nothing.
const stopGrace = 2 * time.Second

// Stop ends the server; what it acknowledged is on disk when Stop returns. A
// second Stop returns what the first did. Temporal keeps the SQLite handle open
// until the process ends.
func (s *Server) Stop() error {
	s.stopping.Do(func() { s.stopped = s.stopAll() })
	return s.stopped
}

func (s *Server) stopAll() error {
	if s.webUI != nil {
		s.webUI.stop()
	}
	err := s.stopTemporal()
	if s.wal != nil {
		err = errors.Join(err, s.wal.stop())
	}
	return err
}

func (s *Server) stopTemporal() error {
	if s.temporal == nil {
		return nil
	}
	stopped := make(chan error, 1)
	go func() { stopped <- s.temporal.Stop() }()
	select {
	case err := <-stopped:
		return err
	case <-time.After(stopGrace):
		return nil
	}
}
