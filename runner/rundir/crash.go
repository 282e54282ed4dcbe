package rundir

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// CrashVariable asks for a crash: "name" kills the process that reaches the crash
// point of that name with SIGKILL, "name:stall" makes it stand still for ever.
// testsuite/platformtest and the end-to-end tests set it; nobody else does.
const CrashVariable = "PERENNIAL_CRASH_POINT"

// CrashPoint is a place where tests make this process die or stall. Without
// CrashVariable it does nothing.
func CrashPoint(name string) {
	wanted, action, _ := strings.Cut(os.Getenv(CrashVariable), ":")
	if wanted != name {
		return
	}
	if action == "stall" {
		select {}
	}
	unix.Kill(os.Getpid(), unix.SIGKILL)
	select {}
}
