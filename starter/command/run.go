package command

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/perennial-ml/perennial/experiment"
	"github.com/perennial-ml/perennial/experiment/secrets"
	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/runner/rundir"
	"github.com/perennial-ml/perennial/starter/progress"
	"github.com/perennial-ml/perennial/trial"
	"github.com/spf13/cobra"
)

const runHelp = `run checks all it can before anything starts, makes sure that a host process is
there, starts the experiment and follows it. Ctrl-C detaches; the experiment goes
on, and goes on after a crash of anything as well.

FILE may be -, for standard input; its relative paths then begin at the working
directory.

--from starts an experiment on record once more, as it was accepted, with the code
that is in its directory now; --set changes it.

Exit codes: 0 done; 1 done, but no trial succeeded; 2 bad input, nothing was
started; 3 stopped; 4 the engine cannot be reached; 5 the tuner fails, and nothing
goes on before it is mended; 130 detached by Ctrl-C.`

// following is how run and resume are asked to go on.
type following struct {
	detach     bool
	foreground bool
	noWorker   bool
	output     stream
	nni        NNIPort
}

func (w World) runCommand() *cobra.Command {
	var how following
	var id, from string
	var changes []string
	cmd := &cobra.Command{
		Use: "run FILE", Short: "Check an experiment, start it and follow it", Long: runHelp,
		Example: examples("starter run experiment.yml", "starter run experiment.yml --detach",
			"starter run experiment.yml --output json | jq .event", "sed s/0.1/0.2/ experiment.yml | starter run -",
			"starter run --from k3v9x2ab --set trialConcurrency=8 --set tuner.name=TPE"),
		Args: atMost(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			w := w
			if (from == "") == (len(args) == 0) || from == "" && len(changes) > 0 {
				return badInput("usage: "+cmd.UseLine()+", or starter run --from EXPERIMENT --set KEY=VALUE", "run takes either a FILE, or --from with changes by --set")
			}
			if from != "" {
				w.given, err = w.again(cmd.Context(), from, changes)
			}
			if err != nil {
				return err
			}
			return w.run(cmd.Context(), optional(args), id, how)
		},
	}
	how.flags(cmd)
	cmd.Flags().StringVar(&from, "from", "", "start this `EXPERIMENT` on record once more, instead of a FILE")
	cmd.Flags().StringArrayVar(&changes, "set", nil, "change what --from starts, by `KEY=VALUE` such as tuner.name=TPE; may be given several times")
	cmd.Flags().StringVar(&id, "id", "", "the experiment's id, eight lower-case letters and digits; run it again, and there is still one")
	return cmd
}

func (h *following) flags(cmd *cobra.Command) {
	h.output = stream{asTable}
	cmd.Flags().BoolVarP(&h.detach, "detach", "d", false, "return as soon as the experiment is accepted")
	cmd.Flags().BoolVar(&h.foreground, "foreground", false, "be the host, in this process, until the end or Ctrl-C")
	cmd.Flags().BoolVar(&h.noWorker, "no-worker", false, "only submit and follow; the worker is started by others (TEMPORAL_ADDRESS)")
	cmd.Flags().VarP(&h.output, "output", "o", "table: for people; json: one event a line, for scripts")
	h.nni.flags(cmd)
	cmd.MarkFlagsMutuallyExclusive("detach", "foreground")
	cmd.MarkFlagsMutuallyExclusive("no-worker", "foreground")
	complete(cmd, "output", "table", "json")
}

