package command

import (
	"context"
	"fmt"
	"os/exec"
	"time"

	"github.com/spf13/cobra"
)

const dashboardHelp = `dashboard opens the pages on which experiments can be watched, in the browser of
this machine, and prints the link to them. It works once, in one browser; that one
may come back later without. Where no host is running it starts one.

The pages are on 127.0.0.1 alone. From another machine:

  ssh -L 8080:127.0.0.1:PORT this-machine

and then the printed link with 8080 as its port.`

func (w World) dashboardCommand() *cobra.Command {
	var stay bool
	cmd := &cobra.Command{
		Use: "dashboard [EXPERIMENT]", Short: "Open the pages that show experiments", Long: dashboardHelp,
		Example: examples("starter dashboard", "starter dashboard k3v9x2ab", "starter dashboard --print"),
		Args:    atMost(1), ValidArgsFunction: w.completeExperiments,
		RunE: func(cmd *cobra.Command, args []string) error { return w.dashboard(cmd.Context(), optional(args), stay) },
	}
	cmd.Flags().BoolVarP(&stay, "print", "p", false, "only print the link")
	return cmd
}

func (w World) dashboard(ctx context.Context, name string, stay bool) error {
	page := "/"
	if name != "" {
		err := w.read(ctx, func(r reader) error {
			e, err := r.experiment(ctx, name)
			page = "/e/" + e.ID
			return err
		})
		if err != nil {
			return err
		}
	}
	host, err := w.Engine.Ensure(ctx)
	if err != nil {
		return w.notStarted(ctx, err)
	}
	if host.Machine != "" {
		return badInput("ask for it there", "the dashboard of this record is on %s, whose worker works on it", host.Machine)
	}
	if host.Dashboard == "" {
		return unreachable(fmt.Errorf("the host of version %s has no dashboard", host.Version))
	}
	if !stay && w.Width() > 0 && w.desktop() {
		w.openBrowser(ctx, w.Engine.DashboardLink(host, page))
	}
	_, err = fmt.Fprintln(w.Out, w.Engine.DashboardLink(host, page))
	return err
}

// desktop tells whether a browser would find a screen.
func (w World) desktop() bool { return w.Getenv("DISPLAY") != "" || w.Getenv("WAYLAND_DISPLAY") != "" }

// openBrowser opens a link where the desktop knows how; the printed one does otherwise.
func (w World) openBrowser(ctx context.Context, link string) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := exec.CommandContext(ctx, "xdg-open", link).Run(); err != nil {
		fmt.Fprintf(w.Err, "no browser could be opened: %v\n", err)
	}
}
