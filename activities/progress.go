package activities

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
)

// Progress is how an experiment stands, as far as it can be told in one line. It
// rides on answers that workflows get anyway, and is small however many trials
// there are.
type Progress struct {
	Asked     int                 `json:"asked"`
	MaxTrials int                 `json:"maxTrials,omitempty"` // 0: unlimited
	Ended     map[trial.State]int `json:"ended,omitempty"`     // trials by how they ended
	Best      *record.Best        `json:"best,omitempty"`
	Reason    trial.Reason        `json:"reason,omitzero"` // why nothing starts at present
	Wait      *Wait               `json:"wait,omitempty"`
}

// Wait is a trial that waits although it was started, and why.
type Wait struct {
	Sequence int          `json:"sequence"`
	Reason   trial.Reason `json:"reason"`
}

// Done is the number of trials that have ended.
func (p Progress) Done() int {
	done := 0
	for _, state := range trial.States() { // in order, as workflows must go through a map
		done += p.Ended[state]
	}
	return done
}

// Attention names what somebody who looks should know, empty if all is well. Two
// reports of progress with the same attention tell the same story.
func (p Progress) Attention() string {
	attention := p.Reason.Code
	if p.Wait != nil {
		attention += fmt.Sprintf(" %d %s", p.Wait.Sequence, p.Wait.Reason.Code)
	}
	return attention
}

// maxReason is how many bytes of a reason's text are told in a Progress.
const maxReason = 300

// progress reads how an experiment stands.
func (a *Activities) progress(ctx context.Context, row record.Experiment) (progress Progress, err error) {
	progress = Progress{
		Asked: row.Trials(), MaxTrials: row.MaxTrials, Ended: ended(row.Counts), Best: row.Best, Reason: brief(row.Reason),
	}
	progress.Wait, err = a.wait(ctx, row)
	return progress, err
}

func ended(counts map[trial.State]int) map[trial.State]int {
	terminal := map[trial.State]int{}
	for state, count := range counts {
		if state.Terminal() && count > 0 {
			terminal[state] = count
		}
	}
	return terminal
}

// brief is a reason in a line, cut short.
func brief(reason trial.Reason) trial.Reason {
	reason.Text = reason.Sentence()
	if len(reason.Text) > maxReason {
		reason.Text = strings.ToValidUTF8(reason.Text[:maxReason], "") + "…"
	}
	return reason
}

// waitsEvery bounds how often trials are searched for one that waits.
const waitsEvery = 5 * time.Second

// waits is what the last search for a waiting trial of an experiment found.
type waits struct {
	at    time.Time
	found *Wait
}

// wait finds a trial that waits for a reason on record.
func (a *Activities) wait(ctx context.Context, row record.Experiment) (*Wait, error) {
	if row.Counts[trial.Waiting] == 0 {
		return nil, nil
	}
	if known, ok := a.waits.Load(row.ID); ok && time.Since(known.(waits).at) < waitsEvery {
		return known.(waits).found, nil
	}
	found, err := a.findWait(ctx, row.ID)
	if err == nil {
		a.waits.Store(row.ID, waits{at: time.Now(), found: found})
	}
	return found, err
}

func (a *Activities) findWait(ctx context.Context, id string) (*Wait, error) {
	sequence, reason, found, err := a.Record.Held(ctx, id)
	if err != nil || !found {
		return nil, err
	}
	return &Wait{Sequence: sequence, Reason: brief(reason)}, nil
}

// maxParameters is how many bytes of parameters a workflow is told, for people
// who look at it: history is no place for more.
const maxParameters = 1024

// parameters are a trial's parameters where they are small, else nil.
func (a *Activities) parameters(ctx context.Context, id string, sequence int) (json.RawMessage, error) {
	row, err := a.Record.Trial(ctx, id, sequence)
	if err != nil || len(row.Parameters) > maxParameters {
		return nil, err
	}
	return row.Parameters, nil
}
