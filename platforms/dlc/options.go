package dlc

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/perennial-ml/perennial/platforms"
)

// settings are a section's own keys.
type settings struct {
	Role      string `json:"type"`
	Image     string `json:"image"`
	JobType   string `json:"jobType"`
	Pods      int    `json:"podCount"`
	Spec      string `json:"ecsSpec"`
	Region    string `json:"region"`
	Endpoint  string `json:"endpoint"`
	Workspace string `json:"workspaceId"`
	NAS       string `json:"nasDataSourceId"`
	OSS       string `json:"ossDataSourceId"`
	KeyID     string `json:"accessKeyId"`
	KeySecret string `json:"accessKeySecret"`
	Priority  int    `json:"priority"`
	Here      string `json:"localStorageMountPoint"`
	There     string `json:"containerStorageMountPoint"`
	Keep      bool   `json:"keepJobs"`
	Reuse     bool   `json:"reuseMode"`
}

func parse(options json.RawMessage) (s settings, err error) {
	if len(options) > 0 {
		err = json.Unmarshal(options, &s)
	}
	return s, err
}

// resources are what a pod has where ecsSpec names no instance type: NNI's keys, and
// what DLC calls them.
var resources = map[string]string{"cpu": "CPU", "memory": "Memory", "gpu": "GPU", "gputype": "GPUType", "shared_memory": "SharedMemory"}

// quota is the key of ecsSpec that names a quota of resources.
const quota = "resource_id"

// dedicated is ecsSpec as NNI's users write it for resources of their own: a mapping,
// as Python or YAML has it. It is nil where ecsSpec names an instance type.
func (s settings) dedicated() (map[string]string, error) {
	if !strings.HasPrefix(strings.TrimSpace(s.Spec), "{") {
		return nil, nil
	}
	var written map[string]string
	if err := yaml.Unmarshal([]byte(s.Spec), &written); err != nil {
		return nil, fmt.Errorf("is no mapping: %w", err)
	}
	for name := range written {
		if resources[name] == "" && name != quota {
			return nil, fmt.Errorf("has the key %q, which there is not", name)
		}
	}
	return written, nil
}

// address is the scheme and the host of the API. Where no endpoint is named it is the
// region's public one.
func (s settings) address() (scheme, host string) {
	if scheme, host, found := strings.Cut(s.Endpoint, "://"); found {
		return scheme, strings.TrimRight(host, "/")
	}
	if s.Endpoint != "" {
		return "https", strings.TrimRight(s.Endpoint, "/")
	}
	return "https", "pai-dlc." + s.Region + ".aliyuncs.com"
}

// check is Kind.Check.
func check(options json.RawMessage) error {
	s, err := parse(options)
	if err != nil {
		return err
	}
	var faults platforms.OptionFaults
	fault := func(wrong bool, field, message, hint string) {
		if wrong {
			faults = append(faults, platforms.OptionFault{Field: field, Message: message, Hint: hint})
		}
	}
	scheme, host := s.address()
	fault(scheme != "https" && scheme != "http" || host == "", "endpoint", "is no address", "such as pai-dlc-vpc.cn-hangzhou.aliyuncs.com")
	fault(s.Pods > 1, "podCount", "is more than one: a trial runs in one pod", "1")
	fault(s.Priority < 0 || s.Priority > 9, "priority", "is not from 1 to 9", "")
	fault(!path.IsAbs(s.There), "containerStorageMountPoint", "is no absolute path", "where trials find the NAS, such as /root/data")
	info, err := os.Stat(s.Here)
	fault(!path.IsAbs(s.Here) || err != nil || !info.IsDir(), "localStorageMountPoint", "is no directory of this machine, named by an absolute path", "where the same NAS is mounted here")
	if _, err := s.dedicated(); err != nil {
		fault(true, "ecsSpec", err.Error(), `an instance type, or "{'resource_id': 'quota…', 'cpu': '4', 'memory': '16Gi', 'gpu': '1', 'gputype': '…', 'shared_memory': '8Gi'}"`)
	}
	if len(faults) > 0 {
		return faults
	}
	return nil
}
