package command

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

const serveHelp = `serve is the host: the embedded Temporal server with its Web UI, and the workers,
for one state directory. run starts one in the background when there is none, so
nobody needs to call it, except to have it come back after a reboot:

  starter serve --print-unit > ~/.config/systemd/user/perennial.service
  systemctl --user enable --now perennial

It ends by Ctrl-C, TERM or "serve --stop". Trials go on without it; the next host
finds them.

--listen serves the dashboard and the API to other machines too, over TLS, to those who
have an access token of "starter token create". PERENNIAL_LISTEN says the same, also to
hosts in the background; docs/api.md tells more.`

func (w World) serveCommand() *cobra.Command {
	var stop, detach, unit, pid, background bool
	var listen Listening
	cmd := &cobra.Command{
		Use: "serve", Short: "Be the host process, or stop it", Long: serveHelp,
		Example: examples("starter serve", "starter serve --detach", "starter serve --listen :8443", "starter serve --stop"), Args: atMost(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case stop:
				return w.stopHost(cmd.Context())
			case detach:
				return w.startHost(cmd.Context())
			case unit:
				return w.Engine.Unit(w.Out)
			case pid:
				return w.hostPID(cmd.Context())
			}
			listen.Told = w.listens
			return w.serve(cmd.Context(), Serving{Background: background, Ready: w.introduce, Listen: listen})
		},
	}
	cmd.Flags().BoolVar(&stop, "stop", false, "end the host that runs; trials go on")
	cmd.Flags().BoolVarP(&detach, "detach", "d", false, "start a host in the background unless one runs")
	cmd.Flags().BoolVar(&background, "background", false, "be a host that was started in the background")
	cmd.Flags().BoolVar(&unit, "print-unit", false, "print a systemd user unit")
	cmd.Flags().BoolVar(&pid, "pid", false, "print the process id of the host that runs")
	listen.flags(cmd)
	cmd.MarkFlagsMutuallyExclusive("stop", "detach", "print-unit", "pid", "background", "listen")
	if err := cmd.Flags().MarkHidden("background"); err != nil {
		panic(err) // the flag was just defined
	}
	return cmd
}

func (w World) serve(ctx context.Context, how Serving) error {
	if err := w.Engine.Check(); err != nil {
		return badInput("$PERENNIAL_HOME names another state directory", "%w", err)
	}
	if err := w.checkListening(how.Listen); err != nil {
		return err
	}
	how.Listen = w.listening(how.Listen)
	w.hosting.Store(true)
	err := w.Engine.Serve(ctx, how)
	if err != nil && ctx.Err() == nil {
		return unreachable(err)
	}
	return nil
}

func (w World) introduce(host Host) {
	fmt.Fprintf(w.Out, "host %d serves %s\n  Temporal  %s\n  Web UI    %s\n  watch     starter dashboard\n  log       %s\n",
		host.PID, w.Home, host.Address, host.WebUI, host.Log)
}

func (w World) hostPID(ctx context.Context) error {
	host, err := w.Engine.Find(ctx)
	if err != nil {
		return unreachable(err)
	}
	_, err = fmt.Fprintln(w.Out, host.PID)
	return err
}

func (w World) startHost(ctx context.Context) error {
	host, err := w.Engine.Ensure(ctx)
	if err != nil {
		return w.notStarted(ctx, err)
	}
	if host.Machine != "" {
		return badInput("starter worker waits for its place; commands work without a host here", "the worker on %s works on this record", host.Machine)
	}
	w.introduce(host)
	return nil
}

func (w World) stopHost(ctx context.Context) error {
	err := w.Engine.Stop(ctx)
	if errors.Is(err, ErrNoHost) {
		_, err := fmt.Fprintln(w.Out, "no host is running")
		return err
	}
	if err != nil {
		return unreachable(err)
	}
	_, err = fmt.Fprintln(w.Out, "the host has ended; trials go on, and the next host finds them")
	return err
}
