package command

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/perennial-ml/perennial/door"
)

const tokenHelp = `token makes, lists and revokes access tokens: each lets one program or person into
the API and the dashboard of this state directory's host, for as long as you like, and
with --read-only to look and not to touch. A token is shown once, when it is made: what
is kept is a hash of it. It takes no host, and one that runs knows of it at once.`

func (w World) tokenCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "token", Short: "Make, list and revoke tokens for the API and the dashboard", Long: tokenHelp,
		Example: examples("starter token create --read-only --expires 30d --name grafana", "starter token list", "starter token revoke grafana")}
	cmd.AddCommand(w.tokenCreateCommand(), w.tokenListCommand(), w.tokenRevokeCommand())
	return cmd
}

// tokenView is a token as programs are told of it.
type tokenView struct {
	ID       string  `json:"id"`
	Name     string  `json:"name,omitempty"`
	ReadOnly bool    `json:"readOnly"`
	Created  *string `json:"created"`
	Expires  *string `json:"expires"`
	Expired  bool    `json:"expired"`
	Token    string  `json:"token,omitempty"` // when it was just made
}

func (w World) tokenView(a door.Access) tokenView {
	return tokenView{ID: a.ID, Name: a.Name, ReadOnly: a.ReadOnly, Created: stamp(a.Created), Expires: stamp(a.Expires), Expired: a.Expired(w.Now())}
}

// wantedToken is what a new token shall allow, as flags say it.
type wantedToken struct {
	readOnly      bool
	expires, name string
}

func (w World) tokenCreateCommand() *cobra.Command {
	var as *format
	var want wantedToken
	cmd := &cobra.Command{
		Use: "create", Short: "Make a token and print it, once",
		Long: `create prints the new token, and nothing else, on standard output. Send it as
"Authorization: Bearer TOKEN", or type it in where the dashboard says that it is closed.`,
		Example: examples("starter token create --read-only --expires 30d --name grafana", "starter token create --output json | jq -r .token"),
		Args:    atMost(0),
		RunE:    func(*cobra.Command, []string) error { return w.createToken(*as, want) },
	}
	as = outputFlag(cmd)
	cmd.Flags().BoolVar(&want.readOnly, "read-only", false, "it may look at everything and change nothing")
	cmd.Flags().StringVar(&want.expires, "expires", "", "it holds for a `DURATION` such as 30d; without, until it is revoked")
	cmd.Flags().StringVar(&want.name, "name", "", "what you call it by, to know it again")
	return cmd
}

func (w World) createToken(as format, want wantedToken) error {
	wanted, err := w.access(want)
	if err != nil {
		return err
	}
	if err := w.Engine.Check(); err != nil {
		return badInput("$PERENNIAL_HOME names another state directory", "%w", err)
	}
	token, made, err := door.TokensIn(w.Home).Create(wanted)
	if err != nil {
		return err
	}
	view := w.tokenView(made)
	view.Token = token
	if as != asTable {
		return w.print(as, view, nil)
	}
	fmt.Fprintf(w.Err, "token %s, which %s; it is not shown again, and starter token revoke %s takes it back\n", made.ID, w.allows(made), made.ID)
	_, err = fmt.Fprintln(w.Out, token)
	return err
}

// nameLimit keeps a token's name on a line of the list.
const nameLimit = 60

func (w World) access(want wantedToken) (door.Access, error) {
	wanted := door.Access{Name: want.name, ReadOnly: want.readOnly, Created: w.Now().Truncate(time.Second)}
	if len(want.name) > nameLimit || strings.ContainsFunc(want.name, unprintable) {
		return wanted, badInput("up to 60 letters, digits and the like", "--name %q is no name for a token", want.name)
	}
	taken, err := w.tokensCalled(want.name)
	if err != nil {
		return wanted, err
	}
	if want.name != "" && len(taken) > 0 {
		return wanted, badInput("starter token revoke "+taken[0].ID+" takes it back", "token %s is called %s already", taken[0].ID, want.name)
	}
	if want.expires == "" {
		return wanted, nil
	}
	span, err := spanOf(want.expires)
	if err == nil && span == 0 {
		err = badInput("such as 30d", "--expires 0: such a token would let in nobody")
	}
	wanted.Expires = wanted.Created.Add(span)
	return wanted, err
}

func unprintable(r rune) bool { return r < ' ' || r == 0x7f }

// tokensCalled are those with an id or a name.
func (w World) tokensCalled(name string) ([]door.Access, error) {
	all, err := door.TokensIn(w.Home).List()
	return slices.DeleteFunc(all, func(a door.Access) bool { return a.ID != name && a.Name != name }), err
}

// allows is what a token is good for, in words.
func (w World) allows(a door.Access) string {
	until := "until it is revoked"
	if !a.Expires.IsZero() {
		until = "until " + a.Expires.UTC().Format(time.RFC3339)
	}
	return fmt.Sprintf("may %s %s", map[bool]string{true: "only read,", false: "do everything"}[a.ReadOnly], until)
}

func (w World) tokenListCommand() *cobra.Command {
	var as *format
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the tokens that there are, and what they allow",
		Long:    "list shows what each token allows and until when, and never the token itself.",
		Example: examples("starter token list"), Args: atMost(0),
		RunE: func(*cobra.Command, []string) error {
			all, err := door.TokensIn(w.Home).List()
			if err != nil {
				return err
			}
			list := make([]tokenView, len(all))
			for i, a := range all {
				list[i] = w.tokenView(a)
			}
			return w.print(*as, list, func() [][]string { return w.tokenRows(all) })
		},
	}
	as = outputFlag(cmd)
	return cmd
}

func (w World) tokenRows(all []door.Access) [][]string {
	rows := [][]string{{"TOKEN", "NAME", "MAY", "CREATED", "EXPIRES"}}
	for _, a := range all {
		may := map[bool]string{true: "read", false: "everything"}[a.ReadOnly]
		expires := "never"
		if !a.Expires.IsZero() {
			expires = a.Expires.UTC().Format(time.RFC3339)
		}
		if a.Expired(w.Now()) {
			may = "nothing: expired"
		}
		rows = append(rows, []string{a.ID, cmp.Or(a.Name, "-"), may, w.ago(a.Created), expires})
	}
	return rows
}

func (w World) tokenRevokeCommand() *cobra.Command {
	return &cobra.Command{
		Use: "revoke TOKEN...", Short: "Take tokens back, by their ids or names",
		Long: `revoke has tokens let in nobody from now on: the next call with one is refused, and
pages and streams that it opened close within a second or two.`,
		Example: examples("starter token revoke grafana", "starter token revoke k3v9x2ab"), Args: between(1, 100),
		ValidArgsFunction: w.completeTokens,
		RunE: func(_ *cobra.Command, args []string) error {
			for _, name := range args {
				if err := w.revokeToken(name); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func (w World) revokeToken(name string) error {
	found, err := w.tokensCalled(name)
	if err != nil {
		return err
	}
	if len(found) == 0 { // what was given may be a token itself, which is shown to nobody
		return badInput("starter token list shows their ids and names", "there is no token with that id or name")
	}
	for _, a := range found {
		err = door.TokensIn(w.Home).Revoke(a.ID)
		if err != nil && !errors.Is(err, door.ErrNoToken) {
			return err
		}
		fmt.Fprintf(w.Out, "token %s is revoked\n", a.ID)
	}
	return nil
}

func (w World) completeTokens(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	all, _ := door.TokensIn(w.Home).List() // what cannot be read completes to nothing
	var names []string
	for _, a := range all {
		names = append(names, cmp.Or(a.Name, a.ID))
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
