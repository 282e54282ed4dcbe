package openpailab

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

const root = "/rest-server/api/v2/"

// answer is what a call gets.
type answer struct {
	status int
	body   any
}

func refuse(status int, code, message string) answer {
	return answer{status, map[string]string{"code": code, "message": message}}
}

func (c *Cluster) serve(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimPrefix(r.URL.Path, root)
	sort := sortOf(r.Method, path)
	body, _ := io.ReadAll(r.Body)
	c.Meet(sort, w, func(w http.ResponseWriter) {
		told := c.handle(sort, path, r, body)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(told.status)
		_ = json.NewEncoder(w).Encode(told.body)
	})
}

func sortOf(method, path string) string {
	switch {
	case path == "authn/basic/login":
		return "login"
	case path == "jobs" && method == http.MethodPost:
		return "submit"
	case path == "jobs" && method == http.MethodGet:
		return "list"
	case strings.HasSuffix(path, "/executionType") && method == http.MethodPut:
		return "stop"
	case strings.HasPrefix(path, "jobs/") && method == http.MethodGet:
		return "find"
	}
	return "other"
}

func (c *Cluster) handle(sort, path string, r *http.Request, body []byte) answer {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if sort == "login" {
		return c.login(body)
	}
	token, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	expires, known := c.tokens[token]
	if !bearer || !known || !expires.IsZero() && c.now().After(expires) {
		return refuse(http.StatusUnauthorized, "UnauthorizedUserError", "Your token is wrong or has expired.")
	}
	name := strings.TrimSuffix(strings.TrimPrefix(path, "jobs/"), "/executionType")
	switch sort {
	case "submit":
		return c.submit(r.Header.Get("Content-Type"), body)
	case "list":
		return c.list(r.URL.Query())
	case "find":
		return c.found(name, func(one *job) answer {
			return answer{http.StatusOK, map[string]any{"name": one.name, "jobStatus": one.view(), "taskRoles": map[string]any{}}}
		})
	case "stop":
		return c.found(name, func(one *job) answer { return c.stop(one, body) })
	}
	return refuse(http.StatusNotFound, "NoApiError", "API "+path+" is not found.")
}

func (c *Cluster) login(body []byte) answer {
	var asked struct {
		Username, Password string
		Expiration         int
	}
	if json.Unmarshal(body, &asked) != nil || asked.Expiration < 60 || asked.Expiration > 7*24*3600 {
		return refuse(http.StatusBadRequest, "InvalidParametersError", "expiration must be within 60 seconds and 7 days")
	}
	if asked.Username != User || asked.Password != Password {
		return refuse(http.StatusBadRequest, "IncorrectPasswordError", "Password is incorrect.")
	}
	c.logins++
	token := fmt.Sprintf("login-token-%d", c.logins)
	c.tokens[token] = c.now().Add(time.Duration(asked.Expiration) * time.Second)
	return answer{http.StatusOK, map[string]any{"token": token, "user": User, "admin": false}}
}

func (c *Cluster) found(name string, then func(*job) answer) answer {
	user, name, _ := strings.Cut(name, "~")
	for _, one := range c.jobs {
		if user == User && one.name == name {
			return then(one)
		}
	}
	return refuse(http.StatusNotFound, "NoJobError", "Job "+user+"~"+name+" is not found.")
}

// protocol is what is looked at of job protocol 2.
type protocol struct {
	ProtocolVersion any    `yaml:"protocolVersion"`
	Name            string `yaml:"name"`
	Type            string `yaml:"type"`
	Prerequisites   []struct{ Type, Name, URI string }
	TaskRoles       map[string]struct {
		Instances           int
		DockerImage         string         `yaml:"dockerImage"`
		ResourcePerInstance map[string]int `yaml:"resourcePerInstance"`
		Commands            []string
	} `yaml:"taskRoles"`
	Defaults struct {
		VirtualCluster string `yaml:"virtualCluster"`
	}
	Extras struct{ Storages []struct{ Name string } }
}

