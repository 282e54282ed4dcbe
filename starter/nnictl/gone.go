package nnictl

import (
	"fmt"

	"github.com/spf13/cobra"
)

// absent are the commands that starter has otherwise, or not at all, and what to do instead.
var absent = []struct{ group, name, instead string }{
	{"trial", "export", "starter export writes results; architecture search is not in this build"},
	{"trial", "codegen", "annotations were removed by NNI 3.0: name the search space in the experiment's file"},
	{"experiment", "import", "results of other experiments cannot be given to a tuner in this build"},
	{"experiment", "save", "back up the state directory, which holds every experiment (docs/operations.md#backup); starter export --format html is one experiment to be looked at"},
	{"experiment", "load", "restore the state directory from a backup (docs/operations.md#backup)"},
	{"webui", "nas", "architecture search is not in this build"},
	{"algo", "register", "no need to: name the class in the experiment's file, by className and codeDirectory (docs/tuner-own.md); what NNI in your Python was told of works by its name"},
	{"algo", "unregister", "nothing is registered: a class is named in the experiment's file (docs/tuner-own.md)"},
	{"algo", "show", "starter tuner NAME tells about one that is built in"},
	{"algo", "list", "starter tuner lists what is built in"},
	{"trainingservice", "register", "a platform of your own is an executable that the experiment's file names (docs/writing-a-platform.md)"},
	{"trainingservice", "unregister", "nothing is registered (docs/writing-a-platform.md)"},
	{"trainingservice", "list", "starter doctor lists the platforms"},
	{"jupyter-extension", "install", "starter dashboard opens the pages in any browser; docs/python.md tells of notebooks"},
	{"jupyter-extension", "uninstall", "there is none to uninstall"},
	{"", "package", "nnictl algo tells what took its place"},
	{"", "ss_gen", "annotations were removed by NNI 3.0: name the search space in the experiment's file"},
	{"", "hello", "starter init writes an example that runs"},
	{"", "tensorboard", "tensorboard --logdir takes the trials' directories, which starter show EXPERIMENT TRIAL prints"},
}

// gone are the absent commands that belong to no group of nnictl's which has others.
func gone() []*cobra.Command {
	list := absentOf("")
	for _, name := range []string{"algo", "trainingservice", "jupyter-extension"} {
		list = append(list, group(name, "Not here: each says what to do instead", absentOf(name)...))
	}
	return list
}

// absentOf are the absent commands of a group.
func absentOf(group string) (list []*cobra.Command) {
	for _, a := range absent {
		if a.group != group {
			continue
		}
		list = append(list, &cobra.Command{Use: a.name, Short: "Not here: " + a.instead, DisableFlagParsing: true, Hidden: true,
			RunE: func(cmd *cobra.Command, _ []string) error {
				return fmt.Errorf("%s is not here: %s", cmd.CommandPath(), a.instead)
			}})
	}
	return list
}
