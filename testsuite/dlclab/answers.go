package dlclab

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"
)

// answer is what a call gets.
type answer struct {
	status int
	body   map[string]any
}

func refuse(status int, code, message string) answer {
	return answer{status, map[string]any{"Code": code, "Message": message, "RequestId": "stand-in"}}
}

const root = "/api/v1/"

// actions are what the service can do, by method and path with * for an id.
var actions = map[string]string{
	"POST jobs": "CreateJob", "GET jobs": "ListJobs", "GET jobs/*": "GetJob", "DELETE jobs/*": "DeleteJob", "POST jobs/*/stop": "StopJob",
	"GET jobs/*/events": "GetJobEvents", "GET ecsspecs": "ListEcsSpecs",
}

// actionOf is the action that a request's method and path stand for, and the job's id.
func actionOf(r *http.Request) (action, id string) {
	parts := strings.Split(strings.TrimPrefix(r.URL.Path, root), "/")
	if len(parts) > 1 {
		id, parts[1] = parts[1], "*"
	}
	return actions[r.Method+" "+strings.Join(parts, "/")], id
}

func (s *Service) serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	action, id := actionOf(r)
	s.Meet(action, w, func(w http.ResponseWriter) { s.handle(action, id, r, body).write(w) })
}

func (a answer) write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(a.status)
	_ = json.NewEncoder(w).Encode(a.body)
}

func (s *Service) handle(action, id string, r *http.Request, body []byte) answer {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if refused := s.unsigned(r, body); refused != "" {
		return refuse(http.StatusBadRequest, refused, "the request's signature is not what it should be")
	}
	if r.Header.Get("x-acs-version") != "2020-12-03" || r.Header.Get("x-acs-action") != action {
		return refuse(http.StatusNotFound, "InvalidAction.NotFound", "Specified api is not found.")
	}
	switch action {
	case "CreateJob":
		return s.create(body)
	case "ListJobs":
		return s.list(r.URL.Query())
	case "ListEcsSpecs":
		return answer{http.StatusOK, map[string]any{"EcsSpecs": []any{map[string]any{"InstanceType": Spec}}, "TotalCount": 1}}
	}
	for _, one := range s.jobs {
		if one.id == id {
			return s.one(action, one)
		}
	}
	return refuse(http.StatusNotFound, "JobNotFound", "Job "+id+" is not found.")
}

func (s *Service) one(action string, one *job) answer {
	switch action {
	case "GetJob":
		return answer{http.StatusOK, one.view()}
	case "GetJobEvents":
		return answer{http.StatusOK, map[string]any{"JobId": one.id, "Events": []string{"job created", "0/3 nodes are available: insufficient nvidia.com/gpu"}}}
	}
	if action == "DeleteJob" {
		return s.remove(one)
	}
	switch {
	case one.status == "Queuing":
		one.status, one.reason = "Stopped", "JobStoppedByUser"
	case one.container == nil:
		return refuse(http.StatusBadRequest, "InvalidJobStatus", "Job "+one.id+" is "+one.status+".")
	default:
		one.stopped = true
		one.container.Stop()
	}
	return answer{http.StatusOK, map[string]any{"JobId": one.id}}
}

// remove deletes a job, which the service does only where that is over.
func (s *Service) remove(one *job) answer {
	if one.status == "Queuing" || one.container != nil {
		return refuse(http.StatusBadRequest, "InvalidJobStatus", "Job "+one.id+" is "+one.status+".")
	}
	s.jobs = slices.DeleteFunc(s.jobs, func(other *job) bool { return other == one })
	return answer{http.StatusOK, map[string]any{"JobId": one.id}}
}

// creation is what is looked at of a request for a job.
type creation struct {
	DisplayName, JobType, UserCommand, WorkspaceId string
	JobSpecs                                       []struct {
		Type, Image, EcsSpec string
		PodCount             int
		ResourceConfig       map[string]string
	}
	DataSources []struct{ DataSourceId, MountPath string }
	Settings    struct{ Tags map[string]string }
}