var names = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,255}$`)

// fault returns what the server's schema finds wrong.
func (p protocol) fault() string {
	if fmt.Sprint(p.ProtocolVersion) != "2" || p.Type != "job" || !names.MatchString(p.Name) || len(p.TaskRoles) == 0 {
		return `[{"keyword":"enum","message":"should be equal to one of the allowed values"}]`
	}
	for _, role := range p.TaskRoles {
		for _, resource := range []string{"gpu", "cpu", "memoryMB"} {
			if _, there := role.ResourcePerInstance[resource]; !there {
				return `[{"keyword":"required","message":"should have required property '` + resource + `'"}]`
			}
		}
		if len(role.Commands) == 0 || role.Instances < 1 || !p.has(role.DockerImage) {
			return `[{"keyword":"required","message":"a task role lacks something"}]`
		}
		if strings.Contains(strings.Join(role.Commands, "\n"), "<%") {
			return `[{"message":"a command has a reference that is not defined"}]`
		}
	}
	return ""
}

func (p protocol) has(image string) bool {
	for _, one := range p.Prerequisites {
		if one.Type == "dockerimage" && one.Name == image && one.URI != "" {
			return true
		}
	}
	return false
}

func (c *Cluster) submit(kind string, body []byte) answer {
	var asked protocol
	if !strings.HasPrefix(kind, "text/yaml") || yaml.Unmarshal(body, &asked) != nil {
		return refuse(http.StatusBadRequest, "InvalidProtocolError", "it is no YAML")
	}
	if fault := asked.fault(); fault != "" {
		return refuse(http.StatusBadRequest, "InvalidProtocolError", fault)
	}
	if vc := asked.Defaults.VirtualCluster; vc != "" && vc != VirtualCluster {
		return refuse(http.StatusForbidden, "ForbiddenUserError", "User "+User+" is not allowed to do operation in "+vc+".")
	}
	for _, storage := range asked.Extras.Storages {
		if storage.Name != Storage {
			return refuse(http.StatusNotFound, "NoStorageError", "Storage "+storage.Name+" is not found.")
		}
	}
	for _, one := range c.jobs {
		if one.name == asked.Name {
			return refuse(http.StatusConflict, "ConflictJobError", "Job name "+asked.Name+" already exists.")
		}
	}
	for _, role := range asked.TaskRoles {
		c.jobs = append(c.jobs, &job{name: asked.Name, command: strings.Join(role.Commands, "\n"), state: "WAITING", created: c.now()})
		break
	}
	c.schedule()
	return answer{http.StatusAccepted, map[string]any{"status": 202, "message": "Job " + asked.Name + " is submitted."}}
}

// view is how a job is told of.
type view struct {
	Name      string `json:"name"`
	Username  string `json:"username"`
	State     string `json:"state"`
	SubState  string `json:"subState"`
	Execution string `json:"executionType"`
	Exit      *int   `json:"appExitCode"`
	Created   int64  `json:"createdTime"`
}

func (j *job) view() view {
	execution := "START"
	if j.stopped {
		execution = "STOP"
	}
	return view{j.name, User, j.state, "", execution, j.exit, j.created.UnixMilli()}
}

func (c *Cluster) views() (all []view) {
	for _, one := range c.jobs {
		all = append(all, one.view())
	}
	return all
}

func (c *Cluster) list(query map[string][]string) answer {
	value := func(name string) string {
		if len(query[name]) == 0 {
			return ""
		}
		return query[name][0]
	}
	number := func(name string, fallback int) int {
		if n, err := strconv.Atoi(value(name)); err == nil {
			return n
		}
		return fallback
	}
	all := c.views()
	if c.frozen {
		all = c.stale
	}
	shown := []view{}
	for _, one := range all {
		if (value("username") == "" || value("username") == one.Username) && strings.Contains(one.Name, value("keyword")) {
			shown = append(shown, one)
		}
	}
	from := min(number("offset", 0), len(shown))
	return answer{http.StatusOK, shown[from:min(from+number("limit", 5000), len(shown))]}
}

func (c *Cluster) stop(one *job, body []byte) answer {
	var asked struct{ Value string }
	if json.Unmarshal(body, &asked) != nil || asked.Value != "STOP" {
		return refuse(http.StatusBadRequest, "InvalidParametersError", "value must be STOP")
	}
	switch {
	case one.state == "WAITING":
		one.stopped, one.state = true, "STOPPED"
	case one.container != nil:
		one.stopped = true
		one.container.Stop()
	}
	return answer{http.StatusAccepted, map[string]any{"status": 202, "message": "Execute job " + one.name + " successfully."}}
}
