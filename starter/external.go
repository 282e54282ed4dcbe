package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"

	"github.com/perennial-ml/perennial/platforms/all"
	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/starter/command"
	"github.com/perennial-ml/perennial/starter/host"
	"github.com/perennial-ml/perennial/workers"
	"github.com/perennial-ml/perennial/workers/codec"
	"github.com/perennial-ml/perennial/workflows"
)

// external is a Temporal that others run, as TEMPORAL_* variables and profiles
// name it.
type external struct {
	options client.Options
	webUI   string
	encrypt bool // payloads, with the keys of the state directory
}

var _ host.Engine = external{}

// defaultNamespace is the one that every Temporal has.
const defaultNamespace = "default"

// findExternal reads the variables and profiles that Temporal's own programs read.
// It returns nil where they give no address: the embedded server is meant then.
func findExternal(variables envconfig.EnvLookup) (*external, error) {
	profile, err := envconfig.LoadClientConfigProfile(envconfig.LoadClientConfigProfileOptions{EnvLookup: variables})
	if err != nil {
		return nil, fmt.Errorf("the TEMPORAL_* variables or the profile they name: %w", err)
	}
	if profile.Address == "" {
		return nil, incomplete(profile, variables)
	}
	if profile.Namespace == "" {
		profile.Namespace = defaultNamespace
	}
	options, err := profile.ToClientOptions(envconfig.ToClientOptionsRequest{})
	if err != nil {
		return nil, fmt.Errorf("the TEMPORAL_* variables or the profile they name: %w", err)
	}
	webUI, _ := variables.LookupEnv("TEMPORAL_UI")
	encrypt, err := wantsEncryption(variables)
	return &external{options: options, webUI: strings.TrimRight(webUI, "/"), encrypt: encrypt}, err
}

// wantsEncryption reads PERENNIAL_ENCRYPT. A Temporal of others gets plain
// payloads unless it is set: its Web UI could not show them.
func wantsEncryption(variables envconfig.EnvLookup) (bool, error) {
	text, _ := variables.LookupEnv("PERENNIAL_ENCRYPT")
	if text == "" {
		return false, nil
	}
	wants, err := strconv.ParseBool(text)
	if err != nil {
		return false, fmt.Errorf("PERENNIAL_ENCRYPT is %q: make it true or false", text)
	}
	return wants, nil
}

// serve has a host use it.
func (x external) serve(config *host.Config) error {
	if err := config.Dir.Settle(); err != nil {
		return err
	}
	if x.encrypt {
		config.Keys = config.Dir.Keys()
		ring, err := codec.Open(config.Keys)
		if err != nil {
			return err
		}
		x.options = ring.Protect(x.options)
	}
	config.Engine = func(context.Context) (host.Engine, error) { return x, nil }
	return nil
}

// keys are those that payloads are encrypted with, zero where they are not.
func (x external) keys(home string) codec.Files {
	if !x.encrypt {
		return codec.Files{}
	}
	return codec.In(home)
}

// clientOptions are those of a client that speaks as the host does.
func (x external) clientOptions(info host.Info) (client.Options, error) {
	if info.Keys == (codec.Files{}) {
		return x.options, nil
	}
	ring, err := codec.Read(info.Keys)
	if err != nil {
		return client.Options{}, err
	}
	return ring.Protect(x.options), nil
}

// incomplete refuses settings that mean a Temporal and do not say which.
func incomplete(profile envconfig.ClientConfigProfile, variables envconfig.EnvLookup) error {
	if _, off := variables.LookupEnv("TEMPORAL_ADDRESS"); off || profile.APIKey == "" {
		return nil
	}
	return errors.New("a Temporal API key is set and no address: set TEMPORAL_ADDRESS too, or to nothing for the embedded server")
}

// Client implements host.Engine.
func (x external) Client() client.Options { return x.options }

// WebUI implements host.Engine.
func (x external) WebUI() string { return x.webUI }

// Stop implements host.Engine: what others started is theirs to stop.
func (x external) Stop() error { return nil }

// patience is how long a command waits for an external Temporal to answer.
const patience = 10 * time.Second

// with gives work a connection that is known to be good.
func (x external) with(ctx context.Context, work func(context.Context, client.Client) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	temporal, err := client.NewLazyClient(x.options)
	if err != nil {
		return err
	}
	defer temporal.Close()
	if err := workers.Reach(ctx, temporal, x.options.Namespace); err != nil {
		return fmt.Errorf("Temporal at %s: %w", x.options.HostPort, err)
	}
	return work(ctx, temporal)
}

// External implements command.Engine.
func (e *engine) External() command.External {
	if e.external == nil {
		return command.External{}
	}
	return command.External{Address: e.external.options.HostPort, Namespace: e.external.options.Namespace}
}

