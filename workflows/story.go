package workflows

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/perennial-ml/perennial/activities"
	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
)

// QueryState is the query that tells where an experiment (Overview) or a trial
// (TrialOverview) is.
const QueryState = "state"

// Overview is how an experiment's workflow sees its experiment.
type Overview struct {
	Status      record.Status       `json:"status"`
	Paused      bool                `json:"paused"`
	Concurrency int                 `json:"concurrency"`
	Progress    activities.Progress `json:"standing"`
	Open        []int               `json:"open"`               // trials with a workflow
	Starting    []int               `json:"starting,omitempty"` // those of them whose workflow is not known to have begun
	Waiting     []int               `json:"waiting"`            // trials asked and not started
	Cursor      int64               `json:"cursor"`             // events of the log read
}

// TrialOverview is how a trial's workflow sees its trial.
type TrialOverview struct {
	Sequence   int                    `json:"sequence"`
	ID         string                 `json:"id"`
	Platform   string                 `json:"platform"`
	Attempt    int                    `json:"attempt"` // 0 before the first is submitted
	Ending     bool                   `json:"ending"`  // it is asked to end
	Parameters json.RawMessage        `json:"parameters,omitempty"`
	Result     *activities.Settlement `json:"result,omitempty"` // once it is over
}

// The search attributes, by which Temporal's lists can be filtered. BestMetric
// is an experiment's; TrialIndex, TrialStatus and FinalMetric are a trial's, the
// last two once it has ended.
var (
	experimentID = temporal.NewSearchAttributeKeyKeyword("ExperimentId")
	platform     = temporal.NewSearchAttributeKeyKeyword("Platform")
	trialStatus  = temporal.NewSearchAttributeKeyKeyword("TrialStatus")
	bestMetric   = temporal.NewSearchAttributeKeyFloat64("BestMetric")
	finalMetric  = temporal.NewSearchAttributeKeyFloat64("FinalMetric")
	trialIndex   = temporal.NewSearchAttributeKeyInt64("TrialIndex")
)

// SearchAttributes are the search attributes that workflows use, and their types.
func SearchAttributes() map[string]enumspb.IndexedValueType {
	types := map[string]enumspb.IndexedValueType{}
	for _, key := range []temporal.SearchAttributeKey{experimentID, platform, trialStatus, bestMetric, finalMetric, trialIndex} {
		types[key.GetName()] = key.GetValueType()
	}
	return types
}

// summaryOf is the one line that Temporal shows of an experiment, which its
// acceptance gives a name.
func summaryOf(experiment string, command trial.Command) string {
	var accepted struct {
		Name string `json:"experimentName"`
	}
	if command.Name == trial.Accept && json.Unmarshal(command.Value, &accepted) == nil && accepted.Name != "" {
		return fmt.Sprintf("%s (experiment %s)", accepted.Name, experiment)
	}
	return "experiment " + experiment
}

const experimentDetails = `An experiment: it starts its trials as workflows ` + "`%s/trial-0`, `-1`" + ` and so on.

- Signal **cancel**, or Cancel, stops it in order; ` + "`starter resume %s`" + ` goes on.
- Signal **early-stop** ends every running trial EARLY_STOPPED, and then the experiment is DONE.
- Query **state** tells limits, counts, open and waiting trials.
- Terminate and Reset end no trial and lose nothing: the host starts the workflow again from its record within a minute.`

func detailsOf(experiment string) string {
	return fmt.Sprintf(experimentDetails, ExperimentWorkflowID(experiment), experiment)
}

const trialDetails = `Trial %d (%s) of experiment %s, on platform %s.

- Signal **cancel**, or Cancel, ends it USER_CANCELED.
- Signal **early-stop** ends it EARLY_STOPPED, and what it reported counts.
- Query **state** tells its attempt, and whether it is being ended.
- Terminate and Reset do not end its process, which is taken up again within a minute.`

