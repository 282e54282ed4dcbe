package remote

import (
	"encoding/json"
	"fmt"
	"path"
	"strings"
	"time"
	"unicode"

	"github.com/perennial-ml/perennial/platforms"
)

// section is the platform's part of an experiment file, secrets resolved.
type section struct {
	ReuseMode     bool           `json:"reuseMode"`
	Machines      []machineEntry `json:"machineList"`
	ConfigFile    string         `json:"sshConfigFile"`
	HostLostAfter int64          `json:"hostLostAfter"` // seconds, 0: never
}

// machineEntry is one entry of machineList.
type machineEntry struct {
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

// login is the address without the place there: to people, the machine.
func (a Address) login() Address {
	a.Directory = ""
	return a
}

// String is the address for people.
func (a Address) String() string { return platforms.HostName(a.User, a.Host, a.Port) }

func (s section) lostAfter() time.Duration { return time.Duration(s.HostLostAfter) * time.Second }

// parse reads a section as it is when trials run, references in it resolved. Its
// error is platforms.OptionFaults.
func parse(options json.RawMessage) (section, error) {
	s, err := read(options)
	if err != nil {
		return s, err
	}
	return s, s.check(func(a Address) Address { return a })
}

// CheckOptions tells whether a section makes sense, before anything is accepted.
// References in it need not be resolved. The error is platforms.OptionFaults.
func CheckOptions(options json.RawMessage) error {
	s, err := read(options)
	if err != nil {
		return err
	}
	return s.check(Address.login)
}

func read(options json.RawMessage) (section, error) {
	var s section
	if len(options) == 0 {
		return s, nil
	}
	if err := json.Unmarshal(options, &s); err != nil {
		return s, platforms.OptionFaults{{Message: "the section of platform remote cannot be read: " + err.Error()}}
	}
	for i := range s.Machines {
		s.Machines[i].configuration = s.ConfigFile
	}
	return s, nil
}

// check finds all that is wrong. Two machines are one if same makes their addresses
// the same.
func (s section) check(same func(Address) Address) error {
	var all platforms.OptionFaults
	if len(s.Machines) == 0 {
		all = append(all, platforms.OptionFault{Field: "machineList", Message: "must name at least one machine",
			Hint: "each is a mapping that begins with its name or address"})
	}
	for i, m := range s.Machines {
		all = append(all, m.check(fmt.Sprintf("machineList[%d].", i))...)
	}
	if all = append(all, s.twins(same)...); len(all) > 0 {
		return all
	}
	return nil
}

func (m machineEntry) check(field string) (all platforms.OptionFaults) {
	if message := wrongHost(m.Host); message != "" {
		all = append(all, platforms.OptionFault{Field: field + "host", Message: message,
			Hint: "a name or address, or a Host of ~/.ssh/config; user and port are keys of their own"})
	}
	if wrongDirectory(m.Directory) {
		all = append(all, platforms.OptionFault{Field: field + "directory", Message: "must begin with / or ~/",
			Hint: fmt.Sprintf("%q is below the home directory there", "~/"+m.Directory)})
	}
	return all
}

// wrongHost says why a text names no machine, empty where it may name one.
func wrongHost(host string) string {
	strange := func(c rune) bool { return unicode.IsSpace(c) || unicode.IsControl(c) }
	switch {
	case host == "":
		return "the machine has no host"
	case reference(host):
		return ""
	case strings.HasPrefix(host, "-"):
		return "no host begins with a dash, and ssh would take it for an option"
	case strings.ContainsFunc(host, strange):
		return "no host has blanks in it"
	}
	return ""
}

func wrongDirectory(directory string) bool {
	return directory != "" && !reference(directory) && !path.IsAbs(directory) && !strings.HasPrefix(directory, "~/")
}

// reference tells whether a text stands for one that is not known yet.
func reference(text string) bool {
	return strings.HasPrefix(text, "${") && strings.HasSuffix(text, "}")
}

// twins finds machines that are on the list before.
func (s section) twins(same func(Address) Address) (all platforms.OptionFaults) {
	first := map[Address]int{}
	for i, m := range s.Machines {
		before, seen := first[same(m.Address)]
		switch {
		case m.Host == "":
		case seen:
			all = append(all, platforms.OptionFault{Field: fmt.Sprintf("machineList[%d].host", i),
				Message: fmt.Sprintf("machine %s is there twice", m.Address),
				Hint:    fmt.Sprintf("it is machineList[%d] already: remove one of them", before)})
		default:
			first[same(m.Address)] = i
		}
	}
	return all
}