func (w World) run(ctx context.Context, file, id string, how following) error {
	how.noWorker = how.noWorker || w.worksElsewhere(ctx, "", how)
	w.Build.TryAlgorithms = nil // they are about to be started
	if err := errors.Join(w.checkID(ctx, id), w.checkPort(ctx, how.nni)); err != nil {
		return err
	}
	config, err := w.loadFor(ctx, file, how)
	if err != nil {
		return err
	}
	if err := w.Engine.Check(); err != nil {
		return badInput("starter doctor says what a state directory needs; $PERENNIAL_HOME names another one", "%w", err)
	}
	if err := w.checkRecord(ctx); err != nil {
		return err
	}
	if !how.noWorker { // else the hosts are those of whoever started the worker
		if err := w.checkGPUs(ctx, config); err != nil {
			return err
		}
	}
	id = cmp.Or(id, trial.NewExperimentID())
	draft, err := w.draft(id, &config)
	if err != nil {
		return err
	}
	start := progress.Start{ID: id, Name: config.Name}
	return w.submit(ctx, how, start, func(host Host) (trial.Command, error) {
		if host.Machine != "" {
			if err := w.handOver(ctx, host, id, &config); err != nil {
				return trial.Command{}, badInput("", "hand the experiment over to the worker on %s: %w", host.Machine, err)
			}
		}
		return accept(id, config), nil
	}, draft.settle)
}

// worksElsewhere tells whether a worker on another machine will run what is submitted
// here, and says so.
func (w World) worksElsewhere(ctx context.Context, experiment string, how following) bool {
	if how.foreground || how.noWorker {
		return false
	}
	machine, err := w.Engine.Elsewhere(ctx, experiment)
	if err != nil || machine == "" {
		return false // why it cannot be told, is told by what comes next
	}
	fmt.Fprintf(w.Err, "the worker on %s runs it\n", machine)
	return true
}

// checkID refuses an id that no experiment can have, or that one has. Whoever says the same
// twice at once gets one experiment: its id is that of the command that makes it.
func (w World) checkID(ctx context.Context, id string) error {
	if id == "" {
		return nil
	}
	if !trial.IsExperimentID(id) {
		return badInput("--id k3v9x2ab", "an experiment's id is eight lower-case letters and digits, not %q", id)
	}
	store, err := w.readRecord()
	if err != nil {
		return nil // run finds out what is wrong, if anything is
	}
	defer store.Close()
	e, err := store.Experiment(ctx, id)
	if err == nil {
		return badInput("starter resume "+id+" goes on with it, starter show "+id+" tells how it stands", "experiment %s is on record already (%s)", id, e.Status)
	}
	return nil
}

// loadFor tries services only where this machine's host is who will call them.
func (w World) loadFor(ctx context.Context, file string, how following) (experiment.Experiment, error) {
	if how.noWorker {
		return w.load(file)
	}
	return w.loadTried(ctx, file)
}

// draft keeps what an experiment needs that shall not be on record: the environment of
// its trials, and secrets, which are taken out of the configuration.
func (w World) draft(id string, config *experiment.Experiment) (*draft, error) {
	made, err := newDraft(filepath.Dir(EnvironmentFile(w.Home, id)))
	if err != nil {
		return nil, badInput("$PERENNIAL_HOME names another state directory", "make the experiment's directory: %w", err)
	}
	if err = w.keepEnvironment(id); err == nil {
		err = secrets.Externalize(config, SecretsFile(w.Home, id))
	}
	if err != nil {
		made.settle(errUnasked)
		return nil, badInput("free some space, or name another state directory by $PERENNIAL_HOME", "%w", err)
	}
	return made, nil
}

// checkRecord refuses a record that no host of this version could open, and sweeps
// where it can be read.
func (w World) checkRecord(ctx context.Context) error {
	store, err := w.OpenRecord()
	if err == nil {
		w.sweepDrafts(ctx, store)
		return store.Close()
	}
	if errors.Is(err, record.ErrNewer) || errors.Is(err, record.ErrDamaged) {
		return err
	}
	return nil
}

// accept is the command that makes an experiment. Its id follows from the
// experiment's, so that repeating it makes no second one.
func accept(id string, config experiment.Experiment) trial.Command {
	value, err := json.Marshal(config)
	if err != nil {
		panic(err) // plain data, read from a file a moment ago
	}
	return trial.Command{ID: "accept-" + id, Name: trial.Accept, Value: value}
}

