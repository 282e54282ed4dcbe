package command

import (
	"context"
	"fmt"

	"github.com/perennial-ml/perennial/record"
	"github.com/spf13/cobra"
)

const recordMoveHelp = `move carries the record of this state directory, all that is known of its experiments,
from one place to another: from the file in the state directory to PostgreSQL, back, or
from one PostgreSQL to another. Every row is compared with what it was before the new
place counts and the old one does not any more. What is interrupted goes on where it
was: give the same command again.

FROM and TO are "file", or a database as in PERENNIAL_RECORD: postgresql://USER@HOST/NAME,
${file:/PATH} or ${env:NAME} of one. A password has no place on a command line.

The host must be stopped; trials go on meanwhile. Experiments keep their ids, and go on
with the next host.`

func (w World) recordCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "record", Short: "Move the record to PostgreSQL, or back",
		Example: examples("starter record move file 'postgresql://ada@db.example.org/experiments'"),
	}
	cmd.AddCommand(&cobra.Command{
		Use: "move FROM TO", Short: "Carry the record to another place", Long: recordMoveHelp,
		Example: examples("starter serve --stop", "starter record move file 'postgresql://ada@db.example.org/experiments'",
			"starter record move file '${file:/home/ada/.config/perennial-record}'", "starter record move '${file:/home/ada/.config/perennial-record}' file"),
		Args: between(2, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return w.moveRecord(cmd.Context(), args[0], args[1])
		},
	})
	return cmd
}

func (w World) moveRecord(ctx context.Context, from, to string) error {
	for _, place := range []string{from, to} {
		if record.InPostgres(place) && record.Secret(place) {
			return badInput("write the address into a file that only you can read, and name it ${file:/PATH}; or set PGPASSWORD",
				"everybody on this machine can read a password on a command line")
		}
	}
	err := w.Engine.MoveRecord(ctx, from, to, func(table string, rows int) {
		fmt.Fprintf(w.Err, "%-14s %d rows, each compared\n", table, rows)
	})
	if err != nil {
		return badInput("nothing is lost; once this is mended, the same command goes on", "%w", err)
	}
	_, err = fmt.Fprintln(w.Out, "the record is moved; starter serve --detach or the next command goes on with it")
	return err
}
