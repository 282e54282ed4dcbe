package openpai

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/perennial-ml/perennial/platforms"
)

// settings are a section's own keys.
type settings struct {
	Host           string         `json:"host"` // with its scheme
	Username       string         `json:"username"`
	Token          string         `json:"token"`
	Password       string         `json:"password"`
	CPUs           int            `json:"trialCpuNumber"`
	Memory         int            `json:"trialMemorySize"`  // MB
	SharedMemory   int            `json:"sharedMemorySize"` // MB
	Storage        string         `json:"storageConfigName"`
	Image          string         `json:"dockerImage"`
	VirtualCluster string         `json:"virtualCluster"`
	SKUType        string         `json:"skuType"`
	SKUNumber      int            `json:"skuNumber"`
	Here           string         `json:"localStorageMountPoint"`
	There          string         `json:"containerStorageMountPoint"`
	Reuse          *bool          `json:"reuseMode"`
	Protocol       map[string]any `json:"openpaiConfig"`
	ProtocolFile   string         `json:"openpaiConfigFile"`
}

func parse(options json.RawMessage) (s settings, err error) {
	if len(options) > 0 {
		err = json.Unmarshal(options, &s)
	}
	s.Host = strings.TrimRight(s.Host, "/")
	return s, err
}

// reuses tells whether environments take trial after trial, as NNI had it by default.
func (s settings) reuses() bool { return s.Reuse == nil || *s.Reuse }

// credential is the key whose value to renew where credentials are refused.
func (s settings) credential() string {
	if s.Token == "" {
		return "the password of OpenPAI's user " + s.Username
	}
	return "the token of OpenPAI's user " + s.Username + " (on your profile page there)"
}

// mustache is what OpenPAI replaces in commands.
var mustache = regexp.MustCompile(`<%|%>`)

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
	at, err := url.Parse(s.Host)
	fault(err != nil || at.Host == "" || at.Scheme != "https" && at.Scheme != "http", "host", "is no address of a web page", "such as https://pai.example.com")
	fault(!path.IsAbs(s.There), "containerStorageMountPoint", "is no absolute path", "where OpenPAI mounts the storage in containers")
	fault(mustache.MatchString(s.There), "containerStorageMountPoint", "has <% or %> in it, which OpenPAI replaces", "")
	fault(s.SKUNumber > 0 && s.SKUType == "", "skuNumber", "is of no use without skuType", "")
	if _, err := s.protocol(); err != nil {
		field := "openpaiConfig"
		if s.ProtocolFile != "" {
			field = "openpaiConfigFile"
		}
		fault(true, field, err.Error(), "a job as OpenPAI exports it, of protocolVersion 2")
	}
	if len(faults) > 0 {
		return faults
	}
	return nil
}

// protocol is the job that the section brings of its own, in OpenPAI's job protocol;
// nil where it brings none.
func (s settings) protocol() (map[string]any, error) {
	job := s.Protocol
	if s.ProtocolFile != "" {
		content, err := os.ReadFile(s.ProtocolFile)
		if err != nil {
			return nil, err
		}
		if err := yaml.Unmarshal(content, &job); err != nil {
			return nil, err
		}
	}
	if job == nil {
		return nil, nil
	}
	if version := fmt.Sprint(job["protocolVersion"]); version != "2" {
		return nil, fmt.Errorf("has protocolVersion %s: 2 is known", version)
	}
	if roles, _ := job["taskRoles"].(map[string]any); len(roles) != 1 {
		return nil, fmt.Errorf("has %d taskRoles: a trial runs in one", len(roles))
	}
	copied, err := json.Marshal(job) // nobody changes what the section has
	if err == nil {
		job = nil
		err = json.Unmarshal(copied, &job)
	}
	return job, err
}
