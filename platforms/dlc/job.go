package dlc

import (
	"strings"
	"time"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/internal/jobs"
	"github.com/perennial-ml/perennial/platforms/internal/verbs"
	"github.com/perennial-ml/perennial/trial"
)

// experimentTag and runTag are the tags of jobs by which they are found again.
const (
	experimentTag = "perennial-experiment"
	runTag        = "perennial-run"
)

// job is how DLC tells of a job.
type job struct {
	ID      string    `json:"JobId"`
	Name    string    `json:"DisplayName"`
	Status  string    `json:"Status"`
	Code    string    `json:"ReasonCode"`
	Message string    `json:"ReasonMessage"`
	Created time.Time `json:"GmtCreateTime"`
}

// phase puts DLC's word for how a job is into ours.
func (j job) phase() string {
	switch j.Status {
	case "Creating", "Queuing", "Bidding", "EnvPreparing", "SanityChecking":
		return verbs.Waiting
	case "Running", "Restarting", "Stopping":
		return verbs.Running
	case "SucceededReserving", "Succeeded", "FailedReserving", "Failed", "Stopped":
		return verbs.Gone
	}
	return verbs.Unknown
}

// state is the job as package jobs has it. why is what DLC's events say of it.
func (j job) state(url, why string) jobs.State {
	state := jobs.State{Phase: j.phase(), URL: url}
	switch state.Phase {
	case verbs.Waiting:
		state.Reason = trial.Reason{Code: "queued", Text: "DLC's job " + j.ID + " is " + strings.ToLower(j.Status) + because(j.Message, why)}
	case verbs.Gone:
		state.Reason = trial.Reason{Code: "job-over", Text: "DLC's job " + j.ID + " is " + strings.ToLower(j.Status) + because(j.Message, j.Code) + ", and left no word of its trial's end"}
	case verbs.Unknown:
		state.Reason = trial.Reason{Code: "platform", Text: "DLC says of its job " + j.ID + " that it is " + j.Status}
	}
	return state
}

// because is the first text that says anything.
func because(texts ...string) string {
	for _, text := range texts {
		if text != "" {
			return ": " + text
		}
	}
	return ""
}

// decides tells whether a job stands for its name rather than another of the same
// name: which there is where the answer to a submission was lost, and lists were late.
// The trial runs in the first that starts, so one that runs is never given up for one
// that waits.
func (j job) decides(other job) bool {
	rank := map[string]int{verbs.Running: 3, verbs.Unknown: 2, verbs.Waiting: 1}
	mine, others := rank[j.phase()], rank[other.phase()]
	return mine > others || mine == others && j.Created.Before(other.Created)
}

// request is what DLC is to run for a name.
func (s settings) request(experiment, name string, command []string) (map[string]any, error) {
	dedicated, err := s.dedicated()
	if err != nil {
		return nil, platforms.Errorf(platforms.Invalid, "submit", "ecsSpec %w", err)
	}
	pod := map[string]any{"Type": s.Role, "Image": s.Image, "PodCount": max(1, s.Pods)}
	made := map[string]any{
		"DisplayName": name, "JobType": s.JobType, "WorkspaceId": s.Workspace, "UserCommand": jobs.Line(command),
		"JobSpecs": []any{pod}, "DataSources": s.sources(),
		"Settings": map[string]any{"Caller": "perennial", "Tags": map[string]any{experimentTag: experiment, runTag: name}},
	}
	if s.Priority > 0 {
		made["Priority"] = s.Priority
	}
	if dedicated == nil {
		pod["EcsSpec"] = s.Spec
		return made, nil
	}
	asked := map[string]any{}
	for name, value := range dedicated {
		if name == quota {
			made["ResourceId"] = value
			continue
		}
		asked[resources[name]] = value
	}
	pod["ResourceConfig"] = asked
	return made, nil
}

func (s settings) sources() []any {
	sources := []any{map[string]any{"DataSourceId": s.NAS, "MountPath": s.There}}
	if s.OSS != "" {
		sources = append(sources, map[string]any{"DataSourceId": s.OSS})
	}
	return sources
}
