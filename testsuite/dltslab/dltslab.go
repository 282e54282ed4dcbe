// Package dltslab stands in for DLTS, Microsoft's DLWorkspace: a real listener that keeps
// jobs, checks the password that is in every address, and runs the command of each job as
// a process of this machine. It answers as the real dashboard and RestfulAPI did (see
// dltslab_test.go); how jobs come to be scheduled is by their source alone.
package dltslab

import (
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/testsuite/servicelab"
)

// The cluster's only user, and what there is.
const (
	Email   = "ada@example.com"
	Team    = "platform"
	Cluster = "Lab-SZ"
	GPUType = "V100"
)

// Password is the user's, as DLTS makes it of a master token.
var Password = passwordOf("master-token")

func passwordOf(master string) string {
	sum := md5.Sum([]byte(Email + ":" + master))
	return hex.EncodeToString(sum[:])
}

// Service is a service that goes with its test.
type Service struct {
	servicelab.Faults
	URL string
	// Here and There are where its storage is mounted on this machine and in containers.
	Here, There string
	// Nodes is how many jobs run at a time; others wait. 0: any number.
	Nodes int

	t         testing.TB
	directory string
	mutex     sync.Mutex
	password  string
	jobs      []*job
	hidden    bool // lists show no jobs at all
}

type job struct {
	id, name, command, status string
	container                 *servicelab.Container
}

// New starts a service.
func New(t testing.TB) *Service {
	directory, err := os.MkdirTemp("", "dltslab-")
	require.NoError(t, err)
	s := &Service{Here: filepath.Join(directory, "here"), There: filepath.Join(directory, "there"), t: t, directory: directory, password: Password}
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

// Renew has the old password refused from now on; it returns the new one.
func (s *Service) Renew() string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.password = passwordOf("another-master-token")
	return s.password
}

// Late has lists show nothing, until it is called with false.
func (s *Service) Late(late bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.hidden = late
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

// Pause does with all jobs that run what a person does on DLTS's page, and their
// containers have no time for a last word.
func (s *Service) Pause() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for _, one := range s.jobs {
		if one.container != nil {
			one.status = "pausing"
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
		if one.status == "unapproved" {
			one.status = "queued"
		}
		if one.status == "queued" && (s.Nodes == 0 || busy < s.Nodes) {
			busy++
			s.start(one)
		}
	}
}

func (s *Service) start(one *job) {
	container, err := servicelab.Run("/bin/bash", one.command, s.log(one), []string{"HOME=" + s.There}, func(code int) { s.ended(one, code) })
	if err != nil {
		one.status = "error"
		return
	}
	one.status, one.container = "running", container
}

func (s *Service) log(one *job) string { return filepath.Join(s.directory, one.id+".log") }

func (s *Service) ended(one *job, code int) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	one.container = nil
	switch {
	case one.status == "killing":
		one.status = "killed"
	case one.status == "pausing":
		one.status = "paused"
	case code == 0:
		one.status = "finished"
	default:
		one.status = "failed"
	}
	s.schedule()
}

const root = "/api/"

// sorts are what calls are about, by method and path; * stands for the team, the cluster
// and the job.
var sorts = map[string]string{
	"POST clusters/*/jobs": "submit", "GET v2/clusters/*/teams/*/jobs": "list", "GET v2/clusters/*/jobs/*": "find",
	"PUT clusters/*/jobs/*/status": "stop", "GET clusters/*/jobs/*/log": "log", "GET teams/*/clusters/*": "team",
}

// sortOf is what a call is about, and the names in its path.
func sortOf(r *http.Request) (sort string, names []string) {
	words := strings.Split(strings.TrimPrefix(r.URL.Path, root), "/")
	for i := 1; i < len(words); i++ {
		switch words[i-1] {
		case "clusters", "teams", "jobs":
			names, words[i] = append(names, words[i]), "*"
		}
	}
	return sorts[r.Method+" "+strings.Join(words, "/")], names
}

func (s *Service) serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	sort, names := sortOf(r)
	s.Meet(sort, w, func(w http.ResponseWriter) { s.handle(w, r, sort, names, body) })
}

func say(w http.ResponseWriter, status int, text string) {
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text)
}

func tell(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	_ = json.NewEncoder(w).Encode(body)
}

func (s *Service) handle(w http.ResponseWriter, r *http.Request, sort string, names []string, body []byte) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	query := r.URL.Query()
	switch {
	case query.Get("email") != Email || query.Get("password") != s.password:
		say(w, http.StatusForbidden, "Invalid token")
	case sort == "":
		say(w, http.StatusNotFound, "Not Found")
	case sort == "team":
		s.team(w, names[0])
	case names[0] != Cluster && names[0] != ".default":
		say(w, http.StatusNotFound, "Not Found")
	case sort == "submit":
		s.submit(w, body)
	case sort == "list":
		s.list(w, names[1], query.Get("limit"))
	default:
		s.one(w, sort, names[1], query.Get("cursor"))
	}
}

