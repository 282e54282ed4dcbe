package views

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/perennial-ml/perennial/experiment"
	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
)

// Listed is an experiment among others.
type Listed struct {
	ID      string        `json:"id"`
	Name    string        `json:"name"`
	Status  record.Status `json:"status"`
	Paused  bool          `json:"paused"`
	Trials  Counts        `json:"trials"`
	Best    *Best         `json:"best"`
	Created *string       `json:"created"`
	Ended   *string       `json:"ended"`
	Tags    trial.Tags    `json:"tags"`
}

// ListedOf returns an experiment's row as one among others.
func ListedOf(e record.Experiment) Listed {
	return Listed{ID: e.ID, Name: e.Name, Status: e.Status, Paused: e.Paused, Trials: Counts(e.Counts),
		Best: BestOf(e), Created: Stamp(e.Created), Ended: Stamp(e.Ended), Tags: e.Tags}
}

// NewestFirst is an order of experiments.
func NewestFirst(a, b record.Experiment) int {
	return cmp.Or(b.Created.Compare(a.Created), cmp.Compare(a.ID, b.ID))
}

// Experiment is how an experiment stands, and what it was started with.
type Experiment struct {
	ID      string        `json:"id"`
	Name    string        `json:"name"`
	Status  record.Status `json:"status"`
	Reason  trial.Reason  `json:"reason"`
	Paused  bool          `json:"paused"`
	Limits  Limits        `json:"limits"`
	Trials  Counts        `json:"trials"`
	Best    *BestTrial    `json:"best"`
	Driven  float64       `json:"duration" doc:"seconds on the clock of maxDuration"`
	Created *string       `json:"created"`
	Ended   *string       `json:"ended"`
	Tags    trial.Tags    `json:"tags"`
	// What it was started with; the search space is the one in force.
	SearchSpace json.RawMessage       `json:"searchSpace"`
	Tuner       experiment.Algorithm  `json:"tuner"`
	Assessor    *experiment.Algorithm `json:"assessor"`
	Platforms   []Platform            `json:"platforms"`
	// Recovered is what was learned since the record came from a backup; missing where it
	// did not.
	Recovered *trial.Recovered `json:"recovered,omitempty"`
	// Dashboard is a link to its page there, which works once; missing without a host.
	Dashboard string `json:"dashboard,omitempty"`
	// Temporal's strings but workflowId are empty while no host is running.
	Temporal Temporal `json:"temporal"`
}

// Platform is where trials run, and what.
type Platform struct {
	Platform      string `json:"platform"`
	Command       string `json:"command"`
	CodeDirectory string `json:"codeDirectory"`
}

// Limits are those of an experiment.
type Limits struct {
	Concurrency int  `json:"concurrency"`
	MaxTrials   *int `json:"maxTrials" doc:"null: unlimited"`
	MaxDuration *int `json:"maxDuration" doc:"seconds; null: unlimited"`
}

// LimitsOf returns an experiment's limits.
func LimitsOf(e record.Experiment) Limits {
	return Limits{e.Concurrency, unlessZero(e.MaxTrials), unlessZero(int(e.MaxDuration / time.Second))}
}

// BestTrial is the best result with what led to it, and where.
type BestTrial struct {
	Best
	Parameters trial.Parameters `json:"parameters"`
	Whereabouts
}

// Temporal is where an experiment's workflow is.
type Temporal struct {
	Address    string `json:"address"`
	Namespace  string `json:"namespace"`
	WorkflowID string `json:"workflowId"`
	WebUI      string `json:"webUI"`
	TokenFile  string `json:"tokenFile"`
}

// Experiment returns how an experiment stands.
func (r Reader) Experiment(ctx context.Context, e record.Experiment, at Temporal) (Experiment, error) {
	best, err := r.best(ctx, e)
	if err != nil {
		return Experiment{}, err
	}
	recovered, err := r.recovered(ctx, e.ID)
	if err != nil {
		return Experiment{}, err
	}
	var config experiment.Experiment
	if err := json.Unmarshal(e.Config, &config); err != nil {
		return Experiment{}, err
	}
	return Experiment{ID: e.ID, Name: e.Name, Status: e.Status, Reason: e.Reason, Paused: e.Paused,
		Limits: LimitsOf(e),
		Trials: Counts(e.Counts), Best: best, Driven: e.Driven.Seconds(),
		Created: Stamp(e.Created), Ended: Stamp(e.Ended), Tags: e.Tags, Recovered: recovered,
		SearchSpace: e.SearchSpace, Tuner: config.Tuner, Assessor: config.Assessor, Platforms: platformsShown(config), Temporal: at}, nil
}

func platformsShown(config experiment.Experiment) []Platform {
	list := make([]Platform, 0, len(config.Platforms))
	for _, p := range config.Platforms {
		list = append(list, Platform{p.Name, p.Command, p.CodeDirectory})
	}
	return list
}

func (r Reader) best(ctx context.Context, e record.Experiment) (*BestTrial, error) {
	if e.Best == nil {
		return nil, nil
	}
	row, err := r.Store.Trial(ctx, e.ID, e.Best.Sequence)
	if err != nil {
		return nil, err
	}
	where, err := r.ranOn(ctx, row)
	return &BestTrial{Best: *BestOf(e), Parameters: row.Parameters, Whereabouts: where}, err
}

func unlessZero(n int) *int {
	if n == 0 {
		return nil
	}
	return &n
}

// recovered is all that was learned about an experiment since its record came from a
// backup; nil where it did not.
func (r Reader) recovered(ctx context.Context, id string) (*trial.Recovered, error) {
	all, err := r.Recovered(ctx, id)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	sum := &trial.Recovered{}
	for _, learned := range all {
		sum.TakenIn += learned.TakenIn
		sum.Freed += learned.Freed
		sum.Missing += learned.Missing
		sum.Ended = append(sum.Ended, learned.Ended...)
		sum.Unread = learned.Unread
		sum.Behind = sum.Behind || learned.Behind
	}
	return sum, nil
}

// Mentions tells whether an experiment's id, name or tags have a text in them, in any case.
func Mentions(e record.Experiment, text string) bool {
	words := []string{e.ID + " " + e.Name}
	for key, value := range e.Tags {
		words = append(words, key+"="+value)
	}
	return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(strings.ToLower(word), strings.ToLower(text)) })
}

// IsTagged tells whether an experiment has all tags that are wanted, each a key or key=value.
func IsTagged(e record.Experiment, wanted []string) bool {
	return !slices.ContainsFunc(wanted, func(tag string) bool { return !e.Tags.Has(tag) })
}
