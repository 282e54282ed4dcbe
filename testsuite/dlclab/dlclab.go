// Package dlclab stands in for PAI-DLC: a real listener that keeps jobs, computes every
// request's ACS3 signature by itself, and runs the command of each job as a process of
// this machine. It also has the faults that networks and services have. What it answers
// is what Alibaba's own SDK expects; no real service was at hand to compare it with.
package dlclab

import (
	"fmt"
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

// What there is.
const (
	Region    = "cn-hangzhou"
	Workspace = "46099"
	NAS       = "d-nas00000000"
	Spec      = "ecs.gn6e-c12g1.3xlarge"
	KeyID     = "LTAI5tStandInOfAnAccessKey"
	KeySecret = "stand-in-of-an-access-key-secret"
)

// Service is a service that goes with its test.
type Service struct {
	servicelab.Faults // by action, such as "ListJobs"
	URL               string
	// Here and There are where its NAS is mounted on this machine and in containers.
	Here, There string
	// Nodes is how many jobs run at a time; others wait. 0: any number.
	Nodes int

	t       testing.TB
	mutex   sync.Mutex
	secret  string
	jobs    []*job
	hidden  bool // lists show no new jobs
	visible int  // how many they show then
}

type job struct {
	id, name, command, status, reason string
	tags                              map[string]string
	created                           time.Time
	container                         *servicelab.Container
	stopped                           bool
}

// New starts a service.
func New(t testing.TB) *Service {
	directory, err := os.MkdirTemp("", "dlclab-")
	require.NoError(t, err)
	s := &Service{Here: filepath.Join(directory, "here"), There: filepath.Join(directory, "there"), t: t, secret: KeySecret}
	require.NoError(t, os.Mkdir(s.Here, 0o755))
	require.NoError(t, os.Symlink(s.Here, s.There))
	server := httptest.NewServer(http.HandlerFunc(s.serve))
	s.URL = server.URL
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		s.Lose()
		_ = os.RemoveAll(directory)
	})
	return s
}

// Section are the lines of a trainingService here, as NNI's users write them.
func (s *Service) Section() string {
	return fmt.Sprintf(`  platform: dlc
  type: Worker
  image: registry-vpc.cn-hangzhou.aliyuncs.com/ours/nni:latest
  jobType: PyTorchJob
  podCount: 1
  ecsSpec: %s
  region: %s
  endpoint: %s
  workspaceId: "%s"
  nasDataSourceId: %s
  accessKeyId: %s
  accessKeySecret: %s
  localStorageMountPoint: %s
  containerStorageMountPoint: %s
`, Spec, Region, s.URL, Workspace, NAS, KeyID, KeySecret, s.Here, s.There)
}

// Renew has the access key's old secret refused from now on.
func (s *Service) Renew(secret string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.secret = secret
}

// Late has lists show none of the jobs that are made from now on, until it is called
// with false.
func (s *Service) Late(late bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.hidden, s.visible = late, len(s.jobs)
}

// States returns how many jobs there are of each status.
func (s *Service) States() map[string]int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	states := map[string]int{}
	for _, one := range s.jobs {
		states[one.status]++
	}
	return states
}

// Lose kills all containers that run, as nodes that are lost do.
func (s *Service) Lose() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for _, one := range s.jobs {
		if one.container != nil {
			one.container.Kill()
		}
	}
}

// schedule starts jobs that wait, as far as there are nodes. The mutex is held.
func (s *Service) schedule() {
	busy := 0
	for _, one := range s.jobs {
		if one.container != nil {
			busy++
		}
	}
	for _, one := range s.jobs {
		if one.status == "Queuing" && (s.Nodes == 0 || busy < s.Nodes) {
			busy++
			s.start(one)
		}
	}
}

func (s *Service) start(one *job) {
	container, err := servicelab.Run("/bin/sh", one.command, "", []string{"HOME=" + s.There}, func(code int) { s.ended(one, code) })
	if err != nil {
		one.status, one.reason = "Failed", err.Error()
		return
	}
	one.status, one.container = "Running", container
}

func (s *Service) ended(one *job, code int) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	one.container, one.status = nil, "Succeeded"
	switch {
	case one.stopped:
		one.status, one.reason = "Stopped", "JobStoppedByUser"
	case code != 0:
		one.status = "Failed"
	}
	s.schedule()
}

// Refusal is DLC's own word for what is wrong, as a Fault's Code.
func Refusal(code string) string {
	return `{"Code": "` + code + `", "Message": "a fault", "RequestId": "stand-in"}`
}
