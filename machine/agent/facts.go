package agent

import (
	"os"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/perennial-ml/perennial/trial"
)

// Facts are what a machine is like at one moment.
type Facts struct {
	Name     string  `json:"name"` // its own, as hostname prints it
	Cores    int     `json:"cores"`
	Load     float64 `json:"load"`     // running processes, averaged over a minute
	Memory   int64   `json:"memory"`   // bytes
	Free     int64   `json:"free"`     // bytes of memory that programs could get
	DiskFree int64   `json:"diskFree"` // bytes, where our directory is
	// Problems are what is not as it should be.
	Problems []trial.Reason `json:"problems,omitempty"`
}

// facts looks at the machine. What cannot be read is zero.
func (s *site) facts() Facts {
	facts := Facts{Cores: runtime.NumCPU()}
	facts.Name, _ = os.Hostname()
	if content, err := os.ReadFile("/proc/loadavg"); err == nil {
		word, _, _ := strings.Cut(string(content), " ")
		facts.Load, _ = strconv.ParseFloat(word, 64)
	}
	facts.Memory, facts.Free = memory()
	var disk unix.Statfs_t
	if unix.Statfs(s.directory, &disk) == nil {
		facts.DiskFree = int64(disk.Bavail) * int64(disk.Bsize)
	}
	return facts
}

// memory returns the bytes of memory there are, and those that can be had.
func memory() (total, available int64) {
	content, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, 0
	}
	for line := range strings.Lines(string(content)) {
		words := strings.Fields(line)
		if len(words) < 2 {
			continue
		}
		kilobytes, _ := strconv.ParseInt(words[1], 10, 64)
		switch words[0] {
		case "MemTotal:":
			total = kilobytes << 10
		case "MemAvailable:":
			available = kilobytes << 10
		}
	}
	return total, available
}
