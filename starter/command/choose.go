package command

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
	"github.com/spf13/cobra"
)

// errNone says that nobody has run an experiment yet.
var errNone = errors.New("there is no experiment")

// OpenRecord returns the record for reading. The caller closes it.
func (w World) OpenRecord() (*record.Store, error) {
	store, err := w.readRecord()
	switch {
	case errors.Is(err, record.ErrNotFound):
		return nil, badInput("starter init makes an example, starter run starts it; $PERENNIAL_HOME names another state directory",
			"%w in %s", errNone, w.Home)
	case w.Homeless != nil:
		return nil, badInput("nothing was changed", "%w", err)
	case errors.Is(err, record.ErrUnreachable):
		return nil, unreachable(err)
	case errors.Is(err, record.ErrNewer):
		return nil, badInput("use the newer starter, or another state directory by $PERENNIAL_HOME; nothing was changed", "%w", err)
	case errors.Is(err, record.ErrOlder):
		return nil, badInput("starter serve --detach starts one; trials go on meanwhile", "%w", err)
	case errors.Is(err, record.ErrReadOnly):
		return nil, badInput("starter doctor says what a state directory needs", "%w", err)
	case errors.Is(err, record.ErrDamaged):
		return nil, badInput("trial directories are not affected; nothing was changed", "%w", err)
	}
	return store, err
}

// reader is a command's hold on the record while it chooses and reads.
type reader struct {
	World
	*record.Store
}

// read opens the record, gives it to work and closes it. A host that died is
// started again first: the next command is when what was under way goes on.
func (w World) read(ctx context.Context, work func(reader) error) error {
	w.revive(ctx)
	store, err := w.OpenRecord()
	if err != nil {
		return err
	}
	defer store.Close()
	return work(reader{w, store})
}

// Choose finds the experiment that a name means, as every command does: without one, the
// only active one, else the only one there is.
func (w World) Choose(ctx context.Context, name string) (chosen record.Experiment, err error) {
	err = w.read(ctx, func(r reader) (err error) {
		chosen, err = r.experiment(ctx, name, active)
		return err
	})
	return chosen, err
}

// revive starts a host again that died. That it could not is no reason not to read.
func (w World) revive(ctx context.Context) {
	if _, err := w.Engine.Find(ctx); !errors.Is(err, ErrHostDied) {
		return
	}
	fmt.Fprintln(w.Err, "the host had died; it is started again, and trials go on")
	if _, err := w.Engine.Ensure(ctx); err != nil {
		fmt.Fprintf(w.Err, "the host could not be started: %v\n", err)
	}
}

// preference tells which experiments a command means when none is named.
type preference struct {
	words string
	means func(record.Experiment) bool
}

var (
	active    = preference{"the only active one", func(e record.Experiment) bool { return e.Status.Active() }}
	resumable = preference{"the only stopped or paused one", func(e record.Experiment) bool { return e.Status == record.Stopped || e.Paused }}
	anyone    = preference{"the only one", func(record.Experiment) bool { return true }}
)

// experiment finds the experiment that name means: an id, a name or a prefix of an id
// that only one has, or, if name is empty, the only one that the first fruitful preference
// leaves, else the only one there is. Which one was taken is said on Err where it
// was not named.
func (r reader) experiment(ctx context.Context, name string, preferred ...preference) (record.Experiment, error) {
	all, err := r.Experiments(ctx)
	if err != nil {
		return record.Experiment{}, err
	}
	if name != "" {
		return named(all, name)
	}
	candidates, why := prefer(all, append(preferred, anyone))
	if len(candidates) != 1 {
		return record.Experiment{}, ambiguous(candidates)
	}
	fmt.Fprintf(r.Err, "experiment %s, %s\n", candidates[0].ID, why)
	return candidates[0], nil
}

func named(all []record.Experiment, name string) (record.Experiment, error) {
	id := strings.ToLower(name)
	ways := []struct {
		words string
		fits  func(record.Experiment) bool
	}{
		{"have the id", func(e record.Experiment) bool { return e.ID == id }},
		{"are called", func(e record.Experiment) bool { return e.Name == name }},
		{"begin with", func(e record.Experiment) bool { return strings.HasPrefix(e.ID, id) }},
	}
	for _, way := range ways {
		switch found := filter(all, preference{means: way.fits}); {
		case len(found) == 1:
			return found[0], nil
		case len(found) > 1:
			return record.Experiment{}, badInput("give the id, or more of it", "%d experiments %s %q: %s", len(found), way.words, name, list(found))
		}
	}
	return record.Experiment{}, badInput("starter ls lists them", "there is no experiment %q", name)
}

// prefer returns what the first fruitful preference leaves, and its words.
func prefer(all []record.Experiment, preferred []preference) ([]record.Experiment, string) {
	for _, wanted := range preferred {
		if candidates := filter(all, wanted); len(candidates) > 0 {
			return candidates, wanted.words
		}
	}
	return nil, ""
}

func filter(all []record.Experiment, wanted preference) []record.Experiment {
	var kept []record.Experiment
	for _, e := range all {
		if wanted.means(e) {
			kept = append(kept, e)
		}
	}
	return kept
}

func ambiguous(candidates []record.Experiment) error {
	if len(candidates) == 0 {
		return badInput("starter init makes an example, starter run starts it", "there is no experiment yet")
	}
	return badInput("name one of them; starter ls says more", "there are %d experiments: %s", len(candidates), list(candidates))
}

// list names experiments, the first eight.
func list(some []record.Experiment) string {
	ids := make([]string, 0, len(some))
	for _, e := range some[:min(len(some), 8)] {
		ids = append(ids, e.ID)
	}
	if len(some) > len(ids) {
		ids = append(ids, "…")
	}
	return strings.Join(ids, ", ")
}

// trialOf splits [EXPERIMENT] TRIAL and finds both. The trial is named by its
// number, its id, or a prefix that only one has.
func (r reader) trialOf(ctx context.Context, args []string) (record.Experiment, int, error) {
	name, word := "", args[0]
	if len(args) == 2 {
		name, word = args[0], args[1]
	}
	e, err := r.experiment(ctx, name, active)
	if err != nil {
		return e, 0, err
	}
	sequence, err := sequenceOf(e, word)
	return e, sequence, err
}

func sequenceOf(e record.Experiment, word string) (int, error) {
	hint := fmt.Sprintf("starter trials %s lists them", e.ID)
	if n, err := strconv.Atoi(word); err == nil && n >= 0 && n < e.Asked {
		return n, nil
	}
	if strings.EqualFold(word, e.ID) {
		return 0, badInput(hint, "%s is the experiment: name a trial of it", word)
	}
	var found []int
	for n := range e.Asked {
		if strings.HasPrefix(trial.ID(e.ID, n), strings.ToLower(word)) {
			found = append(found, n)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return 0, badInput("give more of the id", "%d trials of %s begin with %q", len(found), e.ID, word)
	}
	return 0, badInput(hint, "experiment %s has no trial %q", e.ID, word)
}

// optional is the first argument, empty where there is none.
func optional(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

// completeExperiments offers the ids of experiments to the shell.
func (w World) completeExperiments(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	store, err := w.OpenRecord()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer store.Close()
	all, err := store.Experiments(cmd.Context())
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var ids []cobra.Completion
	for _, e := range all {
		ids = append(ids, cobra.CompletionWithDesc(e.ID, string(e.Status)+" "+e.Name))
	}
	return ids, cobra.ShellCompDirectiveNoFileComp
}
