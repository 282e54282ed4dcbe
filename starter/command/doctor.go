package command

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/runner/rundir"
	"github.com/perennial-ml/perennial/starter/progress"
	"github.com/perennial-ml/perennial/trial"
	"github.com/perennial-ml/perennial/workers/codec"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

const doctorHelp = `doctor looks at all that a run needs on this machine, and says of everything that
is not as it should be how to mend it. With an experiment file it also logs in to the
machines that the file names. It starts nothing.

--leftovers lists, instead, what is on the clusters of the file, or of all experiments on
record, and belongs to an experiment that is on no record here, such as one whose state
directory was deleted. It names the home that made each. --remove ends and removes what
this home made.

--rbac prints, instead, the rights that trials of the file need on their cluster, for
whoever runs it to apply: as much as is needed and no more.

Exit codes: 0 experiments can run; 1 something must be mended first.`

// finding is what doctor says about one thing.
type finding struct {
	Name  string `json:"name"`
	State health `json:"state"`
	Text  string `json:"text"`
	Mend  string `json:"mend,omitempty"` // what to do, where something should be done
}

type health string

const (
	fine    health = "ok"
	worth   health = "note" // works, with something worth knowing
	failing health = "fail" // experiments cannot run
)

func (w World) doctorCommand() *cobra.Command {
	var as *format
	var rights, leftovers, remove, sure bool
	cmd := &cobra.Command{
		Use: "doctor [FILE]", Short: "Check this machine and say how to mend it", Long: doctorHelp,
		Example: examples("starter doctor", "starter doctor experiment.yml", "starter doctor experiment.yml --rbac | kubectl apply -f -", "starter doctor --leftovers", "starter doctor --output json | jq '.[] | select(.state == \"fail\")'"), Args: atMost(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case rights:
				return w.printRights(cmd.Context(), args)
			case leftovers:
				return w.leftovers(cmd.Context(), args, *as, remove, sure)
			case remove:
				return badInput("starter doctor --leftovers --remove", "--remove is for --leftovers")
			}
			return w.doctor(cmd.Context(), args, *as)
		},
	}
	as = outputFlag(cmd)
	cmd.Flags().BoolVar(&leftovers, "leftovers", false, "list what clusters have of experiments that are on no record here")
	cmd.Flags().BoolVar(&remove, "remove", false, "with --leftovers: remove what this home made of them")
	cmd.Flags().BoolVarP(&sure, "yes", "y", false, "with --remove: do not ask")
	cmd.Flags().BoolVar(&rights, "rbac", false, "print the rights that the file's trials need on their cluster, as a manifest")
	return cmd
}

func (w World) doctor(ctx context.Context, files []string, as format) error {
	findings := w.examine(ctx)
	for _, file := range files {
		machines, err := w.machines(ctx, file)
		if err != nil {
			return err
		}
		findings = append(findings, machines...)
	}
	if err := w.print(as, findings, func() [][]string { return progress.Broken(findingRows(findings), w.Width()) }); err != nil {
		return err
	}
	for _, found := range findings {
		if found.State == failing {
			return exit(ExitNoSuccess)
		}
	}
	return nil
}

// printRights prints what whoever runs a cluster applies.
func (w World) printRights(ctx context.Context, files []string) error {
	if len(files) == 0 {
		return badInput("starter doctor FILE --rbac", "--rbac needs an experiment file")
	}
	config, err := w.load(files[0])
	if err != nil {
		return err
	}
	var printed []string
	for _, platform := range config.Platforms {
		rights, err := w.Engine.Rights(ctx, platform)
		if err != nil {
			return err
		}
		if rights != "" && !slices.Contains(printed, rights) {
			printed = append(printed, rights)
		}
	}
	if printed == nil {
		return badInput("nothing was printed", "%s names no platform on Kubernetes", files[0])
	}
	_, err = fmt.Fprint(w.Out, strings.Join(printed, "---\n"))
	return err
}

