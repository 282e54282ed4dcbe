package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os/signal"
	"syscall"
	"time"

	"go.temporal.io/sdk/client"
	"golang.org/x/sys/unix"

	"github.com/perennial-ml/perennial/embedded"
	"github.com/perennial-ml/perennial/workers/codec"
)

// Service is what the host runs beside the engine: the workers. It returns when
// the context ends, leaving trials alone; anything it returns earlier ends the
// host.
type Service func(ctx context.Context, running Running) error

// Running is what a service needs to know of the host it runs in.
type Running struct {
	Dir Dir
	// Client are the options of a Temporal client of the engine.
	Client client.Options
	// WebUI is the address of the Web UI, without the one-time token.
	WebUI string
	// Nonce is random and new for each host process.
	Nonce string
	Log   *slog.Logger
}

// Identity begins the identity of every worker of this host,
// "<state id>/<nonce>/": it tells whose an activity was, and of which life.
func (r Running) Identity() string { return r.Dir.StateID() + "/" + r.Nonce + "/" }

// Engine is a Temporal server that the host uses.
type Engine interface {
	// Client are the options of a client of the server.
	Client() client.Options
	// WebUI is the address of its Web UI, or empty.
	WebUI() string
	// Stop ends what the host started of it.
	Stop() error
}

// Config says what a host is made of.
type Config struct {
	Dir     Dir
	Version string
	// Before, if not nil, begins what need not wait for the engine, as soon as
	// this process is the host.
	Before func(log *slog.Logger) error
	// After, if not nil, ends what Before began, as far as it began, while this
	// process is still the host.
	After func()
	// Dashboard, if not nil, is the address of the dashboard that Before began.
	Dashboard func() string
	Service   Service
	// Log gets what the host and its engine say; nil drops it.
	Log io.Writer
	// Engine starts or finds the Temporal server; nil means the embedded one.
	Engine func(ctx context.Context) (Engine, error)
	// Keys is where the keys are that payloads for Engine are encrypted with; zero
	// where they are not.
	Keys codec.Files
}

// Serve makes this process the host of the directory until the context ends, it
// is asked to end by SIGTERM or SIGINT, its service ends, or the directory is gone,
// which is a GoneError; trials are left alone. Where another process is the host it
// returns a HeldError. Files that this process makes are private from then on.
func Serve(ctx context.Context, config Config) error {
	ctx, cancel := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	unix.Umask(0o077)
	lock, err := Acquire(config.Dir, config.Version)
	if err != nil {
		return err
	}
	log := config.logger()
	log.Info("host starts", "version", config.Version, "nonce", lock.Info().Nonce)
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	go lock.watch(ctx, func(gone error) {
		log.Error("host ends", "error", gone)
		end(gone)
	})
	err = config.serve(ctx, lock, log)
	var gone *GoneError
	if errors.As(context.Cause(ctx), &gone) {
		err = gone // whatever else failed without it
	}
	log.Info("host ends", "error", err)
	return errors.Join(err, lock.Release())
}

func (c Config) logger() *slog.Logger {
	if c.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(c.Log, nil))
}

func (c Config) serve(ctx context.Context, lock *Lock, log *slog.Logger) error {
	if c.After != nil {
		defer c.After()
	}
	if c.Before != nil {
		if err := c.Before(log); err != nil {
			return err
		}
	}
	engine, err := c.engine(ctx, log)
	if err != nil {
		return err
	}
	running := Running{Dir: c.Dir, Client: engine.Client(), WebUI: engine.WebUI(), Nonce: lock.Info().Nonce, Log: log}
	if err = lock.Publish(c.published(lock.Info(), running)); err == nil {
		err = runService(ctx, c.Service, running)
	}
	return errors.Join(err, engine.Stop())
}

func (c Config) published(info Info, running Running) Info {
	info.Address, info.Namespace, info.WebUI = running.Client.HostPort, running.Client.Namespace, running.WebUI
	info.Keys = c.Keys
	if c.Dashboard != nil {
		info.Dashboard = c.Dashboard()
	}
	if c.Engine == nil {
		info.TokenFile, info.Keys = c.Dir.TokenFile(), c.Dir.Keys()
	}
	return info
}

// serviceGrace bounds how long a service may take to return once it is asked to.
// A host that does not end in five seconds is one that users kill.
const serviceGrace = 3 * time.Second

func runService(ctx context.Context, service Service, running Running) error {
	ended := make(chan error, 1)
	go func() { ended <- service(ctx, running) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-ended:
		if errors.Is(err, context.Canceled) {
			return nil
		}
		return err
	case <-time.After(serviceGrace):
		return fmt.Errorf("workers did not end within %v", serviceGrace)
	}
}

func (c Config) engine(ctx context.Context, log *slog.Logger) (Engine, error) {
	if c.Engine != nil {
		return c.Engine(ctx)
	}
	token, err := c.Dir.Token()
	if err != nil {
		return nil, err
	}
	ring, err := codec.Open(c.Dir.Keys())
	if err != nil {
		return nil, err
	}
	server, err := embedded.Start(ctx, embedded.Options{
		Directory: c.Dir.temporal(),
		Token:     token,
		Logger:    log.With("part", "temporal"),
		Codec:     ring.Handler(),
	})
	if err != nil {
		return nil, err
	}
	return ownEngine{server, token, ring}, nil
}

// ownEngine is the embedded server as an Engine.
type ownEngine struct {
	*embedded.Server
	token string
	ring  *codec.Ring
}

// Client implements Engine.
func (e ownEngine) Client() client.Options {
	return e.ring.Protect(clientOptions(e.Address(), e.Namespace(), e.token))
}
