// Package uailab stands in for UCloud's UAI-Train, UFS and UFile: real listeners that keep
// jobs and objects, compute every request's signature by themselves, and run the command
// of each job as processes of this machine, each of which finds what it reads and writes at
// /data/data and /data/output in a mount namespace of its own: the UFS itself, or copies
// from the bucket, into which the output goes once the job is over. What they answer is
// what UCloud's own SDKs expect; no real service was at hand to compare it with. It needs
// root.
package uailab

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/testsuite/servicelab"
)

// What there is.
const (
	Region     = "cn-bj2"
	Zone       = "cn-bj2-04"
	Project    = "org-standin"
	PublicKey  = "stand-in-of-a-public-key"
	PrivateKey = "stand-in-of-a-private-key-never-to-be-seen"
	Image      = "uhub.service.ucloud.cn/ours/torch:2.4"
	UFS        = "10.19.1.2:/ufs-standin"
	// Price is what a minute of a job costs, in hundredths.
	Price = 7
)

// Service is a service that goes with its test. Calls are by their action, such as
// "GetUAITrainJobList" or "UFilePUT".
type Service struct {
	servicelab.Faults
	URL string
	// Here is where its UFS is mounted on this machine.
	Here string
	// Address is that of its bucket of UFile, and Objects
	// the directory of this machine that holds it.
	Address, Objects string
	// LogLines is how many lines a job's log keeps while it runs; 0: 200.
	LogLines int
	// Slots is how many jobs run at a time; others wait. 0: any number.
	Slots int
	// Clock is by how much its clock is ahead of this machine's.
	Clock time.Duration

	t       testing.TB
	mutex   sync.Mutex
	secret  string
	jobs    []*job
	made    int
	hidden  bool // lists show no new jobs
	visible int  // how many they show then
}

// New starts a service.
func New(t testing.TB) *Service {
	if os.Getuid() != 0 {
		t.Skip("a stand-in for UAI-Train mounts /data for each job, and only root may")
	}
	directory, err := os.MkdirTemp("", "uailab-")
	require.NoError(t, err)
	s := &Service{Here: filepath.Join(directory, "ufs"), Objects: filepath.Join(directory, "objects"), t: t, secret: PrivateKey}
	require.NoError(t, os.Mkdir(s.Here, 0o755))
	require.NoError(t, os.Mkdir(s.Objects, 0o755))
	require.NoError(t, os.MkdirAll("/data", 0o755)) // where jobs have their mounts
	server := httptest.NewServer(http.HandlerFunc(s.serve))
	files := httptest.NewServer(http.HandlerFunc(s.serveFiles))
	s.URL, s.Address = server.URL, files.URL
	t.Cleanup(func() {
		files.CloseClientConnections()
		files.Close()
		server.CloseClientConnections()
		server.Close()
		s.Lose()
		_ = os.RemoveAll(directory)
	})
	return s
}

// Section are the lines of a trainingService here, whose files are on the UFS.
func (s *Service) Section() string {
	return s.SectionWith(fmt.Sprintf("  ufsPath: %s\n  localStorageMountPoint: %s\n", UFS, s.Here))
}

// SectionWith are the lines of one with storage of its own.
func (s *Service) SectionWith(storage string) string {
	return fmt.Sprintf(`  platform: uai-train
  publicKey: %s
  privateKey: %s
  projectId: %s
  endpoint: %s
  image: %s
  nodeType: 1-P40
%s`, PublicKey, PrivateKey, Project, s.URL, Image, storage)
}

// Renew has the old private key refused from now on.
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

// Fill adds jobs of somebody else's, which are over.
func (s *Service) Fill(number int) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for range number {
		s.add(&job{name: "theirs", memo: "none of ours", status: "Done"})
	}
}

// Lose kills all processes of jobs, as nodes that are lost do.
func (s *Service) Lose() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for _, one := range s.jobs {
		one.signal(syscall.SIGKILL)
	}
}

func (s *Service) now() int64 { return time.Now().Add(s.Clock).Unix() }

// Refusal is UCloud's own word for what is wrong, as a Fault's Code: it comes with a status
// of 200.
func Refusal(code int, message string) string {
	text, _ := json.Marshal(refuse(code, message)) // a number and a text
	return string(text)
}
