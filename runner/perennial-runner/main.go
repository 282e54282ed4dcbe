// Perennial-runner is the process that lives beside one attempt of a trial.
package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/perennial-ml/perennial/machine/agent"
	"github.com/perennial-ml/perennial/runner"
	"github.com/perennial-ml/perennial/runner/rundir"
	"github.com/perennial-ml/perennial/trial"
)

const usage = `perennial-runner lives beside one attempt of a trial; starter starts it.

  perennial-runner run DIRECTORY     run the attempt, its claim on descriptor 3
  perennial-runner once DIRECTORY    run the attempt unless it was ever started
  perennial-runner serve MAILBOX NAME SECONDS
                                     run one attempt after another, as the environment NAME,
                                     until there was none for so long
  perennial-runner sweep DIRECTORY   kill what a dead runner left behind
  perennial-runner container DIRECTORY [JOB]
                                     run the job in the file JOB, else in $PERENNIAL_JOB, as the
                                     command of a container; print its output and its journal
  perennial-runner journal DIRECTORY
                                     print the journal of a container's run until it is over
  perennial-runner unpack DIRECTORY HASH PART...
                                     unpack the code whose archive is in these parts
  perennial-runner end DIRECTORY CAUSE [DECISION]
                                     have a run end on somebody's behalf: user, early-stop …
  perennial-runner agent             speak for this machine's runs, on stdin and stdout
  perennial-runner version
`

// The command dies with the thread that started it, so that must be the main one.
func init() { runtime.LockOSThread() }

func main() {
	if len(os.Args) == 3 && os.Args[1] == runner.ExecCommand {
		os.Exit(runner.Exec(os.Args[2]))
	}
	if err := command(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "perennial-runner:", err)
		os.Exit(1)
	}
}

func command(arguments []string) error {
	switch {
	case len(arguments) == 2 && arguments[0] == "run":
		return runner.Run(arguments[1])
	case len(arguments) == 2 && arguments[0] == "once":
		return runner.RunOnce(arguments[1])
	case within(arguments, "serve", 3, 4):
		return serve(arguments[1], arguments[2], arguments[3], argument(arguments, 4))
	case len(arguments) == 2 && arguments[0] == "sweep":
		return runner.Sweep(arguments[1])
	case within(arguments, "container", 1, 2):
		os.Exit(runner.Container(arguments[1], argument(arguments, 2)))
	case within(arguments, "journal", 1, 1):
		return runner.PrintJournal(arguments[1], os.Stdout)
	case len(arguments) > 3 && arguments[0] == "unpack":
		return runner.Unpack(arguments[1], arguments[2], arguments[3:])
	case within(arguments, "end", 2, 3):
		return runner.End(arguments[1], trial.Intent{Cause: trial.Cause(arguments[2]), Decision: argument(arguments, 3)})
	case len(arguments) == 1 && arguments[0] == agent.Command:
		return agent.Main(os.Stdin, os.Stdout)
	case len(arguments) == 1 && arguments[0] == "version":
		fmt.Println("perennial-runner", version())
		return nil
	}
	fmt.Fprint(os.Stderr, usage)
	os.Exit(2)
	return nil
}

func serve(directory, name, seconds, job string) error {
	idle, err := strconv.ParseFloat(seconds, 64)
	if err != nil {
		return err
	}
	return runner.Serve(directory, name, job, time.Duration(idle*float64(time.Second)), os.Stdout)
}

// within tells whether the arguments are a command with so many words behind it.
func within(arguments []string, command string, least, most int) bool {
	return len(arguments) > least && len(arguments) <= most+1 && arguments[0] == command
}

// argument is one of the arguments, empty where it was left out.
func argument(arguments []string, i int) string {
	if i < len(arguments) {
		return arguments[i]
	}
	return ""
}

// version names the build and the newest format of a run directory that it knows.
func version() string {
	build := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		build = info.Main.Version
	}
	return fmt.Sprintf("%s (run directory format %d)", build, rundir.Format)
}
