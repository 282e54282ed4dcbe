package nnictl

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/starter/command"
	"github.com/perennial-ml/perennial/trial"
	"github.com/spf13/cobra"
)

// beginning are the options of commands that begin something.
type beginning struct {
	port                         int
	debug, foreground            bool
	prefix, experimentsDirectory string
}

func (b *beginning) flags(cmd *cobra.Command) {
	cmd.Flags().IntVarP(&b.port, "port", "p", 0, "serve NNI's REST routes and web pages at this `port` of 127.0.0.1")
	cmd.Flags().BoolVarP(&b.debug, "debug", "d", false, "accepted: the host's log is where starter doctor says")
}

// run are the options as starter has them.
func (b *beginning) run() (args []string) {
	args = []string{"--detach"}
	if b.foreground {
		args = []string{"--foreground"}
	}
	if b.port != 0 {
		args = append(args, "--port", strconv.Itoa(b.port))
	}
	return args
}

// refuse says of options that cannot mean anything here what does.
func (b *beginning) refuse() error {
	switch {
	case b.experimentsDirectory != "":
		return fmt.Errorf("--experiment_dir means nothing here: $PERENNIAL_HOME names the state directory, which holds every experiment")
	case b.prefix != "":
		return fmt.Errorf("--url_prefix means nothing here: nothing listens beyond this machine, and the dashboard's address has every experiment below /nni/")
	}
	return nil
}

func (n *nnictl) create() *cobra.Command {
	var file string
	var how beginning
	cmd := &cobra.Command{Use: "create --config FILE", Short: "Start an experiment", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := how.refuse(); err != nil {
				return err
			}
			id := trial.NewExperimentID()
			if err := n.say("Creating experiment, Experiment ID: %s", id); err != nil {
				return err
			}
			return n.starter(cmd.Context(), append([]string{"run", file, "--id", id}, how.run()...)...)
		}}
	how.flags(cmd)
	cmd.Flags().StringVarP(&file, "config", "c", "", "the experiment's YAML `file`")
	cmd.Flags().StringVarP(&how.prefix, "url_prefix", "u", "", "refused: nothing listens beyond this machine")
	cmd.Flags().BoolVarP(&how.foreground, "foreground", "f", false, "follow it, and be the host where none runs")
	required(cmd, "config")
	return cmd
}

func (n *nnictl) resume() *cobra.Command {
	var how beginning
	cmd := &cobra.Command{Use: "resume ID", Short: "Go on with a stopped experiment", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := how.refuse(); err != nil {
				return err
			}
			return n.starter(cmd.Context(), append([]string{"resume", args[0]}, how.run()...)...)
		}}
	how.flags(cmd)
	cmd.Flags().BoolVarP(&how.foreground, "foreground", "f", false, "follow it, and be the host where none runs")
	cmd.Flags().StringVarP(&how.experimentsDirectory, "experiment_dir", "e", "", "refused: $PERENNIAL_HOME names the state directory")
	return cmd
}

func (n *nnictl) view() *cobra.Command {
	var how beginning
	cmd := &cobra.Command{Use: "view ID", Short: "Look at an experiment, and change nothing", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := how.refuse(); err != nil {
				return err
			}
			chosen, err := n.Choose(cmd.Context(), args[0])
			if err == nil && how.port != 0 {
				err = n.OpenNNI(cmd.Context(), command.NNIPort{Experiment: chosen.ID, Port: how.port})
			}
			if err != nil {
				return err
			}
			return n.tellPage(cmd.Context(), chosen.ID)
		}}
	how.flags(cmd)
	cmd.Flags().StringVarP(&how.experimentsDirectory, "experiment_dir", "e", "", "refused: $PERENNIAL_HOME names the state directory")
	return cmd
}

// tellPage prints a link to an experiment's page.
func (n *nnictl) tellPage(ctx context.Context, id string) error {
	var link strings.Builder
	world := n.World
	world.Out = &link
	if err := n.quietly(ctx, world, "dashboard", id, "--print"); err != nil {
		return err
	}
	return n.say("Web UI url: %s", strings.TrimSpace(link.String()))
}

func (n *nnictl) stop() *cobra.Command {
	var port int
	var all bool
	cmd := &cobra.Command{Use: "stop [ID, its beginning, or ID*]", Short: "Stop experiments", Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			chosen, err := n.chosenToStop(cmd.Context(), named(args), port, all)
			for _, id := range chosen {
				if err == nil {
					err = n.stopOne(cmd.Context(), id)
				}
			}
			return err
		}}
	cmd.Flags().IntVarP(&port, "port", "p", 0, "the one that has this `port`")
	cmd.Flags().BoolVarP(&all, "all", "a", false, "all that run")
	return cmd
}

