package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/perennial-ml/perennial/experiment/secrets"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/executable"
	"github.com/perennial-ml/perennial/runner/binary"
	"github.com/perennial-ml/perennial/starter/progress"
	"github.com/perennial-ml/perennial/trial"
)

const platformHelp = `platform is for people who write a platform of their own, as an executable in any
language (docs/writing-a-platform.md).`

const platformCheckHelp = `check holds an executable to the rules of its contract: trials of a moment's length
are started with it, twice, at once, after a submit that was killed half-way, with an
answer that was lost; they are cancelled before they start, while they run and after
their end. Of each rule that is broken it prints how, what was sent and what was
answered. No experiment is made and no host started; what the trials left behind is
removed.

Exit codes: 0 all rules are kept; 1 some are broken; 2 nothing could be tried.`

func (w World) platformCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "platform", Short: "Check a platform that you write yourself", Long: platformHelp,
		Example: examples("starter platform check ./my-platform --options options.yml")}
	cmd.AddCommand(w.platformCheckCommand())
	return cmd
}

func (w World) platformCheckCommand() *cobra.Command {
	var as *format
	var options string
	var timeout, patience time.Duration
	cmd := &cobra.Command{
		Use: "check EXECUTABLE", Short: "Hold an executable to the rules of its contract", Long: platformCheckHelp,
		Example: examples("starter platform check ./my-platform", "starter platform check ./slurm.py --options options.yml --patience 10m",
			"starter platform check ./my-platform --output json | jq '.[] | select(.kept | not)'"), Args: between(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if timeout <= 0 || patience <= 0 {
				return badInput("as in 30s, 10m", "--timeout and --patience must be more than nothing")
			}
			section, err := w.executableSection(args[0], options, timeout)
			if err != nil {
				return err
			}
			return w.checkExecutable(cmd.Context(), *as, section, patience)
		},
	}
	cmd.Flags().StringVar(&options, "options", "", "a file, YAML or JSON, with what stands below options in an experiment's trainingService")
	cmd.Flags().DurationVar(&timeout, "timeout", time.Minute, "how long one call may take")
	cmd.Flags().DurationVar(&patience, "patience", 2*time.Minute, "how long a trial may take to start and to end, queues included")
	as = outputFlag(cmd)
	return cmd
}

// executableSection is a section of trainingService as a file would have it, with an
// experiment that nobody has.
func (w World) executableSection(path, options string, timeout time.Duration) (platforms.Section, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return platforms.Section{}, err
	}
	own := any(map[string]any{})
	if options != "" {
		content, err := os.ReadFile(options)
		if err == nil {
			err = yaml.Unmarshal(content, &own)
		}
		if err != nil {
			return platforms.Section{}, badInput("a file with what stands below options", "--options %s: %w", options, err)
		}
		if keys, _ := own.(map[string]any); keys["trainingService"] != nil {
			return platforms.Section{}, badInput("a file with what stands below options there, and nothing else", "--options %s is a whole experiment's file", options)
		}
	}
	written, err := json.Marshal(map[string]any{"executable": path, "options": own, "timeout": timeout.Seconds()})
	if err != nil {
		return platforms.Section{}, badInput("keys must be texts", "--options %s: %w", options, err)
	}
	return platforms.Section{
		Platform: executable.Name, Experiment: trial.NewExperimentID(), Written: written,
		Resolve: func(context.Context) (json.RawMessage, error) {
			return secrets.Resolve(written, secrets.Sources{LookupEnv: w.LookupEnv})
		},
		Environment: func() []string { return w.Env },
	}, nil
}

func (w World) checkExecutable(ctx context.Context, as format, section platforms.Section, patience time.Duration) error {
	state, err := os.MkdirTemp("", "platform-check-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(state)
	runner, err := binary.Install(filepath.Join(state, "runner"))
	if err != nil {
		return err
	}
	fmt.Fprintln(w.Err, "trying it with trials of a moment's length; this may take some minutes")
	tried := 0
	found, err := executable.Examine(ctx, executable.Options{StateDirectory: state, Runner: runner, Environment: w.Env}, section, patience, func(rule executable.Rule, of int) {
		tried++
		fmt.Fprintf(w.Err, "%d of %d tried%s\n", tried, of, told(rule))
	})
	var faults platforms.OptionFaults
	if errors.As(err, &faults) {
		return badInput(faults[0].Hint, "the executable %s", faults[0].Message)
	}
	if err != nil {
		return err
	}
	if err := w.print(as, found, func() [][]string { return progress.Broken(ruleRows(found), w.Width()) }); err != nil {
		return err
	}
	if len(found) == 1 { // it did not come to any other
		fmt.Fprintln(w.Err, "hint: --options FILE has what stands below options in an experiment's trainingService")
	}
	if slices.ContainsFunc(found, func(rule executable.Rule) bool { return !rule.Kept }) {
		return exit(ExitNoSuccess)
	}
	return nil
}

// told is what is said of a rule before all are tried.
func told(rule executable.Rule) string {
	if rule.Kept {
		return ""
	}
	return ", BROKEN: " + rule.Rule
}

func ruleRows(found []executable.Rule) [][]string {
	rows := [][]string{{"", "RULE"}}
	for _, rule := range found {
		if rule.Kept {
			rows = append(rows, []string{"kept", rule.Rule})
			continue
		}
		rows = append(rows, []string{"BROKEN", rule.Rule}, []string{"", "  " + rule.Broken})
		for _, call := range rule.Calls {
			rows = append(rows, []string{"", "  " + call.Verb + " was sent " + beginning(call.Sent)}, []string{"", "    and answered " + beginning(call.Answered+call.Failed)})
		}
	}
	return rows
}

// callShown is how much of a request or an answer a table shows, in bytes: --output json
// has all of it.
const callShown = 400

func beginning(text string) string {
	if len(text) <= callShown {
		return text
	}
	return strings.ToValidUTF8(text[:callShown], "") + "…"
}
