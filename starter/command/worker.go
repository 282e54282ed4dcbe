package command

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

const workerHelp = `worker works for the Temporal that the TEMPORAL_* variables or a profile name: it
is the host of this state directory, without a server of its own. It stays in the
foreground until Ctrl-C, TERM or "serve --stop"; trials go on without it, and the
next one finds them. run starts one in the background where there is none.

Any number of machines may work on one PERENNIAL_RECORD: each experiment has one of the
workers, and another one within seconds of that one's end. docs/outgrow.md tells what it
needs for that.

  TEMPORAL_ADDRESS    host:port of Temporal's frontend
  TEMPORAL_NAMESPACE  the namespace, "default" unless it is set
  TEMPORAL_API_KEY    and TEMPORAL_TLS, TEMPORAL_TLS_CLIENT_CERT_PATH, …
  TEMPORAL_PROFILE    a profile of ~/.config/temporalio/temporal.toml with the same
  TEMPORAL_UI         the address of its Web UI, for links
  PERENNIAL_ENCRYPT   true: payloads are encrypted with the keys of "starter keys"
  PERENNIAL_METRICS   host:port to serve /metrics, /healthz and /readyz at`

func (w World) workerCommand() *cobra.Command {
	var platforms []string
	cmd := &cobra.Command{
		Use: "worker", Short: "Work for a Temporal that others run", Long: workerHelp,
		Example: examples("TEMPORAL_ADDRESS=temporal.example.org:7233 starter worker", "starter worker --platform local,fake"),
		Args:    atMost(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return w.worker(cmd.Context(), platforms)
		},
	}
	cmd.Flags().StringSliceVar(&platforms, "platform", nil, "work for these `platforms` only, instead of all")
	complete(cmd, "platform", w.Build.Platforms...)
	return cmd
}

func (w World) worker(ctx context.Context, platforms []string) error {
	at := w.Engine.External()
	if at.Address == "" {
		return badInput("set TEMPORAL_ADDRESS, or a profile; with the embedded server, starter serve is the worker", "no Temporal is named")
	}
	if _, err := w.Engine.Examine(ctx); err != nil {
		fmt.Fprintf(w.Err, "waiting for Temporal: %v\n", err)
	}
	return w.serve(ctx, Serving{Platforms: platforms, Waiting: w.sayOnce(), Ready: func(host Host) {
		fmt.Fprintf(w.Out, "worker %d works for %s\n  Temporal  %s, namespace %s\n  platforms %s\n  log       %s\n",
			host.PID, w.Home, at.Address, at.Namespace, orAll(platforms), host.Log)
	}})
}

// sayOnce tells of each worker that has what is this one's.
func (w World) sayOnce() func(holder string) {
	told := ""
	return func(holder string) {
		if holder != told {
			fmt.Fprintf(w.Out, "waiting: the worker on %s drives the experiments of this one meanwhile, and hands them back\n", holder)
			told = holder
		}
	}
}

func orAll(platforms []string) string {
	if len(platforms) == 0 {
		return "all"
	}
	return strings.Join(platforms, ", ")
}

// hostless is an Engine that starts no host: somebody else runs the worker.
type hostless struct{ Engine }

// Ensure implements Engine.
func (h hostless) Ensure(ctx context.Context) (Host, error) {
	if machine, err := h.Elsewhere(ctx, ""); err != nil || machine == "" {
		return h.Find(ctx)
	}
	return h.Engine.Ensure(ctx)
}

// workerCheck is how often a command looks for a worker that it waits for.
const workerCheck = time.Second

// withoutWorker has a command start no host, and wait for one until Ctrl-C.
func (w World) withoutWorker(ctx context.Context) (World, error) {
	if w.Engine.External().Address == "" {
		return w, badInput("set TEMPORAL_ADDRESS, or leave the flag out", "--no-worker needs a Temporal that others run, and none is named")
	}
	w.Engine = hostless{w.Engine}
	said := ""
	for {
		reason := w.unpolled(ctx, "", nil)
		if reason.Zero() && ctx.Err() == nil {
			return w, nil
		}
		if reason.Text != said && ctx.Err() == nil {
			fmt.Fprintf(w.Err, "waiting: %s\n", reason.Text)
			said = reason.Text
		}
		select {
		case <-ctx.Done():
			return w, w.notStarted(ctx, ctx.Err())
		case <-time.After(workerCheck):
		}
	}
}
