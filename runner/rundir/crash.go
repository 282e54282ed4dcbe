package rundir

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// CrashVariable asks for a crash: "name" kills the process that reaches the crash
// point of that name with SIGKILL, "name:stall" makes it stand still for ever, and
// "name:/path" kills only the first: the one that makes that file.
// testsuite/platformtest and the end-to-end tests set it; nobody else does.
const CrashVariable = "PERENNIAL_CRASH_POINT"

// CrashPoint is a place where tests make this process die or stall. Without
// CrashVariable it does nothing.
func CrashPoint(name string) {
	wanted, action, _ := strings.Cut(os.Getenv(CrashVariable), ":")
	if wanted != name {
		return
	}
	switch {
	case action == "stall":
		select {}
	case action != "" && !first(action):
		return
	}
	unix.Kill(os.Getpid(), unix.SIGKILL)
	select {}
}

func first(path string) bool {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return false
	}
	file.Close()
	return true
}
