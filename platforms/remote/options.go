package remote

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"
)

// section is the platform's part of an experiment file, secrets resolved.
type section struct {
	ReuseMode     bool      `json:"reuseMode"`
	Machines      []machine `json:"machineList"`
	ConfigFile    string    `json:"sshConfigFile"`
	HostLostAfter int64     `json:"hostLostAfter"` // seconds, 0: never
}

// machine is one entry of machineList.
type machine struct {
	Address
	Password   string `json:"password"`
	KeyFile    string `json:"sshKeyFile"`
	Passphrase string `json:"sshPassphrase"`
	PythonPath string `json:"pythonPath"`
	PreCommand string `json:"preCommand"`

	UseActiveGPU  bool  `json:"useActiveGpu"`
	TrialsPerGPU  int   `json:"maxTrialNumberPerGpu"`
	GPUIndices    []int `json:"gpuIndices"`
	configuration string
}

// Address names a machine, as the experiment file does. It is all that is kept of
// a machine beside a run.
type Address struct {
	Host string `json:"host"`
	Port int    `json:"port,omitempty"` // 0: ssh's configuration, else 22
	User string `json:"user,omitempty"` // empty: ssh's configuration, else this user
	// Directory is ours there; empty: ~/.perennial.
	Directory string `json:"directory,omitempty"`
}

// String is the address for people.
func (a Address) String() string {
	name := a.Host
	if a.User != "" {
		name = a.User + "@" + name
	}
	if a.Port != 0 && a.Port != 22 {
		name = fmt.Sprintf("%s:%d", name, a.Port)
	}
	return name
}

func (s section) lostAfter() time.Duration { return time.Duration(s.HostLostAfter) * time.Second }

// parse reads a section; what is wrong with it is in words for whoever wrote it.
func parse(options json.RawMessage) (section, error) {
	var s section
	if len(options) == 0 {
		return s, errors.New("machineList is missing: name at least one machine")
	}
	if err := json.Unmarshal(options, &s); err != nil {
		return s, fmt.Errorf("the section of platform remote cannot be read: %w", err)
	}
	if len(s.Machines) == 0 {
		return s, errors.New("machineList must name at least one machine")
	}
	for i := range s.Machines {
		s.Machines[i].configuration = s.ConfigFile
	}
	return s, s.check()
}

func (s section) check() error {
	seen := map[Address]bool{}
	for _, m := range s.Machines {
		if m.Host == "" {
			return errors.New("a machine has no host: give its name or address")
		}
		if seen[m.Address] {
			return fmt.Errorf("machine %s is there twice: remove one of them", m.Address)
		}
		seen[m.Address] = true
		if err := m.checkDirectory(); err != nil {
			return err
		}
	}
	return nil
}

func (m machine) checkDirectory() error {
	if m.Directory == "" || path.IsAbs(m.Directory) || strings.HasPrefix(m.Directory, "~/") {
		return nil
	}
	return fmt.Errorf("directory %q of machine %s must begin with / or ~/", m.Directory, m.Address)
}

// CheckOptions tells whether a section makes sense. References in it need not be
// resolved.
func CheckOptions(options json.RawMessage) error {
	_, err := parse(options)
	return err
}
