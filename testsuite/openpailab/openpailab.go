// Package openpailab stands in for an OpenPAI cluster: a real listener that keeps
// state, verifies tokens, enforces the limits of calls, answers as the real rest-server
// did (see openpailab_test.go) and runs the command of each job as a process of this
// machine.
package openpailab

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/testsuite/servicelab"
)

// The cluster's only user, and what there is.
const (
	User           = "ada"
	Password       = "correct horse battery"
	Token          = "application-token-of-ada"
	VirtualCluster = "default"
	Storage        = "nfs-storage"
)

// Cluster is a cluster that goes with its test. Calls are of the sorts "submit", "list",
// "find", "stop" and "login".
type Cluster struct {
	servicelab.Faults
	URL string
	// Here and There are where its storage is mounted on this machine and in
	// containers.
	Here, There string
	// Nodes is how many jobs run at a time; others wait. 0: any number.
	Nodes int
	// Environment is in every job's, NAME=value.
	Environment []string
	// Idle has jobs run nothing: they are over at once.
	Idle bool

	t      testing.TB
	server *httptest.Server
	mutex  sync.Mutex
	now    func() time.Time
	tokens map[string]time.Time // when they expire; zero: never
	jobs   []*job
	logins int
	stale  []view // what lists show instead of what is
	frozen bool
}

type job struct {
	name, command, state string
	stopped              bool
	exit                 *int
	container            *servicelab.Container
	created              time.Time
}

// New starts a cluster.
func New(t testing.TB) *Cluster {
	directory, err := os.MkdirTemp("", "openpailab-")
	require.NoError(t, err)
	c := &Cluster{
		Here: filepath.Join(directory, "here"), There: filepath.Join(directory, "there"), t: t, now: time.Now,
		tokens: map[string]time.Time{Token: {}},
	}
	c.Allow("submit", 60, time.Hour)
	c.Allow("list", 60, time.Minute)
	require.NoError(t, os.Mkdir(c.Here, 0o755))
	require.NoError(t, os.Symlink(c.Here, c.There))
	c.server = httptest.NewServer(http.HandlerFunc(c.serve))
	c.URL = c.server.URL
	t.Cleanup(func() {
		c.server.CloseClientConnections()
		c.server.Close()
		c.killAll()
		_ = os.RemoveAll(directory)
	})
	return c
}

// At has the cluster's limits and tokens go by another clock.
func (c *Cluster) At(now func() time.Time) {
	c.By(now)
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.now = now
}

// Revoke has all tokens refused from now on, and one accepted instead.
func (c *Cluster) Revoke(instead string) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.tokens = map[string]time.Time{instead: {}}
}

// Freeze has lists show what there is now, until it is called with false.
func (c *Cluster) Freeze(frozen bool) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.stale, c.frozen = c.views(), frozen
}

// States returns every job's state by its name.
func (c *Cluster) States() map[string]string {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	states := map[string]string{}
	for _, one := range c.jobs {
		states[one.name] = one.state
	}
	return states
}

// Alive is how many jobs are not over.
func (c *Cluster) Alive() (alive int) {
	for _, state := range c.States() {
		if state == "WAITING" || state == "RUNNING" {
			alive++
		}
	}
	return alive
}

// Kill kills a job's container, as a node that is lost does.
func (c *Cluster) Kill(name string) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for _, one := range c.jobs {
		if one.name == name && one.container != nil {
			one.container.Kill()
		}
	}
}

func (c *Cluster) killAll() {
	for name := range c.States() {
		c.Kill(name)
	}
}

// schedule starts jobs that wait, as far as there are nodes. The mutex is held.
func (c *Cluster) schedule() {
	busy := 0
	for _, one := range c.jobs {
		if one.state == "RUNNING" {
			busy++
		}
	}
	for _, one := range c.jobs {
		if one.state == "WAITING" && (c.Nodes == 0 || busy < c.Nodes) {
			busy++
			c.start(one)
		}
	}
}

func (c *Cluster) start(one *job) {
	if c.Idle {
		zero := 0
		one.state, one.exit = "SUCCEEDED", &zero
		return
	}
	environment := append([]string{"HOME=" + c.There, "LEDGER=" + os.Getenv("LEDGER"), "PAI_JOB_NAME=" + User + "~" + one.name}, c.Environment...)
	container, err := servicelab.Run("/bin/bash", one.command, c.log(one.name), environment, func(code int) { c.ended(one, code) })
	one.state, one.container = "RUNNING", container
	if err != nil {
		code := 1
		one.state, one.exit = "FAILED", &code
	}
}

func (c *Cluster) ended(one *job, code int) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	one.exit, one.container, one.state = &code, nil, "FAILED"
	switch {
	case one.stopped:
		one.state = "STOPPED"
	case code == 0:
		one.state = "SUCCEEDED"
	}
	c.schedule()
}

func (c *Cluster) log(name string) string { return filepath.Join(filepath.Dir(c.Here), name+".log") }

// Log is what a job printed.
func (c *Cluster) Log(name string) string {
	content, _ := os.ReadFile(c.log(name))
	return string(content)
}
