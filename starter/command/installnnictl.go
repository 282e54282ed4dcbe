package command

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
)

const installNnictlHelp = `install-nnictl makes a link called nnictl to this program, in the directory where it is
or in DIRECTORY: by that name it understands NNI's commands and options, and prints
what NNI printed. Scripts that call nnictl then need no change. What exists is left
alone unless it is such a link.

Without the link "starter nnictl COMMAND" does the same; "starter nnictl --help" lists
the commands, of which those that are gone say what to do instead.`

func (w World) installNnictlCommand() *cobra.Command {
	return &cobra.Command{
		Use: "install-nnictl [DIRECTORY]", Short: "Make this program answer to NNI's command line", Long: installNnictlHelp,
		Example: examples("starter install-nnictl", "starter install-nnictl ~/.local/bin", "starter nnictl --help"),
		Args:    atMost(1),
		RunE: func(_ *cobra.Command, args []string) error {
			program, err := os.Executable()
			if err != nil {
				return err
			}
			link := filepath.Join(filepath.Dir(program), "nnictl")
			if len(args) > 0 {
				link = filepath.Join(args[0], "nnictl")
			}
			return w.installNnictl(program, link)
		},
	}
}

func (w World) installNnictl(program, link string) error {
	if target, err := os.Readlink(link); err != nil || target != program {
		if err := os.Symlink(program, link); errors.Is(err, os.ErrExist) {
			return badInput("name another directory that is earlier in PATH, or remove it", "%s exists, and is no link to this program", link)
		} else if err != nil {
			return badInput("name a directory in PATH that you may write to", "%w", err)
		}
	}
	_, err := fmt.Fprintf(w.Out, "%s is this program, with NNI's commands\n", link)
	return err
}
