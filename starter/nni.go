package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/perennial-ml/perennial/dashboard"
	"github.com/perennial-ml/perennial/door"
	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/starter/command"
)

// nniPortsPath is where a command has the host open a port for NNI's clients. It is on the
// dashboard's address, behind its door.
const nniPortsPath = "/nni-ports"

// nniPrefix is where, on the dashboard's address, each experiment has NNI's routes, without
// a port of its own: what NNI's clients call a url_prefix.
const nniPrefix = "/nni/"

// nniOfEach serves NNI's routes of the experiment that the path names.
func nniOfEach(e *engine, store *record.Store) http.Handler {
	options := e.shown(store)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.PathValue("experiment")
		routes := dashboard.NNI(dashboard.NNIOptions{Options: options, Experiment: id, Home: e.home})
		http.StripPrefix(nniPrefix+id, routes).ServeHTTP(w, r)
	})
}

// nniPorts are the ports on which experiments are served to NNI's clients.
type nniPorts struct {
	engine  *engine
	options func(*record.Store) dashboard.Options
	store   *record.Store
	token   string
	tokens  door.Tokens
	count   func(http.Handler) http.Handler // of visitors

	mu      sync.Mutex
	servers map[string]nniServer // by experiment
}

// nniServer is one of them.
type nniServer struct {
	*http.Server
	port int
}

// reopen opens what earlier hosts had open. A port that somebody else has by now is said.
func (n *nniPorts) reopen(complain func(error)) {
	files, _ := filepath.Glob(command.NNIPortFile(n.engine.home, "*"))
	for _, file := range files {
		var port command.NNIPort
		content, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(content, &port)
		}
		if err == nil {
			err = n.open(port)
		}
		if err != nil {
			complain(fmt.Errorf("NNI's port of experiment %s: %w", filepath.Base(filepath.Dir(file)), err))
		}
	}
}

// open serves an experiment at a port, in place of the one that it had.
func (n *nniPorts) open(port command.NNIPort) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.vacate(port); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port.Port)))
	if err != nil {
		return err
	}
	var pages fs.FS
	if port.Pages != "" {
		pages = os.DirFS(port.Pages)
	}
	inside := dashboard.NNI(dashboard.NNIOptions{Options: n.options(n.store), Experiment: port.Experiment, Home: n.engine.home,
		Port: port.Port, Pages: pages, Alone: port.Open})
	if before, open := n.servers[port.Experiment]; open {
		before.Close()
	}
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		Handler: door.New(door.Options{Token: n.token, Tokens: n.tokens, Port: port.Port, Again: fmt.Sprintf("starter resume %s --port %d", port.Experiment, port.Port), Open: port.Open, Inside: n.count(inside)})}
	n.servers[port.Experiment] = nniServer{server, port.Port}
	go server.Serve(listener) //nolint:errcheck // it always ends with ErrServerClosed
	return nil
}

// vacate takes a port back from an experiment that is over, or from this one. The mutex
// is held.
func (n *nniPorts) vacate(port command.NNIPort) error {
	for id, other := range n.servers {
		if other.port != port.Port {
			continue
		}
		if e, err := n.store.Experiment(context.Background(), id); id != port.Experiment && err == nil && e.Status.Active() {
			return fmt.Errorf("experiment %s has port %d", id, port.Port)
		}
		other.Close()
		delete(n.servers, id)
		if id != port.Experiment {
			os.Remove(command.NNIPortFile(n.engine.home, id)) //nolint:errcheck // the next host says that the port is taken
		}
	}
	return nil
}

// ServeHTTP opens a port for a command, and remembers it.
func (n *nniPorts) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var port command.NNIPort
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16)).Decode(&port)
	if err == nil {
		_, err = n.store.Experiment(r.Context(), port.Experiment)
	}
	if err == nil {
		err = n.open(port)
	}
	if err == nil {
		err = n.remember(port)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
	}
}

func (n *nniPorts) remember(port command.NNIPort) error {
	content, err := json.Marshal(port)
	if err != nil {
		return err
	}
	file := command.NNIPortFile(n.engine.home, port.Experiment)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	return writeWhole(file, content)
}

func (n *nniPorts) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, server := range n.servers {
		server.Close()
	}
}

// OpenNNI implements command.Engine.
func (e *engine) OpenNNI(ctx context.Context, at command.Host, port command.NNIPort) (link string, err error) {
	if at.Dashboard == "" {
		return "", errors.New("it takes a host on this machine, which has come up")
	}
	token, err := e.token()
	if err != nil {
		return "", err
	}
	body, err := json.Marshal(port)
	if err != nil {
		return "", err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, at.Dashboard+nniPortsPath, bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(answer.Body) // what it says is all there is to know
		return "", errors.New(strings.TrimSpace(string(text)))
	}
	address := fmt.Sprintf("http://127.0.0.1:%d", port.Port)
	if port.Open {
		return address, nil
	}
	return door.Link(address, token, "/"), nil
}
