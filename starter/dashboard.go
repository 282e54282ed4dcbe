package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/perennial-ml/perennial/dashboard"
	"github.com/perennial-ml/perennial/dashboard/views"
	"github.com/perennial-ml/perennial/door"
	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/starter/command"
	"github.com/perennial-ml/perennial/starter/host"
	"github.com/perennial-ml/perennial/telemetry"
	"github.com/perennial-ml/perennial/trial"
	"github.com/perennial-ml/perennial/workflows"
	"go.temporal.io/sdk/temporal"
)

// dashboardServer serves the dashboard beside everything else that a host does; it does
// not wait for Temporal.
type dashboardServer struct {
	server   *http.Server
	nni      *nniPorts
	at       string
	within   http.Handler // what is behind the door
	sessions []byte       // the key of cookies
	open     atomic.Int64 // requests being answered
	last     atomic.Int64 // when the last one ended, in nanoseconds
	meant    atomic.Int64 // when the last one came that somebody meant, in nanoseconds
}

// start listens where the last host of the state directory did, so that a page that was
// left open finds this one.
func (d *dashboardServer) start(e *engine, store *record.Store) error {
	dir, err := host.Open(e.home)
	if err != nil {
		return err
	}
	token, err := dir.Token()
	if err != nil {
		return err
	}
	listener, place, err := listen(filepath.Join(dir.Path(), "dashboard"))
	if err != nil {
		return fmt.Errorf("dashboard: %w", err)
	}
	d.nni = &nniPorts{engine: e, options: e.shown, store: store, token: token, tokens: door.TokensIn(e.home), count: d.count, servers: map[string]nniServer{}}
	d.within, d.sessions = d.inside(e, store), place.Sessions
	d.at = "http://" + listener.Addr().String()
	d.server = &http.Server{ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		Handler: door.New(door.Options{Token: token, Tokens: door.TokensIn(e.home), Reads: dashboard.Reads, Port: place.Port, Sessions: place.Sessions,
			Again: "starter dashboard", Inside: d.within})}
	go d.server.Serve(listener) //nolint:errcheck // it always ends with ErrServerClosed
	return nil
}

// inside is what is behind the door. Whoever collects metrics is no visitor.
func (d *dashboardServer) inside(e *engine, store *record.Store) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", d.count(dashboard.New(e.shown(store))))
	mux.Handle("POST "+nniPortsPath, d.nni)
	mux.Handle(nniPrefix+"{experiment}/", d.count(nniOfEach(e, store)))
	mux.Handle("GET "+telemetry.MetricsPath, telemetry.Metrics(store, command.Version))
	return mux
}

func (d *dashboardServer) address() string { return d.at }

// stop may be called without a start.
func (d *dashboardServer) stop() {
	if d.server != nil {
		d.server.Close()
		d.nni.close()
	}
}

func (d *dashboardServer) count(inside http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d.open.Add(1)
		if isMeant(r) {
			d.meant.Store(time.Now().UnixNano())
		}
		defer func() {
			d.last.Store(time.Now().UnixNano())
			d.open.Add(-1)
		}()
		inside.ServeHTTP(w, r)
	})
}

// isMeant tells requests that come of a click, a key or a program from those by which pages
// that are merely open stay true.
func isMeant(r *http.Request) bool {
	path, isAPI := strings.CutPrefix(r.URL.Path, dashboard.APIPath)
	listens := strings.HasSuffix(path, "/events") || strings.HasSuffix(path, "/changes")
	return !isAPI || listens || r.Method != http.MethodGet || r.Header.Get("Authorization") != "" || r.Header.Get("Sec-Fetch-Site") == ""
}

// attention is how long a page that is open, and in which nobody does anything, counts as
// looked at.
const attention = 12 * time.Hour

// visited tells whether somebody looks, or did a moment ago.
func (d *dashboardServer) visited() bool {
	there := d.open.Load() > 0 || time.Since(time.Unix(0, d.last.Load())) < time.Minute
	return there && time.Since(time.Unix(0, d.meant.Load())) < attention
}

// shown is what the dashboard of this host shows.
func (e *engine) shown(store *record.Store) dashboard.Options {
	registry := e.registry("")
	return dashboard.Options{
		Reader:    views.Reader{Store: store, Idle: e.idle},
		GPUs:      views.GPUHosts{Of: e.GPUs, RunsHere: func(platform string) bool { return registry[platform].Traits.RunsHere }},
		Logs:      e.Logs,
		WebUI:     e.workflowPage,
		Commander: commander{e},
		Version:   command.Version,
	}
}

// commander is dashboard.Commander by a client of this host's Temporal.
type commander struct{ *engine }

// Send implements dashboard.Commander.
func (c commander) Send(ctx context.Context, experiment string, wish trial.Command) (number int64, err error) {
	err = c.ask(ctx, func(client command.Client) (err error) {
		number, err = client.Send(ctx, experiment, wish)
		return err
	})
	return number, err
}

// End implements dashboard.Commander.
func (c commander) End(ctx context.Context, experiment string, sequence int, ending workflows.Ending) error {
	return c.ask(ctx, func(client command.Client) error { return client.End(ctx, experiment, sequence, ending) })
}

func (c commander) ask(ctx context.Context, say func(command.Client) error) error {
	at, err := c.Find(ctx)
	if err != nil {
		return err
	}
	if at.Address == "" {
		return errors.New("the host is still starting")
	}
	client, err := c.Connect(ctx, at)
	if err != nil {
		return err
	}
	defer client.Close()
	err = say(client)
	var refused *temporal.ApplicationError
	if errors.As(err, &refused) {
		return &dashboard.RefusedError{Text: refused.Message()}
	}
	return err
}

// workflowPage is a link to an experiment in the Web UI of the host, empty as long as
// there is none.
func (e *engine) workflowPage(experiment string) string {
	found, err := e.Find(context.Background())
	if err != nil || found.WebUI == "" {
		return ""
	}
	return command.WorkflowPage(e, found, experiment)
}

func (e *engine) idle(ctx context.Context, of record.Experiment) trial.Reason {
	if e.external == nil {
		return trial.Reason{} // this very process works on it
	}
	return command.Idle(ctx, e, of)
}

// place is where a state directory's dashboard listens, and the key of its cookies. It
// outlives hosts.
type place struct {
	Port     int    `json:"port"`
	Sessions []byte `json:"sessions"`
}

// listen takes the place that the file keeps. Where somebody else has it by now, the key
// is given up with it: browsers showed them their cookies.
func listen(file string) (net.Listener, place, error) {
	var kept place
	if text, err := os.ReadFile(file); err == nil && json.Unmarshal(text, &kept) == nil && len(kept.Sessions) > 0 {
		if listener, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", kept.Port)); err == nil {
			return listener, kept, nil
		}
	}
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, kept, err
	}
	kept = place{listener.Addr().(*net.TCPAddr).Port, door.NewSessions()}
	if err := keep(file, kept); err != nil {
		return nil, kept, errors.Join(err, listener.Close())
	}
	return listener, kept, nil
}

func keep(file string, kept place) error {
	text, err := json.Marshal(kept)
	if err != nil {
		return err
	}
	beside := strings.TrimSuffix(file, "/") + ".new"
	if err := os.WriteFile(beside, text, 0o600); err != nil {
		return err
	}
	return os.Rename(beside, file)
}