func (s *Service) team(w http.ResponseWriter, name string) {
	if name != Team {
		say(w, http.StatusNotFound, "Not Found")
		return
	}
	tell(w, map[string]any{"id": Team, "metadata": fmt.Sprintf(`{"%s": {"num_gpu_per_node": 4}}`, GPUType)})
}

// submission is what is looked at of a request for a job.
type submission struct {
	ID       string `json:"jobId"`
	Name     string `json:"jobName"`
	Team     string `json:"team"`
	VC       string `json:"vcName"`
	GPUType  string `json:"gpuType"`
	GPUs     *int   `json:"resourcegpu"`
	Image    string `json:"image"`
	Command  string `json:"cmd"`
	Type     string `json:"jobType"`
	Training string `json:"jobtrainingtype"`
}

func (s *Service) submit(w http.ResponseWriter, body []byte) {
	var asked submission
	if json.Unmarshal(body, &asked) != nil || asked.Team == "" {
		say(w, http.StatusBadRequest, "Bad Request")
		return
	}
	complete := asked.Team == Team && asked.VC == Team && asked.GPUType == GPUType && asked.GPUs != nil &&
		asked.Image != "" && asked.Command != "" && asked.Name != "" && asked.Type == "training" && asked.Training == "RegularJob"
	if !complete {
		tell(w, map[string]string{"error": "ERROR: wrong job"})
		return
	}
	if s.find(asked.ID) != nil {
		tell(w, map[string]string{"error": "Cannot schedule job. Cannot add job into database."})
		return
	}
	s.jobs = append(s.jobs, &job{id: asked.ID, name: asked.Name, command: asked.Command, status: "unapproved"})
	s.schedule()
	tell(w, map[string]string{"jobId": asked.ID})
}

func (s *Service) find(id string) *job {
	for _, one := range s.jobs {
		if one.id == id {
			return one
		}
	}
	return nil
}

func (j *job) view() map[string]any {
	return map[string]any{"jobId": j.id, "jobName": j.name, "jobStatus": j.status, "vcName": Team, "userName": Email}
}

func (j *job) over() bool {
	switch j.status {
	case "finished", "failed", "error", "killed", "killing":
		return true
	}
	return false
}

// list shows jobs by how they are; the limit is on those that are over.
func (s *Service) list(w http.ResponseWriter, team, limit string) {
	if team != Team {
		say(w, http.StatusNotFound, "Not Found")
		return
	}
	groups := map[string][]any{"queuedJobs": {}, "runningJobs": {}, "finishedJobs": {}, "visualizationJobs": {}}
	most, _ := strconv.Atoi(limit)
	for i := len(s.jobs) - 1; i >= 0 && !s.hidden; i-- {
		one := s.jobs[i]
		switch {
		case one.over() && len(groups["finishedJobs"]) < most:
			groups["finishedJobs"] = append(groups["finishedJobs"], one.view())
		case one.over():
		case one.container != nil:
			groups["runningJobs"] = append(groups["runningJobs"], one.view())
		default:
			groups["queuedJobs"] = append(groups["queuedJobs"], one.view())
		}
	}
	tell(w, groups)
}

func (s *Service) one(w http.ResponseWriter, sort, id, cursor string) {
	one := s.find(id)
	switch {
	case sort == "find" && one == nil:
		tell(w, map[string]any{})
	case sort == "find":
		tell(w, one.view())
	case sort == "log":
		s.showLog(w, one, cursor)
	case one == nil || one.over():
		tell(w, map[string]string{"result": "Cannot Kill the job. Job ID:" + id})
	default:
		s.kill(one)
		tell(w, map[string]string{"result": "Success, the job is scheduled to be terminated."})
	}
}

func (s *Service) kill(one *job) {
	one.status = "killed"
	if one.container != nil {
		one.status = "killing"
		one.container.Stop()
	}
}

// logPage is how much of a log comes with one call, in bytes.
const logPage = 100

func (s *Service) showLog(w http.ResponseWriter, one *job, cursor string) {
	var content []byte
	if one != nil {
		content, _ = os.ReadFile(s.log(one)) // none: it has not started
	}
	if len(content) == 0 {
		say(w, http.StatusNotFound, "Not Found")
		return
	}
	from, _ := strconv.Atoi(cursor)
	from = min(from, len(content))
	to := min(from+logPage, len(content))
	told := map[string]any{"log": map[string]string{"pod-0": string(content[from:to])}}
	if to > from {
		told["cursor"] = strconv.Itoa(to)
	}
	tell(w, told)
}