func findingRows(findings []finding) [][]string {
	rows := [][]string{{"", "WHAT", "HOW IT IS"}}
	for _, found := range findings {
		rows = append(rows, []string{string(found.State), found.Name, found.Text})
		if found.Mend != "" {
			rows = append(rows, []string{"", "", "mend: " + found.Mend})
		}
	}
	return rows
}

func (w World) examine(ctx context.Context) []finding {
	findings := []finding{w.stateDirectory(), w.freeSpace(), w.recordHealth(), w.keysHealth(), shell()}
	findings = append(findings, w.platforms(ctx)...)
	findings = append(findings, w.gpuHealth(ctx)...)
	findings = append(findings, w.hostHealth(ctx)...)
	findings = append(findings, w.externalHealth(ctx)...)
	return append(findings, w.python(ctx))
}

func (w World) stateDirectory() finding {
	if err := w.Engine.Check(); err != nil {
		return finding{"state directory", failing, err.Error(), "name another one by $PERENNIAL_HOME, on a local disk that you may write to"}
	}
	return finding{"state directory", fine, w.Home, ""}
}

// Free space below which doctor speaks up, in bytes.
const (
	tightSpace   = 2 << 30
	tooLittleFor = 100 << 20
)

func (w World) freeSpace() finding {
	var disk unix.Statfs_t
	if err := unix.Statfs(w.Home, &disk); err != nil {
		return finding{"free space", worth, err.Error(), ""}
	}
	free := disk.Bavail * uint64(disk.Bsize)
	text := fmt.Sprintf("%.1f GiB", float64(free)/(1<<30))
	switch mend := "make room on the disk of " + w.Home; {
	case free < tooLittleFor:
		return finding{"free space", failing, text, mend}
	case free < tightSpace:
		return finding{"free space", worth, text, mend}
	}
	return finding{"free space", fine, text, ""}
}

func (w World) recordHealth() finding {
	store, err := w.readRecord()
	switch {
	case errors.Is(err, record.ErrNotFound):
		return finding{"record", fine, "none yet", ""}
	case errors.Is(err, record.ErrNewer):
		return finding{"record", failing, err.Error(), "use the newer starter"}
	case errors.Is(err, record.ErrOlder):
		return finding{"record", worth, err.Error(), "starter serve --detach starts one; trials go on meanwhile"}
	case w.Homeless != nil:
		return finding{"record", failing, err.Error(), "set PERENNIAL_RECORD as the host has it"}
	case errors.Is(err, record.ErrUnreachable):
		return finding{"record", failing, err.Error(), "see that PostgreSQL runs and can be reached from here; trials go on meanwhile"}
	case errors.Is(err, record.ErrReadOnly):
		return finding{"record", failing, err.Error(), "make " + w.Home + " writable"}
	case err != nil:
		return finding{"record", failing, err.Error(), "put a backup of " + w.recordName() + " in its place"}
	}
	defer store.Close()
	return finding{"record", fine, w.recordName(), ""}
}

// keysHealth tells whether every key is there that the Temporal database may need.
func (w World) keysHealth() finding {
	files := codec.In(w.Home)
	states, err := files.States()
	switch {
	case err != nil:
		return finding{"keys", failing, err.Error(), ""}
	case len(states) == 0:
		return finding{"keys", fine, "none yet", ""}
	}
	return finding{"keys", fine, fmt.Sprintf("%d in %s, which a backup must hold", len(states), files.Keys), ""}
}

func shell() finding {
	if path := rundir.Shell(); runnable(path) {
		return finding{"shell", fine, path, ""}
	}
	return finding{"shell", failing, rundir.Shell() + " is not there, and trials are shell commands", "install bash"}
}

// platforms asks every platform what is not as it should be.
func (w World) platforms(ctx context.Context) []finding {
	var findings []finding
	reasons := w.Engine.Probe(ctx)
	for _, name := range slices.Sorted(maps.Keys(reasons)) {
		what := "platform " + name
		if len(reasons[name]) == 0 {
			findings = append(findings, finding{what, fine, "ready", ""})
		}
		for _, reason := range reasons[name] {
			findings = append(findings, finding{what, severity(reason), reason.Text, ""})
		}
	}
	return findings
}

