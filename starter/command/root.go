package command

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
)

const rootHelp = `starter runs machine-learning experiments that survive the plug being pulled.

An experiment is a YAML file (NNI's, unmodified, or one made by "starter init"):
a command to try, a space of parameters, a tuner. starter runs the trials, keeps
what they report, and goes on where it was after any crash.`

const usageTemplate = `Usage:{{if or (not .HasAvailableSubCommands) (index .Annotations "alone")}}
  {{.UseLine}}{{end}}{{if .HasAvailableSubCommands}}
  {{.CommandPath}} COMMAND{{end}}{{if .HasExample}}

Examples:
{{.Example}}{{end}}{{if .HasAvailableSubCommands}}

Commands:{{range .Commands}}{{if .IsAvailableCommand}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{end}}{{if .HasAvailableLocalFlags}}

Flags:
{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}{{end}}{{if .HasAvailableSubCommands}}

"{{.CommandPath}} COMMAND --help" says more about a command.{{end}}
`

// Main runs the command that world.Args names and returns its exit code. Once ctx
// ends, the command has a moment to say how things stand; whatever it waits for then,
// Main returns without it.
func Main(ctx context.Context, world World) int {
	world.hosting = &atomic.Bool{}
	ended := make(chan error, 1)
	go func() { ended <- world.root().ExecuteContext(ctx) }()
	select {
	case err := <-ended:
		return world.Verdict(err)
	case <-ctx.Done():
	}
	select {
	case err := <-ended:
		return world.Verdict(err)
	case <-time.After(world.farewell()):
		fmt.Fprintln(world.Err, "interrupted")
		return ExitDetached
	}
}

// Verdict tells people what is wrong, and returns the exit code that says it to programs.
func (w World) Verdict(err error) int {
	w.printError(err)
	return codeOf(err)
}

// How long a command may go on once it is interrupted: one that is the host ends its
// workers and its server in order.
const (
	commandEnds = 900 * time.Millisecond
	hostEnds    = 6 * time.Second
)

func (w World) farewell() time.Duration {
	if w.hosting.Load() {
		return hostEnds
	}
	return commandEnds
}

func (w World) root() *cobra.Command {
	root := &cobra.Command{
		Use: "starter", Short: "Durable machine-learning experiments", Long: rootHelp,
		Example: examples("starter init", "starter run experiment.yml", "starter ls"),
		Version: thisBuild().String(), SilenceUsage: true, SilenceErrors: true,
		RunE: func(cmd *cobra.Command, args []string) error { return cmd.Help() },
	}
	root.SetArgs(append([]string{}, w.Args...)) // nil would mean os.Args
	root.SetIn(w.In)
	root.SetOut(w.Out)
	root.SetErr(w.Err)
	root.SetUsageTemplate(usageTemplate)
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetFlagErrorFunc(explainFlag)
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetHelpCommand(&cobra.Command{Use: "help", Hidden: true, RunE: helpFor})
	root.AddCommand(w.lifeCommands()...)
	root.AddCommand(w.readingCommands()...)
	root.AddCommand(w.changingCommands()...)
	root.AddCommand(w.machineCommands()...)
	return root
}

func (w World) lifeCommands() []*cobra.Command {
	return []*cobra.Command{w.initCommand(), w.validateCommand(), w.runCommand(), w.resumeCommand(), w.stopCommand(), w.pauseCommand()}
}

func (w World) readingCommands() []*cobra.Command {
	return []*cobra.Command{w.lsCommand(), w.showCommand(), w.trialsCommand(), w.logsCommand(), w.exportCommand(), w.gpusCommand(), w.dashboardCommand()}
}

func (w World) changingCommands() []*cobra.Command {
	return []*cobra.Command{w.killCommand(), w.updateCommand(), w.tagCommand(), w.rmCommand()}
}

func (w World) machineCommands() []*cobra.Command {
	return []*cobra.Command{w.doctorCommand(), w.platformCommand(), w.installNnictlCommand(), w.serveCommand(), w.keysCommand(), w.tokenCommand(), w.recordCommand(), w.workerCommand(), w.workersCommand(), w.tunerCommand(), w.versionCommand(), w.completionCommand()}
}

func helpFor(cmd *cobra.Command, args []string) error {
	found, _, err := cmd.Root().Find(args)
	if err != nil {
		return err
	}
	found.InitDefaultHelpFlag() // cobra adds it when a command runs, not when it is found
	return found.Help()
}

func explainFlag(cmd *cobra.Command, err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	return badInput(cmd.CommandPath()+" --help lists the flags", "%w", err)
}

// examples lays out the lines of a command's examples.
func examples(lines ...string) string {
	return "  " + strings.Join(lines, "\n  ")
}

// atMost refuses more than n arguments, and says how the command is used.
func atMost(n int) cobra.PositionalArgs {
	return between(0, n)
}

// between refuses fewer than low and more than high arguments.
func between(low, high int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) >= low && len(args) <= high {
			return nil
		}
		return badInput("usage: "+cmd.UseLine(), "%s was given %d arguments", cmd.CommandPath(), len(args))
	}
}
