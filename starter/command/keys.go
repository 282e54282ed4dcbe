package command

import (
	"fmt"

	"github.com/perennial-ml/perennial/workers/codec"
	"github.com/spf13/cobra"
)

const keysHelp = `keys lists the keys that encrypt what the embedded Temporal server keeps; --rotate
makes a new one. From then on the new key encrypts, at once and without a restart;
the others are still needed to decrypt what they encrypted.

The keys are the files in keys/ of the state directory. Back them up with it: a
host that misses one does not start, and says how to go on.`

func (w World) keysCommand() *cobra.Command {
	var as *format
	var rotate bool
	cmd := &cobra.Command{
		Use: "keys", Short: "List the keys of the embedded Temporal, or make a new one", Long: keysHelp,
		Example: examples("starter keys", "starter keys --rotate"), Args: atMost(0),
		RunE: func(*cobra.Command, []string) error {
			if rotate {
				return w.rotate()
			}
			states, err := codec.In(w.Home).States()
			if err != nil {
				return err
			}
			return w.print(*as, states, func() [][]string { return w.keyRows(states) })
		},
	}
	as = outputFlag(cmd)
	cmd.Flags().BoolVar(&rotate, "rotate", false, "make a new key, which encrypts from now on")
	return cmd
}

func (w World) keyRows(states []codec.State) [][]string {
	rows := [][]string{{"KEY", "USE"}}
	for _, key := range states {
		use := "not needed by the Temporal database that is there"
		switch {
		case key.Encrypts:
			use = "encrypts"
		case key.Needed:
			use = "decrypts what is older"
		}
		rows = append(rows, []string{key.ID, use})
	}
	return rows
}

func (w World) rotate() error {
	if err := w.Engine.Check(); err != nil {
		return badInput("$PERENNIAL_HOME names another state directory", "%w", err)
	}
	files := codec.In(w.Home)
	if _, err := codec.Open(files); err != nil { // a state directory that is new gets its first key
		return err
	}
	id, err := codec.Rotate(files)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w.Out, "key %s encrypts from now on; back up %s\n", id, files.Keys)
	return err
}