func (c creation) fault(there string) string {
	switch {
	case c.DisplayName == "" || c.UserCommand == "" || len(c.JobSpecs) != 1:
		return "DisplayName, UserCommand and JobSpecs are required"
	case c.JobType != "TFJob" && c.JobType != "PyTorchJob":
		return "JobType " + c.JobType
	case c.WorkspaceId != Workspace:
		return "WorkspaceId " + c.WorkspaceId
	case len(c.DataSources) == 0 || c.DataSources[0].DataSourceId != NAS || c.DataSources[0].MountPath != there:
		return "DataSources"
	}
	pod := c.JobSpecs[0]
	if pod.Image == "" || pod.PodCount < 1 || (pod.EcsSpec == "") == (len(pod.ResourceConfig) == 0) || pod.EcsSpec != "" && pod.EcsSpec != Spec {
		return "JobSpecs"
	}
	return ""
}

func (s *Service) create(body []byte) answer {
	var asked creation
	if err := json.Unmarshal(body, &asked); err != nil {
		return refuse(http.StatusBadRequest, "InvalidParameter", err.Error())
	}
	if fault := asked.fault(s.There); fault != "" {
		return refuse(http.StatusBadRequest, "InvalidParameter", "wrong: "+fault)
	}
	one := &job{
		id: fmt.Sprintf("dlc%013d", len(s.jobs)+1), name: asked.DisplayName, command: asked.UserCommand, status: "Queuing",
		tags: asked.Settings.Tags, created: time.Now(),
	}
	s.jobs = append(s.jobs, one)
	s.schedule()
	return answer{http.StatusOK, map[string]any{"JobId": one.id, "RequestId": "stand-in"}}
}

func (j *job) view() map[string]any {
	return map[string]any{
		"JobId": j.id, "DisplayName": j.name, "Status": j.status, "ReasonCode": j.reason,
		"GmtCreateTime": j.created.UTC().Format(time.RFC3339Nano), "Settings": map[string]any{"Tags": j.tags},
	}
}

// list shows jobs as they were made in the last seven days, unless it is told of
// another time.
func (s *Service) list(query map[string][]string) answer {
	value := func(name string) string { return strings.Join(query[name], "") }
	var tags map[string]string
	if text := value("Tags"); text != "" && json.Unmarshal([]byte(text), &tags) != nil {
		return refuse(http.StatusBadRequest, "InvalidParameter", "Tags")
	}
	shown := s.jobs
	if s.hidden {
		shown = shown[:s.visible]
	}
	found := []any{}
	for i := len(shown) - 1; i >= 0; i-- {
		if tagged(shown[i].tags, tags) && value("StartTime") != "" {
			found = append(found, shown[i].view())
		}
	}
	size, _ := strconv.Atoi(value("PageSize"))
	number, _ := strconv.Atoi(value("PageNumber"))
	if size < 1 || size > 100 || number < 1 || value("Order") != "desc" || value("SortBy") != "GmtCreateTime" {
		return refuse(http.StatusBadRequest, "InvalidParameter", "PageSize")
	}
	from := min((number-1)*size, len(found))
	return answer{http.StatusOK, map[string]any{"Jobs": found[from:min(from+size, len(found))], "TotalCount": len(found)}}
}

func tagged(has, wanted map[string]string) bool {
	for name, value := range wanted {
		if has[name] != value {
			return false
		}
	}
	return true
}

// unsigned returns the code of the refusal of a request that is not signed as ACS3
// has it, empty where it is.
func (s *Service) unsigned(r *http.Request, body []byte) string {
	words, _ := strings.CutPrefix(r.Header.Get("Authorization"), "ACS3-HMAC-SHA256 ")
	parts := map[string]string{}
	for _, word := range strings.Split(words, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(word), "=")
		parts[name] = value
	}
	payload := digest(body)
	if parts["Credential"] != KeyID {
		return "InvalidAccessKeyId.NotFound"
	}
	at, err := time.Parse(time.RFC3339, r.Header.Get("x-acs-date"))
	if err != nil || time.Since(at).Abs() > 15*time.Minute {
		return "IllegalTimestamp"
	}
	signed := strings.Split(parts["SignedHeaders"], ";")
	if r.Header.Get("x-acs-content-sha256") != payload || !sort.StringsAreSorted(signed) || !covers(signed) {
		return "SignatureDoesNotMatch"
	}
	if parts["Signature"] != s.signature(r, signed, payload) {
		return "SignatureDoesNotMatch"
	}
	return ""
}
