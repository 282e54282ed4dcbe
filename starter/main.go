// Starter runs machine-learning experiments that survive the plug being pulled.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/perennial-ml/perennial/platforms/all"
	"github.com/perennial-ml/perennial/starter/command"
	"github.com/perennial-ml/perennial/starter/host"
	"github.com/perennial-ml/perennial/starter/nnictl"
	"go.temporal.io/sdk/contrib/envconfig"
	"golang.org/x/term"
)

func main() { os.Exit(run()) }

func run() int {
	defer profile()()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A second Ctrl-C ends the program at once.
	context.AfterFunc(ctx, stop)
	home, err := host.Directory(os.Getenv)
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		return command.ExitBadInput
	}
	external, err := findExternal(envconfig.EnvLookupOS)
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		return command.ExitBadInput
	}
	kept, homeless := host.FindRecord(home, os.LookupEnv)
	// It may have a password in it: nothing that is started from here inherits it.
	os.Unsetenv(host.RecordVariable)
	world := command.World{
		Args: os.Args[1:], Env: os.Environ(), Home: home, Record: kept.Location, Homeless: homeless,
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Width: width,
		Now: time.Now, Tick: time.Second / 4, Patience: 2 * time.Minute,
		Build: build(), Registry: all.All(all.Options{Environment: os.Environ()}), Engine: &engine{home: home, external: external, record: kept, homeless: homeless},
	}
	if args, meant := nnictl.Meant(os.Args); meant {
		world.Args = args
		return nnictl.Main(ctx, world)
	}
	return command.Main(ctx, world)
}

// width is the number of columns of the terminal on standard output, 0 where it
// is none.
func width() int {
	columns, _, err := term.GetSize(int(os.Stdout.Fd()))
	if err != nil {
		return 0
	}
	return columns
}
