// Perennial-runner is the process that lives beside one attempt of a trial.
package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/perennial-ml/perennial/runner"
)

const usage = `perennial-runner lives beside one attempt of a trial; starter starts it.

  perennial-runner run DIRECTORY     run the attempt, its claim on descriptor 3
  perennial-runner sweep DIRECTORY   kill what a dead runner left behind
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
	case len(arguments) == 2 && arguments[0] == "sweep":
		return runner.Sweep(arguments[1])
	case len(arguments) == 1 && arguments[0] == "version":
		fmt.Println("perennial-runner", version())
		return nil
	}
	fmt.Fprint(os.Stderr, usage)
	os.Exit(2)
	return nil
}

func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Version
	}
	return "unknown"
}
