package kube

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Fault is what a Proxy does to a request.
type Fault string

// Faults that a Proxy has.
const (
	Conflict    Fault = "409"
	TooMany     Fault = "429" // with Retry-After
	Broken      Fault = "500" // instead of doing it
	LostAnswer  Fault = "500 after it was done"
	CutOffWatch Fault = "a watch that breaks off"
)

// Proxy is a way to the API server on which things go wrong. What it lets through
// is the real server's answer.
type Proxy struct {
	Kubeconfig string
	// WatchFor is how long a watch lives; 0: as long as the server wants.
	WatchFor time.Duration
	// Every is how many requests that read, and how many that write, there are to a
	// fault; 0: there is none.
	Every int

	mutex    sync.Mutex
	requests map[bool]int // by whether they write
	faults   map[Fault]int
	calls    map[string]int
	held     chan struct{} // closed when watches tell again; nil: they do
}

// Proxy starts one, which ends with the test.
func (c *Cluster) Proxy(t testing.TB, p *Proxy) *Proxy {
	t.Helper()
	target, err := url.Parse(c.Server())
	require.NoError(t, err)
	p.requests, p.faults, p.calls = map[bool]int{}, map[Fault]int{}, map[string]int{}
	forward := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport: c.API.client.Transport, FlushInterval: -1,
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }} // the connection breaks
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.serve(forward, w, r) }))
	t.Cleanup(func() { p.Release(); server.CloseClientConnections(); server.Close() })
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	p.Kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(p.Kubeconfig, Kubeconfig(server.URL, c.API.Token, authority), 0o600))
	return p
}

func (p *Proxy) serve(forward http.Handler, w http.ResponseWriter, r *http.Request) {
	switch fault := p.choose(r); fault {
	case "":
		forward.ServeHTTP(holding{w, p, r.URL.Query().Get("watch") != ""}, r)
	case CutOffWatch:
		ctx, cancel := context.WithTimeout(r.Context(), p.WatchFor)
		defer cancel()
		forward.ServeHTTP(w, r.WithContext(ctx))
	case LostAnswer:
		forward.ServeHTTP(httptest.NewRecorder(), r)
		refuse(w, http.StatusInternalServerError, "InternalError")
	case Broken:
		refuse(w, http.StatusInternalServerError, "InternalError")
	case TooMany:
		w.Header().Set("Retry-After", "1")
		refuse(w, http.StatusTooManyRequests, "TooManyRequests")
	case Conflict:
		refuse(w, http.StatusConflict, "Conflict")
	}
}

// Hold has watches tell nothing, until Release.
func (p *Proxy) Hold() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.held == nil {
		p.held = make(chan struct{})
	}
}

// Release has watches tell what they held back, and go on.
func (p *Proxy) Release() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.held != nil {
		close(p.held)
		p.held = nil
	}
}

// holding is an answer of which nothing is sent while it is held.
type holding struct {
	http.ResponseWriter
	proxy   *Proxy
	watches bool
}

func (h holding) Write(data []byte) (int, error) {
	h.proxy.mutex.Lock()
	held := h.proxy.held
	h.proxy.mutex.Unlock()
	if h.watches && held != nil {
		<-held
	}
	return h.ResponseWriter.Write(data)
}

// Unwrap lets http.ResponseController flush.
func (h holding) Unwrap() http.ResponseWriter { return h.ResponseWriter }

// choose counts a request and says what shall become of it: faults take turns, of
// those that the real server has for such a request.
func (p *Proxy) choose(r *http.Request) (fault Fault) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	query := r.URL.Query()
	watches, follows := query.Get("watch") != "", query.Get("follow") != ""
	p.calls[callOf(r, watches)]++
	defer func() { p.faults[fault]++ }()
	if watches && p.WatchFor > 0 {
		return CutOffWatch
	}
	if watches || follows || p.Every == 0 {
		return ""
	}
	turns, writes := []Fault{TooMany, Broken}, r.Method != http.MethodGet
	if writes {
		turns = []Fault{Conflict, LostAnswer, TooMany, Broken}
	}
	if p.requests[writes]++; p.requests[writes]%p.Every != 0 {
		return ""
	}
	return turns[p.requests[writes]/p.Every%len(turns)]
}

// callOf is a request as "verb resource".
func callOf(r *http.Request, watches bool) string {
	verb := strings.ToLower(r.Method)
	if watches {
		verb = "watch"
	}
	_, resource, _ := strings.Cut(r.URL.Path, "/namespaces/")
	words := strings.Split(resource, "/")
	resource = words[min(1, len(words)-1)]
	if last := words[len(words)-1]; last == "log" {
		resource += "/log"
	}
	return verb + " " + resource
}

func refuse(w http.ResponseWriter, code int, reason string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(Object{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code,
		"message": fmt.Sprintf("the laboratory's proxy says %d", code)})
}

// Faults are how often each came.
func (p *Proxy) Faults() map[Fault]int { return copied(p, p.faults) }

// Calls are how often each "verb resource" was asked for.
func (p *Proxy) Calls() map[string]int { return copied(p, p.calls) }

func copied[K comparable](p *Proxy, counted map[K]int) map[K]int {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	counts := map[K]int{}
	for what, count := range counted {
		counts[what] = count
	}
	return counts
}
