// Package jobs has trials run as jobs of a service that starts a command, watches it
// and ends it by a name, and that sees one directory with this machine. One puts each
// trial into a job of its own; Reused has long-lived jobs, environments, take trial
// after trial, for services where a job is dear.
package jobs

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/internal/verbs"
	"github.com/perennial-ml/perennial/trial"
)

// Service starts, watches and ends jobs by names that are ours. Its errors are
// *platforms.Error.
type Service interface {
	// Start has a job started, or finds the one of that name: never a second one.
	Start(ctx context.Context, name string, command []string, gpus *int) error
	// States tells how jobs are, in their order, by as few calls as there can be.
	States(ctx context.Context, names []string) ([]State, error)
	// Stop ends a job. It succeeds where that is over or was never there.
	Stop(ctx context.Context, name string) error
}

// Line is a command as a line for a shell.
func Line(command []string) string {
	words := make([]string, len(command))
	for i, word := range command {
		words[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	return strings.Join(words, " ")
}

// State is how a job is.
type State struct {
	Phase  string       // verbs.Waiting, verbs.Running, verbs.Gone or verbs.Unknown
	Reason trial.Reason // why it is so; empty where nobody can know
	URL    string       // where a person can look at it
}

// One is a verbs.Service that puts each run into a job of its own. A shared directory
// is taken for granted.
type One struct{ Service }

// Submit implements verbs.Service, as do all that follow.
func (o One) Submit(ctx context.Context, wanted verbs.Submission) (json.RawMessage, error) {
	return nil, o.Start(ctx, wanted.Name, wanted.Command, wanted.GPUs)
}

func (o One) Poll(ctx context.Context, asked []verbs.Question) ([]verbs.Report, error) {
	names := make([]string, len(asked))
	for i, question := range asked {
		names[i] = question.Name
	}
	states, err := o.States(ctx, names)
	reports := make([]verbs.Report, len(states))
	for i, state := range states {
		reports[i] = verbs.Report{Phase: state.Phase, Reason: verbs.Reason(state.Reason), URL: state.URL}
	}
	return reports, err
}

func (o One) Cancel(ctx context.Context, wanted verbs.Cancellation) error {
	if !wanted.Force {
		states, err := o.States(ctx, []string{wanted.Name})
		if err != nil || states[0].Phase == verbs.Running { // what runs ends by itself
			return err
		}
	}
	return o.Stop(ctx, wanted.Name)
}

func (One) Prepare(context.Context, string) (json.RawMessage, error) { return nil, nil }

func (One) Logs(context.Context, verbs.LogQuestion) (string, error) {
	return "", platforms.Errorf(platforms.NotFound, "logs", "they are in the shared directory")
}

func (One) CleanUp(context.Context) error { return nil }
