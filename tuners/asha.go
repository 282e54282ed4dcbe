package tuners

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strconv"

	"github.com/perennial-ml/perennial/arguments"
	"github.com/perennial-ml/perennial/searchspace"
	"github.com/perennial-ml/perennial/trial"
)

// ASHA is asynchronous successive halving (Li et al., "A System for Massively
// Parallel Hyperparameter Tuning", MLSys 2020, algorithm 2). Trials carry their
// budget under TRIAL_BUDGET: min_budget * eta^(early_stopping_rate + k) in rung k, as
// far as max_budget allows. Asked for a trial, it looks from the highest rung down
// for a configuration among the best 1/eta of those that ended in its rung, and asks
// for it again in the next rung, as a new trial; if there is none, it draws a new
// configuration. So nobody ever waits for a rung. A trial that failed or was
// cancelled counts as ended in its rung and is never among the best.
//
// No set is drawn twice. Once all were drawn it waits for promotions, and is
// exhausted when none can come. A new search space begins with empty rungs.
//
// With checkpoints, parameters also carry where to find and where to leave one:
// <directory>/<configuration>/<rung>. In rung 0 both are the same place.
type ASHA struct {
	seed        uint64
	minimize    bool
	eta         int
	budgets     []int // of the rungs
	checkpoints string
	unasked     *unasked
	rungs       []standing
	spaces      int // how many search spaces there were before this one
	next        int // the number of the next configuration
	running     map[int]*entrant
}

// entrant is a configuration in one rung.
type entrant struct {
	configuration int
	rung          int
	parameters    trial.Parameters // as the space has them
	result        *float64         // while it runs, its latest intermediate
	place         position
}

// position orders what ended in a rung: by loss, then by who came first.
type position struct {
	loss  float64
	order int
}

func (p position) compare(other position) int {
	return cmp.Or(cmp.Compare(p.loss, other.loss), cmp.Compare(p.order, other.order))
}

// standing is what ended in a rung, the best first.
type standing struct {
	ended    int        // failures too
	waiting  []*entrant // not promoted
	promoted []position
}

// NewASHA builds ASHA. Its arguments are optimize_mode (maximize by default),
// min_budget (1), max_budget (60), eta (3), early_stopping_rate (0: the lowest rung
// has min_budget), checkpoints (false), all_checkpoint_dir (by default a directory
// of the experiment; given, it turns checkpoints on), and seed.
func NewASHA(spec Spec) (Tuner, error) {
	a := &ASHA{seed: spec.Seed, eta: 3, running: map[int]*entrant{}}
	least, most, rate, checkpoints, directory := 1, 60, 0, false, ""
	err := arguments.Read("tuner ASHA", spec.Arguments, map[string]arguments.Check{
		"optimize_mode": arguments.Mode(&a.minimize), "min_budget": arguments.Integer(&least, 1, largestBudget),
		"max_budget": arguments.Integer(&most, 1, largestBudget), "eta": arguments.Integer(&a.eta, 2, largestBudget),
		"early_stopping_rate": arguments.Integer(&rate, 0, 20), "checkpoints": arguments.Switch(&checkpoints),
		"all_checkpoint_dir": arguments.Path(&directory), "seed": arguments.Seed(&a.seed),
	})
	if err != nil {
		return nil, err
	}
	if a.budgets, err = rungBudgets(least, most, a.eta, rate); err != nil {
		return nil, err
	}
	if checkpoints || directory != "" {
		if a.checkpoints, err = checkpointDirectory("ASHA", directory, spec); err != nil {
			return nil, err
		}
	}
	space, err := spaceFor("ASHA", spec.Space, budgetKey, loadKey, saveKey)
	if err != nil {
		return nil, err
	}
	a.unasked, a.rungs = newUnasked(space), make([]standing, len(a.budgets))
	return a, nil
}

// rungBudgets are the budgets of the rungs, the lowest first.
func rungBudgets(least, most, eta, rate int) ([]int, error) {
	if most < least {
		return nil, fmt.Errorf("argument max_budget of tuner ASHA is %d: want at least min_budget, %d", most, least)
	}
	var budgets []int
	for budget := least; budget <= most; budget *= eta {
		budgets = append(budgets, budget)
	}
	if rate >= len(budgets) {
		return nil, fmt.Errorf("argument early_stopping_rate of tuner ASHA is %d: want at most %d, with which all trials have budget %d",
			rate, len(budgets)-1, budgets[len(budgets)-1])
	}
	return budgets[rate:], nil
}

// checkpointDirectory is where a tuner's trials keep checkpoints.
func checkpointDirectory(tuner, given string, spec Spec) (string, error) {
	if given == "" {
		given = spec.Checkpoints
	}
	if given == "" {
		return "", fmt.Errorf("tuner %s has no argument all_checkpoint_dir: want the absolute path of a directory that every trial can reach", tuner)
	}
	return given, nil
}

