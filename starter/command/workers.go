package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/starter/progress"
	"github.com/perennial-ml/perennial/trial"
	"github.com/spf13/cobra"
)

const workersHelp = `workers shows who works on the record: on which machine, since when, of which version,
for which platforms, with how many runs and experiments, and when it was last heard of. Of
one that does not work, or could not go on with what another one drives, it says why.

A record in the state directory has one host at most. With one in PostgreSQL
(PERENNIAL_RECORD) every machine's "starter worker" is told of, for a day after its last
word; an asterisk marks the one of this state directory.`

// Workers are the processes that work on a record, or wait to.
type Workers struct {
	All []record.Worker // as record.Store.Workers returns them
	// Polled is when each of them, by its identity, last asked Temporal for work, where
	// that is one of others, and Temporal why it cannot be asked.
	Polled   map[string]time.Time
	Temporal error
	Home     string // the id of this state directory
}

// workerView is a worker as scripts see it.
type workerView struct {
	Machine     string         `json:"machine"`
	Process     int            `json:"process"`
	StateID     string         `json:"stateId"`
	Here        bool           `json:"here"` // of this state directory
	State       string         `json:"state"`
	Reason      *trial.Reason  `json:"reason"`
	Platforms   []string       `json:"platforms"`   // it works for; empty means all
	Runs        map[string]int `json:"runs"`        // under way, by platform
	Experiments int            `json:"experiments"` // unfinished ones that it drives
	Version     string         `json:"version"`
	Since       *string        `json:"since"`
	Heard       *string        `json:"heard"`
	Polled      *string        `json:"polled"`

	since, heard time.Time
}

// The states of a worker.
const (
	workerWorks  = "WORKS"
	workerWaits  = "WAITS"
	workerSilent = "SILENT"
)

func (w World) workersCommand() *cobra.Command {
	var as *format
	cmd := &cobra.Command{
		Use: "workers", Short: "Show who works on the record", Long: workersHelp,
		Example: examples("starter workers", "starter workers --output json | jq -r '.[] | select(.reason) | .machine + \": \" + .reason.text'"),
		Args:    atMost(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			views, err := w.workerViews(cmd.Context())
			if err != nil {
				return err
			}
			return w.print(*as, views, func() [][]string { return w.workerRows(views) })
		},
	}
	as = outputFlag(cmd)
	return cmd
}

func (w World) workerViews(ctx context.Context) ([]workerView, error) {
	loads, err := w.workload(ctx)
	if err != nil {
		return nil, err
	}
	found, err := w.Engine.Workers(ctx)
	if err != nil {
		return nil, unreachable(err)
	}
	views := make([]workerView, 0, len(found.All))
	for _, worker := range found.All {
		view := found.view(worker)
		view.Here = worker.Directory == found.Home
		if view.State == workerWorks {
			view.drives(worker.Shares, loads)
		}
		views = append(views, view)
	}
	return views, nil
}

// workload is what there is to do in each share of the record.
func (w World) workload(ctx context.Context) (loads map[string]record.Load, err error) {
	err = w.read(ctx, func(r reader) error {
		loads, err = r.Loads(ctx)
		return err
	})
	if errors.Is(err, errNone) {
		err = nil
	}
	return loads, err
}

// drives adds what a worker has to do. One that has the whole record names no share.
func (v *workerView) drives(shares []string, loads map[string]record.Load) {
	for share, load := range loads {
		if len(shares) > 0 && !slices.Contains(shares, share) {
			continue
		}
		v.Experiments += load.Experiments
		for platform, count := range load.Runs {
			v.Runs[platform] += count
		}
	}
}

func (found Workers) view(worker record.Worker) workerView {
	view := workerView{
		Machine: worker.Machine, Process: worker.Process, StateID: worker.Directory, State: workerWorks,
		Platforms: worker.Platforms, Runs: map[string]int{}, Version: worker.Version,
		Since: stamp(worker.Since), Heard: stamp(worker.Heard), Polled: stamp(found.Polled[worker.Identity]),
		since: worker.Since, heard: worker.Heard,
	}
	if view.Platforms == nil {
		view.Platforms = []string{}
	}
	var reason trial.Reason
	view.State, reason = found.standing(worker)
	if !reason.Zero() {
		view.Reason = &reason
	}
	return view
}

// standing is a worker's state, and why it does not work, or not as it should.
func (found Workers) standing(worker record.Worker) (state string, reason trial.Reason) {
	polled := !found.Polled[worker.Identity].IsZero()
	switch {
	case worker.Silent && polled:
		return workerSilent, trial.Reason{Code: "silent", Text: "it has told the record nothing for a while: it was killed a moment ago, or does not reach the record"}
	case worker.Silent:
		return workerSilent, trial.Reason{Code: "silent", Text: "it has told the record nothing for a while: it was killed, or its machine is gone or cut off"}
	case worker.Waits:
		return workerWaits, trial.Reason{Code: "handing-back", Text: "another worker drives its experiments since it was gone, and is handing them back"}
	case found.Temporal != nil:
		return workerWorks, trial.Reason{Code: "temporal-unreachable", Text: found.Temporal.Error()}
	case found.Polled != nil && !polled:
		return workerWorks, trial.Reason{Code: "no-poll", Text: "it asks Temporal for no work as yet: it is starting, or cannot reach Temporal; its log says why"}
	}
	return workerWorks, found.closedTo(worker)
}

// closedTo is what a worker could not take over.
func (found Workers) closedTo(worker record.Worker) trial.Reason {
	for _, other := range found.All {
		if len(other.Keys) == 0 || len(other.Shares) == 0 {
			continue
		}
		if key := other.Keys[len(other.Keys)-1]; !slices.Contains(worker.Keys, key) {
			return trial.Reason{Code: "key-missing", Text: fmt.Sprintf("it could not take over from process %d on %s: "+
				"copy the key %s from keys/ of that one's state directory into its own", other.Process, other.Machine, key)}
		}
	}
	return trial.Reason{}
}

func (w World) workerRows(views []workerView) [][]string {
	rows := [][]string{{"MACHINE", "PROCESS", "STATE", "PLATFORMS", "RUNS", "EXPERIMENTS", "VERSION", "SINCE", "LAST WORD", "WHY"}}
	for _, v := range views {
		machine, why := v.Machine, "-"
		if v.Here {
			machine += " *"
		}
		if v.Reason != nil {
			why = v.Reason.Text
		}
		rows = append(rows, []string{machine, fmt.Sprint(v.Process), v.State, orAll(v.Platforms), runsOf(v.Runs),
			fmt.Sprint(v.Experiments), cmp.Or(v.Version, "-"), progress.Span(w.Now().Sub(v.since)) + " ago", w.ago(v.heard), why})
	}
	return rows
}

// runsOf is such as "12 local, 3 remote".
func runsOf(runs map[string]int) string {
	var words []string
	for _, platform := range slices.Sorted(maps.Keys(runs)) {
		words = append(words, fmt.Sprintf("%d %s", runs[platform], platform))
	}
	return cmp.Or(strings.Join(words, ", "), "0")
}
