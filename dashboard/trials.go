package dashboard

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/conditional"

	"github.com/perennial-ml/perennial/dashboard/views"
	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
)

type trialsInput struct {
	ExperimentPath
	State   []string `query:"state" maxItems:"20" doc:"only those in these states, as WAITING"`
	Text    string   `query:"text" maxLength:"200" doc:"only those with this in their parameters or their reason, or with this number, or with an id that begins so"`
	Sort    string   `query:"sort" maxLength:"200" default:"trial" doc:"trial, metric (the best first), duration (the longest first), or a parameter's name, \"outer/inner\" within a nested choice"`
	Reverse bool     `query:"reverse" doc:"the other way round"`
	Limit   int      `query:"limit" minimum:"1" maximum:"1000" default:"100"`
	Offset  int      `query:"offset" minimum:"0" doc:"how many of the first to leave out, for windows of a table; for whole lists use after"`
	After   string   `query:"after" maxLength:"40" doc:"the cursor that the answer before ended with: nothing is missed or repeated, whatever is added meanwhile"`
}

type trialPage struct {
	Trials []listedTrial `json:"trials"`
	Total  int           `json:"total" doc:"without limit, offset and cursor"`
	Next   string        `json:"next" doc:"the cursor of the next page; empty at the end"`
}

// listedTrial is a trial among others, with its result as it was reported.
type listedTrial struct {
	views.Trial
	Final *string `json:"final" doc:"as the trial reported it; null where it did not"`
}

func listedTrials(list []views.Trial) []listedTrial {
	all := make([]listedTrial, len(list))
	for i, one := range list {
		all[i] = listedTrial{Trial: one}
		if one.Row.Final != "" {
			all[i].Final = &one.Row.Final
		}
	}
	return all
}

func (s *server) trials(ctx context.Context, in *trialsInput) (*tagged[trialPage], error) {
	e, err := s.Store.Experiment(ctx, in.Experiment)
	if err != nil {
		return nil, problem(err)
	}
	listing, err := in.listing()
	if err != nil {
		return nil, err
	}
	list, err := s.Reader.Trials(ctx, e, listing)
	if err != nil {
		return nil, problem(err)
	}
	page := trialPage{Trials: listedTrials(list)}
	if len(page.Trials) == in.Limit {
		page.Next = cursorOf(page.Trials[in.Limit-1].Sequence)
	}
	page.Total, err = s.Count(ctx, e.ID, listing)
	return tag(&in.Params, page, err)
}

func (in *trialsInput) listing() (record.Listing, error) {
	listing := record.Listing{Text: in.Text, Reverse: in.Reverse, Limit: in.Limit, Skip: in.Offset}
	for _, word := range in.State {
		state := trial.State(strings.ToUpper(word))
		if !slices.Contains(trial.States(), state) {
			return listing, huma.Error422UnprocessableEntity(fmt.Sprintf("%q is no state of a trial; there are %v", word, trial.States()))
		}
		listing.States = append(listing.States, state)
	}
	switch in.Sort {
	case "trial":
	case "metric":
		listing.Order = record.ByMetric
	case "duration":
		listing.Order = record.ByDuration
	default:
		listing.Order, listing.Parameter = record.ByParameter, in.Sort
	}
	if in.After == "" {
		return listing, nil
	}
	after, err := readCursor(in.After)
	listing.After = &after
	return listing, err
}

// A cursor is the number of the last trial of a page, in a form that nobody takes for a
// number to count with.
const cursorPrefix = "trial:"

func cursorOf(sequence int) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%s%d", cursorPrefix, sequence))
}

func readCursor(cursor string) (int, error) {
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	number, ours := strings.CutPrefix(string(text), cursorPrefix)
	sequence, bad := strconv.Atoi(number)
	if err != nil || bad != nil || !ours {
		return 0, huma.Error422UnprocessableEntity(fmt.Sprintf("%q is no cursor: it is what \"next\" of the page before says", cursor))
	}
	return sequence, nil
}

// TrialPath names a trial.
type TrialPath struct {
	conditional.Params
	Experiment string `path:"experiment" maxLength:"20" doc:"its id"`
	Trial      string `path:"trial" maxLength:"20" doc:"its number or its id"`
}

// find returns the experiment and the trial's number.
func (s *server) find(ctx context.Context, in TrialPath) (record.Experiment, int, error) {
	e, err := s.Store.Experiment(ctx, in.Experiment)
	if err != nil {
		return e, 0, problem(err)
	}
	if n, err := strconv.Atoi(in.Trial); err == nil && n >= 0 && n < e.Asked {
		return e, n, nil
	}
	for n := range e.Asked {
		if trial.ID(e.ID, n) == strings.ToLower(in.Trial) {
			return e, n, nil
		}
	}
	return e, 0, huma.Error404NotFound(fmt.Sprintf("experiment %s has no trial %q", e.ID, in.Trial))
}

func (s *server) trial(ctx context.Context, in *TrialPath) (*tagged[views.WholeTrial], error) {
	e, number, err := s.find(ctx, *in)
	if err != nil {
		return nil, err
	}
	list, err := s.Reader.Trials(ctx, e, record.Listing{Numbers: []int{number}})
	if err != nil {
		return nil, problem(err)
	}
	if len(list) == 0 {
		return nil, huma.Error404NotFound(fmt.Sprintf("experiment %s has no trial %d at present", e.ID, number))
	}
	whole, _, err := s.Whole(ctx, e, list[0])
	return tag(&in.Params, whole, err)
}