// Propose answers with a promotion if there is one, else with a new configuration.
func (a *ASHA) Propose(n int) (Proposal, error) {
	for rung := len(a.rungs) - 2; rung >= 0; rung-- {
		if e := a.rungs[rung].promotable(a.eta); e != nil {
			return a.proposal(e.parameters, e.configuration, rung+1), nil
		}
	}
	drawn, err := a.unasked.proposal(a.unasked.space.Draw(searchspace.NewStream(a.seed, n)))
	switch {
	case err != nil || drawn.Answer == Try:
		return a.proposal(drawn.Parameters, a.next, 0), err
	case len(a.running) > 0:
		return Proposal{Answer: Wait}, nil
	}
	return drawn, nil
}

func (a *ASHA) proposal(parameters trial.Parameters, configuration, rung int) Proposal {
	if parameters == nil {
		return Proposal{}
	}
	extras := []extra{{budgetKey, a.budgets[rung]}}
	if a.checkpoints != "" {
		directory := path.Join(a.checkpoints, strconv.Itoa(configuration))
		extras = append(extras,
			extra{loadKey, path.Join(directory, strconv.Itoa(max(rung-1, 0)))}, extra{saveKey, path.Join(directory, strconv.Itoa(rung))})
	}
	return Proposal{
		Parameters:  with(parameters, extras...),
		ParameterID: identifier(fmt.Sprintf("%d_%d_%d", a.spaces, rung, configuration)),
	}
}

// promotable is the best that was not promoted, if it is among the best 1/eta of
// the rung; all that are better were promoted.
func (s *standing) promotable(eta int) *entrant {
	if len(s.waiting) == 0 {
		return nil
	}
	better, _ := slices.BinarySearchFunc(s.promoted, s.waiting[0].place, position.compare)
	if better >= s.ended/eta {
		return nil
	}
	return s.waiting[0]
}

// Apply takes note of asks, results and a new search space. After an error it is as
// it was before.
func (a *ASHA) Apply(event trial.Event) error {
	switch event.Kind {
	case trial.KindAsked:
		return a.asked(event)
	case trial.KindIntermediate:
		intermediate, err := read[trial.Intermediate](event)
		if e := a.running[event.Sequence]; err == nil && e != nil && intermediate.Value != nil {
			e.result = intermediate.Value
		}
		return err
	case trial.KindEnded:
		return a.ended(event)
	}
	space, err := spaceOf(event)
	if space != nil {
		a.unasked.move(space)
		a.rungs = make([]standing, len(a.budgets))
		a.spaces++
		clear(a.running)
	}
	return err
}

func (a *ASHA) asked(event trial.Event) error {
	ask, ok, err := askOf(event)
	if err != nil || !ok {
		return err
	}
	parameters, err := without(ask.Parameters, budgetKey, loadKey, saveKey)
	if err != nil {
		return err
	}
	spaces, rung, configuration, ok := readPlace(ask.ParameterID)
	if !ok || rung >= len(a.rungs) {
		return nil
	}
	a.next = max(a.next, configuration+1)
	if spaces != a.spaces {
		return nil // of a search space that holds no more
	}
	a.running[event.Sequence] = &entrant{configuration: configuration, rung: rung, parameters: parameters}
	if rung == 0 {
		return a.unasked.note(parameters)
	}
	a.rungs[rung-1].promote(configuration)
	return nil
}

// readPlace reads an id of ours.
func readPlace(parameterID json.RawMessage) (spaces, rung, configuration int, ok bool) {
	var text string
	if json.Unmarshal(parameterID, &text) != nil {
		return
	}
	read, _ := fmt.Sscanf(text, "%d_%d_%d", &spaces, &rung, &configuration)
	return spaces, rung, configuration, read == 3 && rung >= 0
}

func (s *standing) promote(configuration int) {
	i := slices.IndexFunc(s.waiting, func(e *entrant) bool { return e.configuration == configuration })
	if i < 0 {
		return
	}
	promoted := s.waiting[i].place
	s.waiting = slices.Delete(s.waiting, i, i+1)
	i, _ = slices.BinarySearchFunc(s.promoted, promoted, position.compare)
	s.promoted = slices.Insert(s.promoted, i, promoted)
}

func (a *ASHA) ended(event trial.Event) error {
	end, err := read[trial.Ended](event)
	e := a.running[event.Sequence]
	if err != nil || e == nil {
		return err
	}
	delete(a.running, event.Sequence)
	s := &a.rungs[e.rung]
	s.ended++
	result := resultOf(end, e.result)
	if result == nil || e.rung == len(a.rungs)-1 {
		return nil
	}
	e.place = position{loss(*result, a.minimize), s.ended}
	i, _ := slices.BinarySearchFunc(s.waiting, e, func(other, e *entrant) int { return other.place.compare(e.place) })
	s.waiting = slices.Insert(s.waiting, i, e)
	return nil
}
