package uailab

import (
	"crypto/sha1"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// answer is what a call gets beside RetCode and Action.
type answer map[string]any

func refuse(code int, message string) answer { return answer{"RetCode": code, "Message": message} }

// What the service has, and its own numbers for it.
var (
	modes      = map[string]int{"StandAlone": 101, "Distributed": 102}
	backends   = map[string]int{"UFile": 201, "UFS": 202}
	frameworks = map[string]int{"tensorflow": 301, "mxnet": 302}
	kinds      = []answer{
		{"NodeId": 1860001, "AcceleratorAmount": 1, "AcceleratorVersion": "P40", "UnitPrice": 420},
		{"NodeId": 1860003, "AcceleratorAmount": 4, "AcceleratorVersion": "P40", "UnitPrice": 1680},
	}
	nodeRange = answer{"SetName": "stand-in", "Min": 2, "Max": 4}
	timeRange = answer{"SetName": "stand-in", "Min": 6, "Max": 720}
)

func (s *Service) serve(w http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm()
	form := r.PostForm
	action := form.Get("Action")
	s.Meet(action, w, func(w http.ResponseWriter) {
		told := s.handle(r, action, form)
		if told["RetCode"] == nil {
			told["RetCode"] = 0
		}
		told["Action"] = action + "Response"
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(told)
	})
}

// signature is what a request's has to be: SHA-1 of all names and values, in the order of
// the names, and the private key.
func signature(form url.Values, secret string) string {
	var names []string
	for name := range form {
		if name != "Signature" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	text := ""
	for _, name := range names {
		text += name + form.Get(name)
	}
	sum := sha1.Sum([]byte(text + secret))
	return hex.EncodeToString(sum[:])
}

func (s *Service) handle(r *http.Request, action string, form url.Values) answer {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	switch {
	case r.Method != http.MethodPost || r.URL.RawQuery != "":
		return refuse(160, "no query here: it would be logged on the way")
	case form.Get("Signature") == "":
		return refuse(170, "Missing signature")
	case form.Get("PublicKey") != PublicKey:
		return refuse(172, "User not found")
	case form.Get("Signature") != signature(form, s.secret):
		return refuse(171, "Signature VerifyAC Error")
	case form.Get("ProjectId") != Project:
		return refuse(240, "ProjectId "+form.Get("ProjectId"))
	case form.Get("Region") != Region || form.Get("Zone") != Zone:
		return refuse(230, "Zone "+form.Get("Zone"))
	}
	return s.act(action, form)
}

func (s *Service) act(action string, form url.Values) answer {
	switch action {
	case "GetUAITrainAvailableTrainMode":
		return items(modes, "TrainModeId", "TrainModeName")
	case "GetUAITrainAvailableBackend":
		if form.Get("TrainModeId") == strconv.Itoa(modes["Distributed"]) {
			return items(map[string]int{"UFS": backends["UFS"]}, "DataBackendId", "DataBackendName")
		}
		return items(backends, "DataBackendId", "DataBackendName")
	case "GetUAITrainAvailableDistAIFramework":
		return items(frameworks, "DistAIFrameId", "DistAIFrameName")
	case "GetUAITrainAvailableResource":
		return answer{"DataSet": kinds, "TotalCount": len(kinds)}
	case "GetUAITrainDistributeWorkAmountRange":
		return copied(nodeRange)
	case "GetUAITrainMaxExecTimeRange":
		return copied(timeRange)
	case "CreateUAITrainJob":
		return s.create(form)
	case "GetUAITrainJobList":
		return s.list(form)
	}
	for _, one := range s.jobs {
		if one.id == form.Get("TrainJobId") && one.status != "Deleted" {
			return s.one(action, one, form)
		}
	}
	if form.Has("TrainJobId") {
		return refuse(8001, "job "+form.Get("TrainJobId")+" not found")
	}
	return refuse(161, "Action "+action+" not found")
}

func copied(of answer) answer {
	made := answer{}
	for name, value := range of {
		made[name] = value
	}
	return made
}

func items(of map[string]int, id, name string) answer {
	found := []answer{}
	for text, number := range of {
		found = append(found, answer{id: number, name: text})
	}
	return answer{"DataItem": found}
}

func (s *Service) one(action string, one *job, form url.Values) answer {
	switch action {
	case "StopUAITrainJob":
		return s.stop(one)
	case "RemoveUAITrainJob":
		if !slices.Contains([]string{"Done", "Stopped", "Error"}, one.status) {
			return refuse(8014, "job "+one.id+" is "+one.status)
		}
		s.jobs = slices.DeleteFunc(s.jobs, func(other *job) bool { return other == one })
		return answer{}
	case "GetUAITrainRunningLogTopicList":
		return answer{"DataSet": []answer{{"TopicId": one.id + "-0"}}}
	case "GetUAITrainRunningLog":
		return s.log(one, form.Get("LogTopicId"))
	case "GetUAITrainTensorboardUrl":
		if one.status != "Doing" {
			return refuse(8015, "job "+one.id+" is "+one.status)
		}
		return answer{"TensorboardUrl": s.board(one)}
	}
	return refuse(161, "Action "+action+" not found")
}

// log is the end of what a job printed: its last 50 lines once it is over.
func (s *Service) log(one *job, topic string) answer {
	if topic != one.id+"-0" {
		return refuse(8016, "topic "+topic+" not found")
	}
	most := s.LogLines
	if most == 0 {
		most = 200
	}
	if one.left == 0 {
		most = 50
	}
	return answer{"RunningLog": one.log.last(most)}
}

// wrong is what is wrong with a request for a job, empty where nothing is.
func wrong(form url.Values) string {
	for _, name := range []string{"TrainJobName", "CodeUhubPath", "DockerCmd", "TrainPublicKey", "TrainPrivateKey"} {
		if form.Get(name) == "" {
			return name
		}
	}
	number := func(name string) int { n, _ := strconv.Atoi(form.Get(name)); return n }
	nodes, distributed := number("TrainWorkAmount"), number("TrainModeId") == modes["Distributed"]
	for name, bad := range map[string]bool{
		"TrainModeId":     !distributed && number("TrainModeId") != modes["StandAlone"],
		"TrainWorkId":     !slices.ContainsFunc(kinds, func(kind answer) bool { return kind["NodeId"] == number("TrainWorkId") }),
		"TrainWorkAmount": distributed && (nodes < nodeRange["Min"].(int) || nodes > nodeRange["Max"].(int)) || !distributed && nodes != 1,
		"DistAIFrame":     distributed && number("DistAIFrame") != frameworks["tensorflow"] && number("DistAIFrame") != frameworks["mxnet"],
		"MaxExecuteTime":  number("MaxExecuteTime") < timeRange["Min"].(int) || number("MaxExecuteTime") > timeRange["Max"].(int),
		"DataUfilePath":   !fits(form.Get("DataUfilePath"), number("InputDataBackendId"), distributed),
		"OutputUfilePath": !fits(form.Get("OutputUfilePath"), number("OutputDataBackendId"), distributed),
		"DockerCmd":       !strings.HasSuffix(strings.Fields(form.Get("DockerCmd"))[0], ".py"),
	} {
		if bad {
			return name
		}
	}
	return ""
}

// fits tells whether a path is one of a backend that jobs of that mode may use.
func fits(path string, backend int, distributed bool) bool {
	switch backend {
	case backends["UFS"]:
		return strings.HasPrefix(path, UFS)
	case backends["UFile"]:
		return strings.HasPrefix(path, Bucket+"/") && strings.HasSuffix(path, "/") && !distributed
	}
	return false
}

func (s *Service) create(form url.Values) answer {
	if name := wrong(form); name != "" {
		return refuse(230, fmt.Sprintf("Params [%s] not available", name))
	}
	nodes, _ := strconv.Atoi(form.Get("TrainWorkAmount"))
	framework, _ := strconv.Atoi(form.Get("DistAIFrame"))
	one := &job{
		name: form.Get("TrainJobName"), memo: form.Get("TrainJobMemo"), status: "Waiting", command: form.Get("DockerCmd"),
		input: form.Get("DataUfilePath"), output: form.Get("OutputUfilePath"), nodes: nodes, framework: framework,
	}
	s.add(one)
	s.schedule()
	return answer{"TrainJobId": one.id}
}

// list shows jobs, the newest first.
func (s *Service) list(form url.Values) answer {
	shown := s.jobs
	if s.hidden {
		shown = shown[:min(s.visible, len(shown))]
	}
	if id := form.Get("TrainJobId"); id != "" {
		shown = slices.DeleteFunc(slices.Clone(s.jobs), func(one *job) bool { return one.id != id })
	}
	found := []answer{}
	for _, one := range slices.Backward(shown) {
		found = append(found, s.view(one))
	}
	offset, _ := strconv.Atoi(form.Get("Offset"))
	limit, _ := strconv.Atoi(form.Get("Limit"))
	if offset < 0 || limit < offset {
		return refuse(230, "Params [Limit] not available")
	}
	from := min(offset, len(found))
	return answer{"DataSet": found[from:min(from+limit, len(found))], "TotalCount": strconv.Itoa(len(found))}
}
