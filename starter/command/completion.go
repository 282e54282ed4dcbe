package command

import (
	"github.com/spf13/cobra"
)

const completionHelp = `completion prints a script that teaches a shell the commands, flags and ids of
experiments.`

func (w World) completionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "completion bash|zsh|fish", Short: "Print a completion script for a shell", Long: completionHelp,
		Example: examples("source <(starter completion bash)", "starter completion zsh > ~/.zfunc/_starter",
			"starter completion fish > ~/.config/fish/completions/starter.fish"),
		Args: between(1, 1), ValidArgs: []cobra.Completion{"bash", "zsh", "fish"},
		RunE: func(cmd *cobra.Command, args []string) error {
			switch args[0] {
			case "bash":
				return cmd.Root().GenBashCompletionV2(w.Out, true)
			case "zsh":
				return cmd.Root().GenZshCompletion(w.Out)
			case "fish":
				return cmd.Root().GenFishCompletion(w.Out, true)
			}
			return badInput("there are bash, zsh and fish", "there is no completion for %q", args[0])
		},
	}
}