// Examine implements command.Engine.
func (e *engine) Examine(ctx context.Context) (mend string, err error) {
	err = e.external.with(ctx, func(ctx context.Context, temporal client.Client) error {
		at := e.external.options
		missing, err := attributes().Missing(ctx, temporal, at.Namespace)
		if err == nil && len(missing) > 0 {
			mend = missing.Command(at.HostPort, at.Namespace)
		}
		return err
	})
	return mend, err
}

func attributes() workers.SearchAttributes { return workflows.SearchAttributes() }

// Unpolled implements command.Engine.
func (e *engine) Unpolled(ctx context.Context, experiment string, platforms []string) (queue string, err error) {
	if e.external == nil {
		return "", nil
	}
	queues, err := e.queues(ctx, experiment, platforms)
	if errors.Is(err, errNoRecord) {
		return "perennial-experiment", nil
	}
	if err != nil {
		return "", err
	}
	// Temporal remembers a worker that died for minutes.
	identity, err := e.livingWorker(ctx, experiment)
	if err != nil || identity == "" {
		return queues[0], err
	}
	err = e.external.with(ctx, func(ctx context.Context, temporal client.Client) error {
		queue, err = workers.Unpolled(ctx, temporal, identity, queues)
		return err
	})
	return queue, err
}

// livingWorker is the identity of the worker of an experiment that lives, by its word in the
// record or by the lock of the state directory; empty where none does.
func (e *engine) livingWorker(ctx context.Context, experiment string) (identity string, err error) {
	worker, err := e.driver(ctx, experiment)
	if err != nil {
		return "", err
	}
	if worker != nil {
		return worker.Identity, nil
	}
	dir, err := host.Open(e.home)
	if err != nil {
		return "", err
	}
	info, alive, err := host.Find(dir)
	if err != nil || !alive {
		return "", err
	}
	return workers.Identity(dir.StateID(), info.Nonce), nil
}

// errNoRecord says that no worker has ever run here, so that queues have no names.
var errNoRecord = errors.New("there is no record yet")

// queues are all that an experiment on these platforms needs polled.
func (e *engine) queues(ctx context.Context, experiment string, platforms []string) ([]string, error) {
	dir, err := host.Open(e.home)
	if err != nil {
		return nil, err
	}
	store, err := e.readRecord()
	if errors.Is(err, record.ErrNotFound) {
		return nil, errNoRecord
	}
	if err != nil {
		return nil, err
	}
	defer store.Close()
	names := workflows.Queues{Record: store.ID()}
	if names.Share, err = e.shareOf(ctx, experiment); err != nil {
		return nil, err
	}
	queues := []string{names.Experiment()}
	seat, err := store.Seat(ctx, names.Share, dir.StateID())
	if err != nil {
		return nil, err
	}
	queueOf := workers.PlatformQueue(names, e.registry(""), seat)
	for _, platform := range platforms {
		queues = append(queues, queueOf(platform))
	}
	return queues, nil
}

// agrees refuses to speak to a host about another Temporal than the one that the
// caller means.
func (e *engine) agrees(info host.Info) error {
	there := info.Address + ", namespace " + info.Namespace
	if info.Embedded() {
		there = "the embedded server"
	}
	meant := e.External()
	switch {
	case meant.Address == "" && info.Embedded(), meant.Address == info.Address && meant.Namespace == info.Namespace:
		return nil
	case meant.Address == "":
		return fmt.Errorf("the host that runs uses Temporal at %s, and no TEMPORAL_ADDRESS is set here: "+
			"set it, or end that host with \"starter serve --stop\"", there)
	}
	return fmt.Errorf("the host that runs uses Temporal at %s, and %s, namespace %s, is named here: end it with "+
		"\"starter serve --stop\" and try again; trials go on", there, meant.Address, meant.Namespace)
}

// known refuses platforms that this program does not have.
func known(names []string) error {
	every := all.All(all.Options{})
	for _, name := range names {
		if _, here := every[name]; !here {
			return fmt.Errorf("there is no platform %q in this program", name)
		}
	}
	return nil
}

// use checks, before a host is started, that an external Temporal can be worked
// with, so that a wrong address is told at once.
func (x external) use(ctx context.Context, dir host.Dir, read func() (*record.Store, error)) error {
	if err := dir.Settle(); err != nil {
		return err
	}
	return x.with(ctx, func(ctx context.Context, temporal client.Client) error {
		store, err := read()
		if err != nil {
			return nil // a new record is nobody else's; a damaged one is told of by the host
		}
		defer store.Close()
		if store.Shared() {
			return nil // who works on it, it knows itself
		}
		return workers.Alone(ctx, temporal, store.ID(), dir.StateID())
	})
}
