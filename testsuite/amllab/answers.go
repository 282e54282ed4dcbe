package amllab

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	ml "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/machinelearning/armmachinelearning/v4"
)

const (
	root    = "/subscriptions/" + Subscription + "/resourceGroups/" + Group + "/providers/Microsoft.MachineLearningServices/workspaces/" + Workspace
	history = "/history/v1.0" + root + "/experiments/"
	batch   = "/mlflow/v1.0" + root + "/api/2.0/mlflow/runs/log-batch"
	// signature is what addresses of the blob store have to end with.
	signature = "sv=2024&sig=stand-in"
	version   = "2024-04-01"
)

// sortOf is what a call is about.
func sortOf(r *http.Request) string {
	path := r.URL.Path
	switch {
	case strings.HasSuffix(path, "/oauth2/v2.0/token"):
		return "login"
	case strings.HasSuffix(path, "/openid-configuration"):
		return "discovery"
	case strings.HasPrefix(path, history):
		return "history"
	case path == batch:
		return "show"
	case strings.HasPrefix(path, "/blobs/"):
		return "upload"
	case strings.HasPrefix(path, "/logs/"):
		return "log"
	case strings.HasPrefix(path, root+"/jobs/") && strings.HasSuffix(path, "/cancel"):
		return "cancel"
	case strings.HasPrefix(path, root+"/jobs/") && r.Method == http.MethodPut:
		return "submit"
	case strings.HasPrefix(path, root+"/jobs/"):
		return "find"
	case strings.HasPrefix(path, root+"/computes/"):
		return "compute"
	case path == root:
		return "workspace"
	}
	return "asset"
}

// answer is what a call gets.
type answer struct {
	status int
	body   any
}

func refuse(status int, code, message string) answer {
	return answer{status, map[string]any{"error": map[string]any{"code": code, "message": message}}}
}

