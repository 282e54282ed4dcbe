// Package amllab stands in for Azure: its login, its Resource Manager as far as machine
// learning goes, a workspace's run history and its blob store. It is a real listener by
// TLS that keeps state, reads requests by the types of Azure's own SDK, verifies tokens
// and addresses, and runs the command of each job as a process of this machine. No real
// Azure was at hand to compare it with.
package amllab

import (
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/perennial-ml/perennial/testsuite/servicelab"
)

// What there is.
const (
	Tenant       = "11111111-2222-3333-4444-555555555555"
	ClientID     = "99999999-8888-7777-6666-555555555555"
	ClientSecret = "stand-in-of-a-client-secret"
	Subscription = "00000000-0000-0000-0000-000000000001"
	Group        = "research"
	Workspace    = "trials"
	Compute      = "gpu-cluster"
)

// Service is all of Azure that there is. Calls are of the sorts "login", "submit", "find",
// "cancel", "history", "log", "show", "upload", "asset", "compute" and "workspace".
type Service struct {
	servicelab.Faults
	URL    string
	Client *http.Client // one that trusts its certificate
	// Nodes is how many jobs run at a time; others wait. 0: any number.
	Nodes int

	server    *httptest.Server
	directory string
	mutex     sync.Mutex
	secret    string
	tokens    map[string]bool
	given     int // how many tokens were
	jobs      map[string]*job
	order     []*job
	assets    map[string]string // paths of codes and environments, to their bodies
	behind    bool              // logs show nothing
	vanished  bool              // the workspace is not there
}

type job struct {
	name, body, command, experiment, status, code string
	environment                                   []string
	container                                     *servicelab.Container
	canceled                                      bool
	shown                                         map[string][]float64 // metrics of MLflow's, by name
	params                                        map[string]string
	started, ended                                time.Time
}

// Start starts it.
func Start() (*Service, error) {
	directory, err := os.MkdirTemp("", "amllab-")
	if err != nil {
		return nil, err
	}
	s := &Service{directory: directory, secret: ClientSecret, tokens: map[string]bool{}, jobs: map[string]*job{}, assets: map[string]string{}}
	s.server = httptest.NewTLSServer(http.HandlerFunc(s.serve))
	s.URL, s.Client = s.server.URL, s.server.Client()
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.server.Certificate().Raw})
	return s, os.WriteFile(s.certificate(), certificate, 0o600)
}

func (s *Service) certificate() string { return filepath.Join(s.directory, "certificate.pem") }

// Environment are the variables, NAME=value, by which a program logs in here.
func (s *Service) Environment() []string {
	return []string{"AZURE_TENANT_ID=" + Tenant, "AZURE_CLIENT_ID=" + ClientID, "AZURE_CLIENT_SECRET=" + ClientSecret,
		"AZURE_AUTHORITY_HOST=" + s.URL, "SSL_CERT_FILE=" + s.certificate()}
}

// Section are the lines of a trainingService here.
func (s *Service) Section() string {
	return fmt.Sprintf(`  platform: aml
  subscriptionId: %s
  resourceGroup: %s
  workspaceName: %s
  computeTarget: %s
  dockerImage: msranni/nni:latest
  endpoint: %s
`, Subscription, Group, Workspace, Compute, s.URL)
}

// Close ends it, with all that runs in it.
func (s *Service) Close() {
	s.server.CloseClientConnections()
	s.server.Close()
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for _, one := range s.order {
		if one.container != nil {
			one.container.Kill()
		}
	}
	_ = os.RemoveAll(s.directory)
}

// Behind has logs show nothing of what is in them, until it is called with false.
func (s *Service) Behind(behind bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.behind = behind
}

// Vanish has all of the workspace answer as where there is none, until it is called with
// false. Its jobs run on, and a workspace that was deleted is there again once recovered.
func (s *Service) Vanish(vanished bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.vanished = vanished
}

// Forget has the workspace know a job no longer.
func (s *Service) Forget(name string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	delete(s.jobs, name)
}

// Expire has no token that was given out so far taken any more.
func (s *Service) Expire() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	clear(s.tokens)
}

// Renew has the old secret refused from now on.
func (s *Service) Renew(secret string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.secret = secret
	clear(s.tokens)
}

// Living is how many jobs wait or run.
func (s *Service) Living() (living int) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for _, one := range s.order {
		if one.status == "Queued" || one.status == "Running" {
			living++
		}
	}
	return living
}

// Kill kills a job's container as a node that is lost does.
func (s *Service) Kill(name string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if one := s.jobs[name]; one != nil && one.container != nil {
		one.container.Kill()
	}
}

// Shown is what the studio shows of a job: metrics by their names, and parameters.
func (s *Service) Shown(name string) (map[string][]float64, map[string]string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	one := s.jobs[name]
	if one == nil {
		return nil, nil
	}
	return maps.Clone(one.shown), maps.Clone(one.params)
}

// schedule starts jobs that wait, as far as there are nodes. The mutex is held.
func (s *Service) schedule() {
	busy := 0
	for _, one := range s.order {
		if one.container != nil {
			busy++
		}
	}
	for _, one := range s.order {
		if one.status == "Queued" && (s.Nodes == 0 || busy < s.Nodes) {
			busy++
			s.start(one)
		}
	}
}

func (s *Service) logOf(name string) string { return filepath.Join(s.directory, name+".log") }

// place is a container's own: what it left there goes with it.
func (s *Service) place(of *job) string { return filepath.Join(s.directory, "runs", of.name) }

// start runs a job in a copy of its code, with one log for both of its streams.
func (s *Service) start(one *job) {
	place := s.place(one)
	temporary := filepath.Join(place, "tmp")
	err := os.MkdirAll(temporary, 0o755)
	if err == nil {
		err = os.CopyFS(place, os.DirFS(filepath.Join(s.directory, "blobs", one.code)))
	}
	if err == nil {
		environment := append([]string{"HOME=" + place, "TMPDIR=" + temporary}, one.environment...)
		one.container, err = servicelab.Run("/bin/sh", "cd "+place+" && "+one.command, s.logOf(one.name), environment, func(code int) { s.over(one, code) })
	}
	one.status, one.started = "Running", time.Now()
	if err != nil {
		one.status = "Failed"
	}
}

func (s *Service) over(one *job, code int) {
	_ = os.RemoveAll(s.place(one)) // what still writes there is removed with all else
	s.mutex.Lock()
	defer s.mutex.Unlock()
	one.container, one.status, one.ended = nil, "Completed", time.Now()
	switch {
	case one.canceled:
		one.status = "Canceled"
	case code != 0:
		one.status = "Failed"
	}
	s.schedule()
}

// Refusal is Azure's own word for what is wrong, as a Fault's Code.
func Refusal(code string) string {
	return `{"error": {"code": "` + code + `", "message": "a fault"}}`
}