func (n *nnictl) stopOne(ctx context.Context, id string) error {
	if err := n.say("Stopping experiment %s", id); err != nil {
		return err
	}
	world := n.World
	world.Out = io.Discard
	if err := n.quietly(ctx, world, "stop", id); err != nil {
		return err
	}
	return n.say("Stop experiment success.")
}

// chosenToStop are the ids of the running experiments that are meant.
func (n *nnictl) chosenToStop(ctx context.Context, name string, port int, all bool) ([]string, error) {
	prefix, several := strings.CutSuffix(name, "*")
	if !all && port == 0 && !several {
		chosen, err := n.Choose(ctx, name)
		return []string{chosen.ID}, err
	}
	running, err := n.experiments(ctx, func(e record.Experiment) bool {
		return e.Status.Active() && strings.HasPrefix(e.ID, prefix) && (port == 0 || n.portOf(e.ID) == port)
	})
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, e := range running {
		ids = append(ids, e.ID)
	}
	if len(ids) == 0 && !all {
		return nil, fmt.Errorf("no experiment that runs is meant by that: nnictl experiment list lists them")
	}
	return ids, nil
}

// portOf is the port at which NNI's clients find an experiment, 0 where it has none.
func (n *nnictl) portOf(id string) int {
	var port command.NNIPort
	content, err := os.ReadFile(command.NNIPortFile(n.Home, id))
	if err != nil || json.Unmarshal(content, &port) != nil {
		return 0
	}
	return port.Port
}

func (n *nnictl) update() *cobra.Command {
	return group("update", "Change an experiment's limits or search space",
		n.change("searchspace", "filename", "f"), n.change("concurrency", "value", "v"), n.change("duration", "value", "v"), n.change("trialnum", "value", "v"))
}

// change is one of update's commands. Starter knows them by the same names.
func (n *nnictl) change(name, flag, short string) *cobra.Command {
	var value string
	cmd := &cobra.Command{Use: name + " [ID]", Short: "Change the " + name, Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			world := n.World
			world.Out = io.Discard
			if err := n.quietly(cmd.Context(), world, append([]string{"update", name, "--" + flag, value}, args...)...); err != nil {
				return err
			}
			return n.say("Update %s success!", name)
		}}
	cmd.Flags().StringVarP(&value, flag, short, "", "what it shall be")
	required(cmd, flag)
	return cmd
}

func (n *nnictl) delete() *cobra.Command {
	var all bool
	cmd := &cobra.Command{Use: "delete ID", Short: "Delete an experiment that is over", Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if all {
				over, err := n.experiments(cmd.Context(), func(e record.Experiment) bool { return !e.Status.Active() })
				if err != nil {
					return err
				}
				args = nil
				for _, e := range over {
					args = append(args, e.ID)
				}
			}
			if len(args) == 0 {
				return fmt.Errorf("name an experiment, or --all for all that are over")
			}
			agreed, err := n.agreed(strings.Join(args, " "))
			if !agreed || err != nil {
				return err
			}
			return n.starter(cmd.Context(), append([]string{"rm", "--yes"}, args...)...)
		}}
	cmd.Flags().BoolVar(&all, "all", false, "all that are over")
	return cmd
}

// agreed asks whether experiments shall be deleted, on a terminal or not, as NNI does.
func (n *nnictl) agreed(what string) (bool, error) {
	if err := n.say("This action will delete experiment %s, and it's not recoverable.\nINFO: do you want to continue?[y/N]:", what); err != nil {
		return false, err
	}
	answer, _ := bufio.NewReader(n.In).ReadString('\n') // an end without an answer is a no
	word := strings.ToLower(strings.TrimSpace(answer))
	return word == "y" || word == "yes", nil
}

func (n *nnictl) platform() *cobra.Command {
	var file string
	clean := &cobra.Command{Use: "clean --config FILE", Short: "Remove what clusters keep of experiments that are on no record", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return n.starter(cmd.Context(), "doctor", file, "--leftovers", "--remove")
		}}
	clean.Flags().StringVarP(&file, "config", "c", "", "the experiment's YAML `file`")
	required(clean, "config")
	return group("platform", "Clean up platforms", clean)
}

func required(cmd *cobra.Command, flag string) {
	if err := cmd.MarkFlagRequired(flag); err != nil {
		panic(err) // the flag was just defined
	}
}

// quoted are words as a shell would need them.
func quoted(words []string) string {
	var list []string
	for _, word := range words {
		if strings.ContainsAny(word, " \t'\"$*&;|<>()") {
			word = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
		list = append(list, word)
	}
	return strings.Join(list, " ")
}
