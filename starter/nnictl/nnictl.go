// Package nnictl is NNI's command line: its commands with its options, done by starter's own,
// and what it prints in NNI's shapes, read from the record. It needs no port and no process
// of an experiment, so every command works at any time.
package nnictl

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/perennial-ml/perennial/starter/command"
	"github.com/spf13/cobra"
)

// only are nnictl's words that mean nothing else to starter, which understands them as well.
var only = []string{"create", "view", "trial", "experiment", "webui", "config", "log", "top", "algo", "package", "trainingservice",
	"ss_gen", "jupyter-extension", "hello", "tensorboard"}

// Meant tells whether a command line, with the program's name, is nnictl's, and returns
// what stands behind that word.
func Meant(line []string) (args []string, meant bool) {
	switch {
	case filepath.Base(line[0]) == "nnictl":
		return line[1:], true
	case len(line) > 1 && line[1] == "nnictl":
		return line[2:], true
	case len(line) > 1 && slices.Contains(only, line[1]):
		return line[1:], true
	}
	return nil, false
}

// Main runs the nnictl command that world.Args are, without that word, and returns its exit
// code.
func Main(ctx context.Context, world command.World) int {
	n := &nnictl{world}
	root := &cobra.Command{
		Use: "nnictl", Short: "NNI's commands, done by starter",
		Long:    "nnictl is starter by the name of NNI's command line, with its commands and options.\nWhat starter has beyond that: starter --help.",
		Version: command.Version + " (starter), with the commands of nnictl 3.0", SilenceUsage: true, SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetArgs(append([]string{}, world.Args...)) // nil would mean os.Args
	root.SetIn(world.In)
	root.SetOut(world.Out)
	root.SetErr(world.Err)
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(n.create(), n.resume(), n.view(), n.stop(), n.update(), n.trial(), n.experiment(), n.platform(), n.webui(),
		n.config(), n.log(), n.top())
	root.AddCommand(gone()...)
	return verdict(world, root.ExecuteContext(ctx))
}

// nnictl does NNI's commands.
type nnictl struct{ command.World }

// ended is a command of starter's that did not succeed and has said why; it is the exit code.
type ended int

func (e ended) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

func verdict(world command.World, err error) int {
	if code, is := err.(ended); is {
		return int(code)
	}
	return world.Verdict(err)
}

// starter runs one of starter's commands, and says which.
func (n *nnictl) starter(ctx context.Context, args ...string) error {
	fmt.Fprintf(n.Err, "this is: starter %s\n", quoted(args))
	return n.quietly(ctx, n.World, args...)
}

// quietly runs one of starter's commands in a world of its own.
func (n *nnictl) quietly(ctx context.Context, world command.World, args ...string) error {
	world.Args = args
	if code := command.Main(ctx, world); code != command.ExitDone {
		return ended(code)
	}
	return nil
}

// say tells something as nnictl does.
func (n *nnictl) say(format string, args ...any) error {
	_, err := fmt.Fprintf(n.Out, "INFO: "+format+"\n", args...)
	return err
}

// named is the id that a command was given, if any.
func named(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

// group is a word that only stands before others.
func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	cmd.AddCommand(commands...)
	return cmd
}