func (s *Service) serve(w http.ResponseWriter, r *http.Request) {
	sort := sortOf(r)
	body, _ := io.ReadAll(r.Body)
	s.Meet(sort, w, func(w http.ResponseWriter) {
		if sort == "log" {
			s.sendLog(w, r)
			return
		}
		told := s.handle(sort, r, body)
		if sort == "cancel" {
			w.Header().Set("Location", s.URL+root+"/operations/1?api-version="+version)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(told.status)
		_ = json.NewEncoder(w).Encode(told.body)
	})
}

func (s *Service) handle(sort string, r *http.Request, body []byte) answer {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	switch sort {
	case "discovery":
		at := s.URL + "/" + Tenant
		return answer{http.StatusOK, map[string]string{"token_endpoint": at + "/oauth2/v2.0/token", "authorization_endpoint": at + "/oauth2/v2.0/authorize", "issuer": at + "/v2.0"}}
	case "login":
		return s.login(body)
	case "upload":
		return s.upload(r, body)
	}
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !s.tokens[token] {
		return refuse(http.StatusUnauthorized, "ExpiredAuthenticationToken", "The access token has expired.")
	}
	if s.vanished {
		return refuse(http.StatusNotFound, "ResourceNotFound", "The Resource 'Microsoft.MachineLearningServices/workspaces/"+Workspace+"' under resource group '"+Group+"' was not found.")
	}
	switch sort {
	case "history":
		return s.history(r.URL.Path)
	case "show":
		return s.show(body)
	}
	if r.URL.Query().Get("api-version") != version {
		return refuse(http.StatusBadRequest, "InvalidApiVersionParameter", "the API version is not known")
	}
	return s.manage(sort, r, body)
}

func (s *Service) login(body []byte) answer {
	form := string(body)
	if !strings.Contains(form, "client_id="+ClientID) || !strings.Contains(form, "client_secret="+s.secret) || !strings.Contains(form, "grant_type=client_credentials") {
		return answer{http.StatusUnauthorized, map[string]any{"error": "invalid_client", "error_description": "AADSTS7000215: Invalid client secret provided."}}
	}
	s.given++
	token := fmt.Sprintf("token-%d", s.given)
	s.tokens[token] = true
	return answer{http.StatusOK, map[string]any{"access_token": token, "expires_in": 3600, "ext_expires_in": 3600, "token_type": "Bearer"}}
}

func (s *Service) manage(sort string, r *http.Request, body []byte) answer {
	path := strings.TrimPrefix(r.URL.Path, root+"/")
	name := strings.TrimSuffix(strings.TrimPrefix(path, "jobs/"), "/cancel")
	one := s.jobs[name]
	switch {
	case sort == "workspace":
		return answer{http.StatusOK, map[string]any{"id": root, "name": Workspace, "properties": map[string]any{}}}
	case sort == "compute" && path == "computes/"+Compute:
		return answer{http.StatusOK, map[string]any{"id": root + "/" + path, "name": Compute, "properties": map[string]any{"computeType": "AmlCompute"}}}
	case sort == "submit":
		return s.submit(name, body)
	case sort == "find" && one != nil:
		return answer{http.StatusOK, s.view(one)}
	case sort == "cancel" && one != nil:
		return s.cancel(one)
	case sort == "asset" && r.Method == http.MethodPost && strings.HasSuffix(path, "/startPendingUpload"):
		place := "/blobs/" + strings.Split(path, "/")[1]
		return answer{http.StatusOK, map[string]any{"pendingUploadType": "TemporaryBlobReference", "blobReferenceForConsumption": map[string]any{
			"blobUri": s.URL + place, "credential": map[string]any{"credentialType": "SAS", "sasUri": s.URL + place + "?" + signature}}}}
	case sort == "asset" && r.Method == http.MethodPut:
		s.assets[path] = string(body)
		return answer{http.StatusCreated, map[string]any{"id": root + "/" + path, "properties": json.RawMessage(`{}`)}}
	case sort == "asset" && s.assets[path] != "":
		return answer{http.StatusOK, map[string]any{"id": root + "/" + path, "properties": json.RawMessage(`{}`)}}
	}
	return refuse(http.StatusNotFound, "ResourceNotFound", "there is no "+path)
}

// submit takes a job. A name is used once, and only for what it stood for at first.
func (s *Service) submit(name string, body []byte) answer {
	if known := s.jobs[name]; known != nil {
		if known.body == string(body) {
			return answer{http.StatusOK, s.view(known)}
		}
		return refuse(http.StatusBadRequest, "UserError", "A job with this name already exists.")
	}
	var asked ml.JobBase
	if err := json.Unmarshal(body, &asked); err != nil {
		return refuse(http.StatusBadRequest, "UserError", err.Error())
	}
	wanted, ok := asked.Properties.(*ml.CommandJob)
	if !ok || wanted.Command == nil || wanted.CodeID == nil || wanted.EnvironmentID == nil || wanted.ComputeID == nil || wanted.ExperimentName == nil {
		return refuse(http.StatusBadRequest, "UserError", "the job lacks something")
	}
	code, environment := strings.TrimPrefix(*wanted.CodeID, root+"/"), strings.TrimPrefix(*wanted.EnvironmentID, root+"/")
	if s.assets[code] == "" || s.assets[environment] == "" || *wanted.ComputeID != root+"/computes/"+Compute {
		return refuse(http.StatusBadRequest, "UserError", "the job names something that there is not")
	}
	one := &job{name: name, body: string(body), command: *wanted.Command, experiment: *wanted.ExperimentName, status: "Queued", code: strings.Split(code, "/")[1]}
	for variable, value := range wanted.EnvironmentVariables {
		one.environment = append(one.environment, variable+"="+*value)
	}
	s.jobs[name], s.order = one, append(s.order, one)
	s.schedule()
	return answer{http.StatusCreated, s.view(one)}
}

func (s *Service) view(one *job) any {
	host := strings.TrimPrefix(s.URL, "https://")
	return map[string]any{"id": root + "/jobs/" + one.name, "name": one.name, "properties": map[string]any{
		"jobType": "Command", "status": one.status, "command": one.command, "environmentId": "of the job", "services": map[string]any{
			"Studio":   map[string]any{"endpoint": "https://ml.azure.com/runs/" + one.name + "?wsid=" + root},
			"Tracking": map[string]any{"endpoint": "azureml://" + host + "/mlflow/v1.0" + root + "?"},
		}}}
}

func (s *Service) cancel(one *job) answer {
	switch {
	case one.status == "Queued":
		one.status, one.ended = "Canceled", time.Now()
	case one.container == nil:
		return refuse(http.StatusBadRequest, "UserError", "the job is over already")
	default:
		one.canceled = true
		one.container.Stop()
	}
	return answer{http.StatusAccepted, nil}
}

func (s *Service) history(path string) answer {
	experiment, rest, _ := strings.Cut(strings.TrimPrefix(path, history), "/runs/")
	one := s.jobs[strings.TrimSuffix(rest, "/details")]
	if one == nil || one.experiment != experiment {
		return refuse(http.StatusNotFound, "UserError", "Run "+rest+" is not found")
	}
	told := map[string]any{"runId": one.name, "status": one.status, "logFiles": map[string]string{}}
	if !one.started.IsZero() {
		told["startTimeUtc"] = one.started.UTC()
		told["logFiles"] = map[string]string{"user_logs/std_log.txt": s.URL + "/logs/" + one.name + "?" + signature}
	}
	if !one.ended.IsZero() {
		told["endTimeUtc"] = one.ended.UTC()
	}
	return answer{http.StatusOK, told}
}

// show takes metrics and parameters within the limits that a workspace has.
func (s *Service) show(body []byte) answer {
	var asked struct {
		Run     string `json:"run_id"`
		Metrics []struct {
			Key       string
			Value     *float64
			Timestamp int64
		}
		Params []struct{ Key, Value string }
	}
	err := json.Unmarshal(body, &asked)
	one := s.jobs[asked.Run]
	if err != nil || one == nil || len(asked.Metrics) > 250 || len(asked.Params) > 100 {
		return refuse(http.StatusBadRequest, "INVALID_PARAMETER_VALUE", "the batch is wrong")
	}
	if one.shown == nil {
		one.shown, one.params = map[string][]float64{}, map[string]string{}
	}
	for _, row := range asked.Metrics {
		if row.Value == nil || row.Timestamp == 0 || len(one.shown) == 50 && one.shown[row.Key] == nil {
			return refuse(http.StatusBadRequest, "INVALID_PARAMETER_VALUE", "the metric "+row.Key+" is wrong, or one too many")
		}
		one.shown[row.Key] = append(one.shown[row.Key], *row.Value)
	}
	for _, param := range asked.Params {
		one.params[param.Key] = param.Value
	}
	return answer{http.StatusOK, map[string]any{}}
}

func (s *Service) upload(r *http.Request, body []byte) answer {
	if r.Method != http.MethodPut || r.URL.RawQuery != signature || r.Header.Get("x-ms-blob-type") != "BlockBlob" {
		return refuse(http.StatusForbidden, "AuthenticationFailed", "the address is not signed")
	}
	path := filepath.Join(s.directory, filepath.Clean(r.URL.Path))
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, body, 0o644)
	}
	if err != nil {
		return refuse(http.StatusInternalServerError, "InternalError", err.Error())
	}
	return answer{http.StatusCreated, nil}
}

func (s *Service) isBehind() bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.behind
}

// sendLog sends part of a log, as a blob store does.
func (s *Service) sendLog(w http.ResponseWriter, r *http.Request) {
	content, err := os.ReadFile(s.logOf(filepath.Base(r.URL.Path)))
	if s.isBehind() {
		content = nil
	}
	var from, to int
	_, bad := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-%d", &from, &to)
	switch {
	case err != nil:
		w.WriteHeader(http.StatusNotFound)
	case bad != nil || r.URL.RawQuery != signature:
		w.WriteHeader(http.StatusForbidden)
	case from >= len(content):
		w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
	default:
		part := content[from:min(to+1, len(content))]
		w.Header().Set("Content-Length", strconv.Itoa(len(part)))
		w.WriteHeader(http.StatusPartialContent)
		_, _ = io.Copy(w, bytes.NewReader(part))
	}
}
