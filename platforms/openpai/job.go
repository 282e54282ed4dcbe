package openpai

import (
	"encoding/json"
	"strings"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/internal/jobs"
)

// role and image are what things are called in a job that we made up.
const (
	role  = "trial"
	image = "image"
)

// job returns what is submitted, in job protocol 2: the section's own job with our
// name and our command in it, or one that is made of the section's keys. It is JSON,
// which is YAML.
func (s settings) job(name string, command []string, gpus *int) ([]byte, error) {
	made, err := s.protocol()
	if err != nil {
		return nil, platforms.Errorf(platforms.Invalid, "submit", "openpaiConfig: %w", err)
	}
	if made == nil {
		made = s.fromKeys(gpus)
	}
	made["name"] = name
	for _, found := range made["taskRoles"].(map[string]any) {
		one, ok := found.(map[string]any)
		if !ok {
			return nil, platforms.Errorf(platforms.Invalid, "submit", "openpaiConfig: its task role is no mapping")
		}
		one["commands"] = []string{line(command)}
		one["instances"] = 1
	}
	return json.Marshal(made)
}

// line is a command as a line for a shell. OpenPAI renders <% … %> in commands: no
// word of ours may have that.
func line(command []string) string {
	return strings.ReplaceAll(jobs.Line(command), "<%", "<''%") // the shell joins them again, inside '…' by closing it
}

func (s settings) fromKeys(gpus *int) map[string]any {
	number := 0
	if gpus != nil {
		number = *gpus
	}
	trial := map[string]any{
		"instances": 1, "taskRetryCount": 0, "dockerImage": image,
		"completion":          map[string]any{"minFailedInstances": 1, "minSucceededInstances": 1},
		"resourcePerInstance": map[string]any{"gpu": number, "cpu": s.CPUs, "memoryMB": s.Memory},
	}
	if s.SharedMemory > 0 {
		trial["extraContainerOptions"] = map[string]any{"shmMB": s.SharedMemory}
	}
	extras := map[string]any{"storages": []any{map[string]any{"name": s.Storage}}, "submitFrom": "perennial"}
	if s.SKUType != "" {
		extras["hivedScheduler"] = map[string]any{"taskRoles": map[string]any{
			role: map[string]any{"skuType": s.SKUType, "skuNum": max(1, s.SKUNumber)},
		}}
	}
	made := map[string]any{
		"protocolVersion": 2, "type": "job", "jobRetryCount": 0, "extras": extras,
		"prerequisites": []any{map[string]any{"type": "dockerimage", "name": image, "uri": s.Image}},
		"taskRoles":     map[string]any{role: trial},
	}
	if s.VirtualCluster != "" {
		made["defaults"] = map[string]any{"virtualCluster": s.VirtualCluster}
	}
	return made
}
