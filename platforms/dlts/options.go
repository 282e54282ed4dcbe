package dlts

import (
	"encoding/json"
	"net/url"
	"os"
	"path"
	"strings"

	"github.com/perennial-ml/perennial/platforms"
)

// settings are a section's own keys.
type settings struct {
	Dashboard string `json:"dashboard"` // with its scheme, without a slash at the end
	Cluster   string `json:"cluster"`
	Team      string `json:"team"`
	Email     string `json:"email"`
	Password  string `json:"password"`
	Image     string `json:"dockerImage"`
	GPUType   string `json:"gpuType"`
	Priority  int    `json:"jobPriority"`
	Here      string `json:"localStorageMountPoint"`
	There     string `json:"containerStorageMountPoint"`
}

func parse(options json.RawMessage) (s settings, err error) {
	if len(options) > 0 {
		err = json.Unmarshal(options, &s)
	}
	s.Dashboard = strings.TrimRight(s.Dashboard, "/")
	return s, err
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
	at, err := url.Parse(s.Dashboard)
	fault(err != nil || at.Host == "" || at.Scheme != "https" && at.Scheme != "http", "dashboard", "is no address of a web page", "such as https://dltshub.example.com")
	fault(err == nil && at.RawQuery != "", "dashboard", "has a question mark in it", "the address of the first page, without what follows it")
	fault(s.Priority != 0 && (s.Priority < 100 || s.Priority > 200), "jobPriority", "is not from 100 to 200", "DLTS gives users these")
	fault(!path.IsAbs(s.There), "containerStorageMountPoint", "is no absolute path", "where trials find the storage, such as /work")
	info, err := os.Stat(s.Here)
	fault(!path.IsAbs(s.Here) || err != nil || !info.IsDir(), "localStorageMountPoint", "is no directory of this machine, named by an absolute path", "where the same storage is mounted here")
	if len(faults) > 0 {
		return faults
	}
	return nil
}