// introduce tells the people who look at Temporal what this is. It is told once
// for a run, and again to none that continues one.
func (e *experimentRun) introduce(opened activities.OpenAnswer) error {
	if e.introduced || !opened.Known {
		return nil
	}
	e.introduced = true
	memo := map[string]any{"name": opened.Name, "tuner": opened.Tuner, "platforms": strings.Join(opened.Platforms, ", ")}
	if err := workflow.UpsertMemo(e.ctx, memo); err != nil || !e.Searchable {
		return err
	}
	return workflow.UpsertTypedSearchAttributes(e.ctx, experimentID.ValueSet(e.id), platform.ValueSet(opened.Platforms[0]))
}

// conclude leaves the result where lists of experiments show it.
func (e *experimentRun) conclude() error {
	if !e.Searchable || e.Progress.Best == nil {
		return nil
	}
	return workflow.UpsertTypedSearchAttributes(e.ctx, bestMetric.ValueSet(e.Progress.Best.Value))
}

// describe tells how the experiment stands, in words. Words are no history: who
// looks is told by a worker.
func (e *experimentRun) describe() {
	workflow.SetCurrentDetails(e.ctx, e.words()+"\n\n"+e.whereTrialsAre())
}

// whereTrialsAre tells how to find the trials, which the page of the experiment does not
// list.
func (e *experimentRun) whereTrialsAre() string {
	if !e.Searchable {
		return fmt.Sprintf("Its trials are the workflows `%s`, `-1` and so on.", TrialWorkflowID(e.id, 0))
	}
	query := fmt.Sprintf("ExperimentId = '%s' AND WorkflowType = '%s'", e.id, TrialType)
	page := fmt.Sprintf("/namespaces/%s/workflows?query=%s", workflow.GetInfo(e.ctx).Namespace, url.QueryEscape(query))
	return fmt.Sprintf("[Its trials](%s) are the workflows `%s`, `-1` and so on.", page, TrialWorkflowID(e.id, 0))
}

// words are such as "12 of 40 done, best 0.974 by trial 7; 4 under way; trial
// 9 waits: no GPU is free".
func (e *experimentRun) words() string {
	if e.Status == "" {
		return "nothing was accepted under this id"
	}
	words := []string{progressOf(e.Progress)}
	if open := len(e.Open); open > 0 {
		words = append(words, fmt.Sprintf("%d under way", open))
	}
	if wait := e.Progress.Wait; wait != nil {
		words = append(words, fmt.Sprintf("trial %d waits: %s", wait.Sequence, wait.Reason.Text))
	}
	switch {
	case e.Status != record.Running:
		words[0] = string(e.Status) + ": " + words[0]
	case e.Paused:
		words = append(words, "paused: nothing new starts")
	case e.Late:
		words = append(words, "its time is over: nothing new starts")
	case !e.Progress.Reason.Zero():
		words = append(words, "nothing new starts: "+e.Progress.Reason.Text)
	}
	return strings.Join(words, "; ")
}

func progressOf(progress activities.Progress) string {
	words := fmt.Sprintf("%d of %d done", progress.Done(), progress.Asked)
	switch {
	case progress.MaxTrials > 0:
		words = fmt.Sprintf("%d of %d done", progress.Done(), progress.MaxTrials)
	case progress.Asked == 0:
		words = "no trial yet"
	}
	if best := progress.Best; best != nil {
		words += fmt.Sprintf(", best %s by trial %d", number(best.Value), best.Sequence)
	}
	return words
}

// number writes a metric for people: four digits say enough.
func number(value float64) string { return strconv.FormatFloat(value, 'g', 4, 64) }

// roundSummary says what a round starts and waits for.
func (e *experimentRun) roundSummary(start []int) string {
	room := max(e.Concurrency-len(e.Open)-len(e.Waiting), 0)
	news := fmt.Sprintf("wait for news (%d under way, %d waiting, room for %d)", len(e.Open), len(e.Waiting), room)
	switch {
	case len(start) == 0:
		return news
	case len(start) == 1:
		return fmt.Sprintf("start trial %d; %s", start[0], news)
	case len(start) <= maxNamed:
		return fmt.Sprintf("start trials %s; %s", enumerated(start), news)
	}
	return fmt.Sprintf("start %d trials from %d on; %s", len(start), start[0], news)
}

