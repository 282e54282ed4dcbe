package gpu

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"
	"syscall"
)

// LookUp describes a process of this host that uses so many bytes of a GPU, as far
// as it can be seen from here.
func LookUp(pid int, used uint64) Process {
	p := Process{PID: pid, Used: used}
	directory := fmt.Sprintf("/proc/%d", pid)
	if name, err := os.ReadFile(directory + "/comm"); err == nil {
		p.Name = strings.TrimSpace(string(name))
	}
	if info, err := os.Stat(directory); err == nil {
		p.User = UserName(int(info.Sys().(*syscall.Stat_t).Uid))
	}
	return p
}

// UserName is the name of a user of this host, the number of one who has none.
func UserName(uid int) string {
	number := strconv.Itoa(uid)
	if known, err := user.LookupId(number); err == nil {
		return known.Username
	}
	return number
}