// keepEnvironment writes down the caller's environment, which the trials of a
// host started elsewhere and earlier shall have.
func (w World) keepEnvironment(id string) error {
	captured, err := rundir.CaptureEnvironment()
	if err != nil {
		return err
	}
	if err := rundir.WriteEnvironment(EnvironmentFile(w.Home, id), captured); err != nil {
		return fmt.Errorf("keep the environment: %w", err)
	}
	return nil
}

// submit brings up the host, sends it the command that is made for it, and follows the
// experiment. settle is told what became of the command.
func (w World) submit(ctx context.Context, how following, start progress.Start, made func(Host) (trial.Command, error), settle func(error)) error {
	if how.noWorker {
		var err error
		if w, err = w.withoutWorker(ctx); err != nil {
			settle(errUnasked)
			return err
		}
	}
	host, hosted, leave, err := w.host(ctx, how)
	if err != nil {
		settle(errUnasked)
		return w.notStarted(ctx, err)
	}
	defer leave()
	command, err := made(host)
	if err != nil {
		settle(errUnasked)
		return err
	}
	err = w.send(ctx, start.ID, command)
	if settle(err); err != nil {
		return err
	}
	start.Dashboard, start.WebUI, start.Leaving = w.look(host, start.ID), w.page(host, start.ID), how.detach
	how.nni.Experiment = start.ID
	w.openNNI(ctx, host, how.nni)
	display := w.display(how.output.format)
	display.Begin(start)
	if how.detach {
		return nil
	}
	f := &follower{World: w, id: start.ID, display: display, hosted: hosted, fresh: !start.Resumed}
	return f.follow(ctx)
}

// notStarted tells a Ctrl-C while the host comes up from an engine that fails.
func (w World) notStarted(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		fmt.Fprintln(w.Err, "interrupted while the host was starting; nothing was asked of it")
		return exit(ExitDetached)
	}
	return unreachable(err)
}

// host returns the host to work with. leave ends it where it lives in this
// process, and hosted then tells of an end that nobody asked for.
func (w World) host(ctx context.Context, how following) (host Host, hosted <-chan error, leave func(), err error) {
	nothing := func() {}
	if !how.foreground {
		host, err = w.Engine.Ensure(ctx)
		return host, nil, nothing, err
	}
	if host, err := w.Engine.Find(ctx); !errors.Is(err, ErrNoHost) {
		fmt.Fprintf(w.Err, "a host is running already (pid %d); following it\n", host.PID)
		return host, nil, nothing, err
	}
	return w.serveHere(ctx)
}

func (w World) serveHere(ctx context.Context) (Host, <-chan error, func(), error) {
	w.hosting.Store(true)
	// Ctrl-C ends the following first and the host after it, in leave.
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	ready, ended, gone := make(chan Host, 1), make(chan error, 1), make(chan struct{})
	go func() {
		defer close(gone)
		ended <- w.Engine.Serve(serving, Serving{Listen: w.listening(Listening{}), Ready: func(host Host) { ready <- host }})
	}()
	leave := func() { stop(); <-gone }
	select {
	case host := <-ready:
		return host, ended, leave, nil
	case err := <-ended:
		leave()
		return Host{}, nil, nil, err
	case <-ctx.Done():
		leave()
		return Host{}, nil, nil, ctx.Err()
	}
}

// look is a link to an experiment on the dashboard, empty without one.
func (w World) look(host Host, id string) string {
	if host.Dashboard == "" {
		return ""
	}
	return w.Engine.DashboardLink(host, "/e/"+id)
}

// page is a link to an experiment in the Web UI, empty without one.
func (w World) page(host Host, id string) string {
	if host.WebUI == "" {
		return ""
	}
	return WorkflowPage(w.Engine, host, id)
}

// WorkflowPage is a link to an experiment in the Web UI that a host has.
func WorkflowPage(engine Engine, host Host, id string) string {
	return engine.Link(host, "/namespaces/"+host.Namespace+"/workflows/"+workflowID(id))
}