// machines tries the machines that an experiment names.
func (w World) machines(ctx context.Context, file string) ([]finding, error) {
	config, err := w.load(file)
	if err != nil {
		return nil, err
	}
	var findings []finding
	for _, platform := range config.Platforms {
		states, err := w.Engine.Try(ctx, platform)
		if err != nil {
			return nil, err
		}
		for _, state := range states {
			findings = append(findings, machineFindings(state)...)
		}
	}
	return findings, nil
}

func machineFindings(state platforms.HostState) []finding {
	what := "machine " + state.Name
	if len(state.Problems)+len(state.Faults) == 0 {
		return []finding{{what, fine, state.Text, ""}}
	}
	var findings []finding
	for _, reason := range state.Problems {
		findings = append(findings, finding{what, severity(reason), reason.Text, ""})
	}
	for _, fault := range state.Faults {
		mend := fault.Hint
		fault.Hint = ""
		findings = append(findings, finding{what, failing, fault.Error(), mend})
	}
	return findings
}

// severity tells what keeps trials from running from what is merely worth knowing.
func severity(reason trial.Reason) health {
	if reason.Code == "disk-low" || reason.Code == "logout-kills" {
		return worth
	}
	return failing
}

func (w World) hostHealth(ctx context.Context) []finding {
	host, err := w.Engine.Find(ctx)
	if errors.Is(err, ErrNoHost) {
		return []finding{{"host", fine, "none is running; run starts one", ""}}
	}
	if err != nil {
		return []finding{{"host", failing, err.Error(), "starter serve --stop, then starter serve --detach"}}
	}
	found := []finding{{"host", fine, fmt.Sprintf("process %d, version %s, log %s", host.PID, host.Version, host.Log), ""}}
	return append(found, w.temporalHealth(ctx, host))
}

func (w World) temporalHealth(ctx context.Context, host Host) finding {
	brief, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	client, err := w.Engine.Connect(brief, host)
	if errors.Is(err, record.ErrOlder) {
		return finding{"Temporal", worth, "not asked: its host is of an older version than the record needs", ""}
	}
	if err != nil {
		return finding{"Temporal", failing, err.Error(), "starter serve --stop, then look into " + host.Log}
	}
	client.Close()
	return finding{"Temporal", fine, host.Address + " answers", ""}
}

// externalHealth is about the Temporal that TEMPORAL_* variables or a profile name.
func (w World) externalHealth(ctx context.Context) []finding {
	at := w.Engine.External()
	if at.Address == "" {
		return nil
	}
	mend, err := w.Engine.Examine(ctx)
	name := "Temporal at " + at.Address
	switch {
	case err != nil:
		return []finding{{name, failing, err.Error(), "check TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE and what lets you in; TEMPORAL_ADDRESS= means the embedded server"}}
	case mend != "":
		return []finding{{name, fine, "answers, namespace " + at.Namespace, ""},
			{"search attributes", worth, "the namespace lacks some; runs go on without", mend}}
	}
	return []finding{{name, fine, "answers, namespace " + at.Namespace, ""}}
}

// python is for information: only trials written in it need it.
func (w World) python(ctx context.Context) finding {
	brief, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	program := "python3"
	for _, folder := range filepath.SplitList(w.Getenv("PATH")) {
		if path := filepath.Join(folder, program); runnable(path) {
			program = path
			break
		}
	}
	// The version is read from the package's metadata: importing nni takes seconds.
	probe := exec.CommandContext(brief, program, "-c", "import sys, importlib.metadata as m\nprint(sys.version.split()[0])\nprint(m.version('nni'))")
	probe.Env = w.Env
	output, err := probe.Output()
	lines := strings.Fields(string(output))
	switch {
	case len(lines) == 2 && err == nil:
		return finding{"Python", fine, lines[0] + " with nni " + lines[1], ""}
	case len(lines) == 1:
		return finding{"Python", worth, lines[0] + " without nni; only trials that import nni need it", "python3 -m venv .venv && .venv/bin/pip install nni"}
	}
	return finding{"Python", worth, "no python3; only trials written in Python need it", "apt install python3 python3-venv"}
}