// enumerated writes numbers such as "3, 4, 7".
func enumerated(numbers []int) string {
	texts := make([]string, len(numbers))
	for i, n := range numbers {
		texts[i] = strconv.Itoa(n)
	}
	return strings.Join(texts, ", ")
}

// maxNamed bounds the trials that a summary names one by one.
const maxNamed = 4

// overview answers QueryState.
func (e *experimentRun) overview() (Overview, error) {
	return Overview{
		Status: e.Status, Paused: e.Paused, Concurrency: e.Concurrency, Progress: e.Progress,
		Open: e.Open, Starting: slices.Concat(e.unconfirmed(), e.Due[e.handed:]), Waiting: e.Waiting, Cursor: e.Cursor,
	}, nil
}

// story is what Temporal shows of a trial from its first moment, at no event of its
// own.
type story struct {
	summary, details string
	memo             map[string]any
	attributes       temporal.SearchAttributes
}

func storyOf(start activities.Start) story {
	n, id := start.Sequence, trial.ID(start.Experiment, start.Sequence)
	told := story{
		summary: fmt.Sprintf("trial %d (%s)", n, id),
		details: fmt.Sprintf(trialDetails, n, id, start.Experiment, start.Platform),
		memo:    map[string]any{"trial": id, "sequence": n},
	}
	if start.Searchable {
		told.attributes = temporal.NewSearchAttributes(
			experimentID.ValueSet(start.Experiment), platform.ValueSet(start.Platform), trialIndex.ValueSet(int64(n)))
	}
	return told
}

// describe tells where the trial is, in words.
func (t *trialRun) describe(words string) {
	lines := []string{words}
	if len(t.parameters) > 0 {
		lines = append(lines, "parameters: `"+string(t.parameters)+"`")
	}
	workflow.SetCurrentDetails(t.ctx, strings.Join(lines, "\n\n"))
}

// conclude tells how the trial ended, and leaves that where lists show it.
func (t *trialRun) conclude(settlement activities.Settlement) error {
	t.settlement = &settlement
	t.describe(ending(settlement))
	if !t.Searchable {
		return nil
	}
	state := settlement.State
	switch {
	case settlement.Unbegun():
		state = trial.Waiting
	case settlement.Interrupted:
		state = trial.UserCanceled
	}
	updates := []temporal.SearchAttributeUpdate{trialStatus.ValueSet(string(state))}
	if settlement.Value != nil {
		updates = append(updates, finalMetric.ValueSet(*settlement.Value))
	}
	return workflow.UpsertTypedSearchAttributes(t.ctx, updates...)
}

// ending puts a settlement into words, such as "FAILED: the command exited with
// code 3".
func ending(settlement activities.Settlement) string {
	if settlement.Interrupted {
		return cmp.Or(settlement.Reason.Text, "stopped with its experiment; resume runs it again")
	}
	words := string(settlement.State)
	if settlement.Value != nil {
		words += " with " + number(*settlement.Value)
	}
	if !settlement.Reason.Zero() {
		words += ": " + settlement.Reason.Text
	}
	return words
}

// overview answers QueryState.
func (t *trialRun) overview() (TrialOverview, error) {
	return TrialOverview{
		Sequence: t.Sequence, ID: trial.ID(t.Experiment, t.Sequence), Platform: t.Platform, Attempt: t.current,
		Ending: t.ending, Parameters: t.parameters, Result: t.settlement,
	}, nil
}

// signals is the channel of a signal, with its description for the Web UI.
func signals(ctx workflow.Context, name, description string) workflow.ReceiveChannel {
	return workflow.GetSignalChannelWithOptions(ctx, name, workflow.SignalChannelOptions{Description: description})
}

// answer registers the handler of QueryState.
func answer(ctx workflow.Context, handler any, description string) error {
	return workflow.SetQueryHandlerWithOptions(ctx, QueryState, handler, workflow.QueryHandlerOptions{Description: description})
}
