package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/perennial-ml/perennial/dashboard/views"

	"github.com/perennial-ml/perennial/experiment"
	"github.com/perennial-ml/perennial/gpu"
	"github.com/spf13/cobra"
)

const gpusHelp = `gpus shows every GPU of this host, and of the hosts that active experiments run on:
who has it, by the ledger that all users and experiments of a host share, and who
else computes on it. Of a cluster's nodes it shows how many of their GPUs are requested,
and by whom: which of them a pod has a cluster does not say. Below stand the trials that
wait for a GPU, and why.`

func (w World) gpusCommand() *cobra.Command {
	var as *format
	cmd := &cobra.Command{
		Use: "gpus", Short: "Show every GPU, who has it, and which trials wait", Long: gpusHelp,
		Example: examples("starter gpus", "starter gpus --output json | jq '.waiting[].reason.text'"), Args: atMost(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			view, err := w.gpuView(cmd.Context())
			if err != nil {
				return err
			}
			if err := w.print(*as, view, func() [][]string { return gpuRows(view.Hosts) }); err != nil || *as != asTable {
				return err
			}
			return w.printWaiting(view.Waiting)
		},
	}
	as = outputFlag(cmd)
	return cmd
}

func (w World) gpuView(ctx context.Context) (views.GPUs, error) {
	hosts := views.GPUHosts{Of: w.Engine.GPUs, RunsHere: func(platform string) bool { return w.Registry[platform].Traits.RunsHere }}
	store, err := w.OpenRecord()
	if errors.Is(err, errNone) {
		return views.Reader{}.GPUs(ctx, hosts)
	}
	if err != nil {
		return views.GPUs{}, err
	}
	defer store.Close()
	return reader{w, store}.views().GPUs(ctx, hosts)
}

func gpuRows(hosts []gpu.Host) [][]string {
	rows := [][]string{{"HOST", "GPU", "NAME", "MEMORY", "USE", "WHO"}}
	for _, host := range hosts {
		rows = append(rows, hostRows(host)...)
	}
	return rows
}

// printWaiting prints a table of its own, where there is something to tell.
func (w World) printWaiting(waiting []views.GPUWaiting) error {
	if len(waiting) == 0 {
		return nil
	}
	rows := [][]string{{"EXPERIMENT", "TRIAL", "ID", "GPUS", "WHY IT WAITS"}}
	for _, trial := range waiting {
		rows = append(rows, []string{trial.Experiment, fmt.Sprint(trial.Sequence), trial.Trial, fmt.Sprint(trial.GPUs), trial.Reason.Text})
	}
	fmt.Fprintln(w.Out)
	return w.printRows(rows)
}

func hostRows(host gpu.Host) [][]string {
	if host.Fault != "" {
		return [][]string{{host.Name, "-", "-", "-", "-", host.Fault}}
	}
	if len(host.Inventory.GPUs) == 0 {
		return [][]string{{host.Name, "-", "-", "-", "-", "no GPU: " + host.Inventory.None}}
	}
	var rows [][]string
	for _, g := range host.Inventory.GPUs {
		rows = append(rows, []string{host.Name, fmt.Sprint(g.Index), g.Name, memory(g), utilisation(g), who(g, host)})
	}
	return rows
}

// memory is such as "1.2 of 40.0 GiB".
func memory(g gpu.GPU) string {
	if g.Memory == nil {
		return "-"
	}
	total := fmt.Sprintf("%.1f GiB", gibibytes(*g.Memory))
	if g.Used == nil {
		return total
	}
	return fmt.Sprintf("%.1f of %s", gibibytes(*g.Used), total)
}

func gibibytes(bytes uint64) float64 { return float64(bytes) / (1 << 30) }

func utilisation(g gpu.GPU) string {
	if g.Utilisation == nil {
		return "-"
	}
	return fmt.Sprintf("%d %%", *g.Utilisation)
}

// who has a GPU, and who else computes on it.
func who(g gpu.GPU, host gpu.Host) string {
	switch {
	case g.Failed != "":
		return "does not work: " + g.Failed
	case g.Divided:
		return "divided by MIG"
	}
	var words []string
	if g.Requested != "" {
		words = append(words, g.Requested)
	}
	for _, lease := range gpu.On(g.UUID, host.Leases) {
		words = append(words, lease.Holder())
	}
	for _, process := range g.Processes {
		if process.Trial == "" {
			words = append(words, process.String())
		}
	}
	if g.Unknown != "" {
		words = append(words, "its processes cannot be seen: "+g.Unknown)
	}
	if len(words) == 0 {
		return "free"
	}
	return strings.Join(words, "; ")
}

// checkGPUs refuses an experiment that asks for GPUs which no host of it will ever
// have.
func (w World) checkGPUs(ctx context.Context, config experiment.Experiment) error {
	for _, platform := range config.Platforms {
		if platform.GPUs == nil || *platform.GPUs == 0 {
			continue
		}
		hosts, err := w.Engine.GPUs(ctx, "", platform)
		if err == nil {
			err = fitsSomewhere(*platform.GPUs, hosts)
		}
		if err != nil {
			return badInput("starter gpus shows what there is; nothing was started", "trialGpuNumber of platform %s: %w", platform.Name, err)
		}
	}
	return nil
}

// fitsSomewhere is nil where a host could run such a trial, or might, since it
// cannot be asked at present or may be joined by another one.
func fitsSomewhere(count int, hosts []gpu.Host) error {
	var faults []error
	for _, host := range hosts {
		var err error
		if host.Fault == "" && !host.Elastic {
			err = gpu.Request{Count: count, Indices: host.Indices}.Fits(host.Inventory)
		}
		if err == nil {
			return nil
		}
		faults = append(faults, fmt.Errorf("%s: %w", host.Name, err))
	}
	return errors.Join(faults...)
}

// gpuHealth tells what GPUs trials of this machine may be given.
func (w World) gpuHealth(ctx context.Context) []finding {
	hosts, err := w.Engine.GPUs(ctx, "", views.ThisMachine)
	if err != nil {
		return []finding{{"GPUs", worth, err.Error(), ""}}
	}
	var findings []finding
	for _, host := range hosts {
		switch {
		case host.Fault != "":
			findings = append(findings, finding{"GPUs", worth, host.Fault, "trials that ask for GPUs wait until nvidia-smi works"})
		case len(host.Inventory.GPUs) == 0:
			findings = append(findings, finding{"GPUs", fine, "none: " + host.Inventory.None, ""})
		default:
			findings = append(findings, finding{"GPUs", fine, host.Inventory.String() + ", by " + host.Inventory.Source, ""})
		}
	}
	if why := gpu.Shared().Secluded(); why != "" && hasGPUs(hosts) {
		findings = append(findings, finding{"GPU ledger", worth, why, "mount one directory of the host there, in every container that uses GPUs"})
	}
	return findings
}

func hasGPUs(hosts []gpu.Host) bool {
	return slices.ContainsFunc(hosts, func(h gpu.Host) bool { return len(h.Inventory.GPUs) > 0 })
}
