package command

import (
	"context"
	"fmt"
	"strings"

	"github.com/perennial-ml/perennial/dashboard/views"

	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
)

// noHost is why trials wait that nobody works on.
var noHost = trial.Reason{Code: "no-host", Text: "no host process is running; starter serve --detach starts one"}

// views makes views of the record that is open.
func (r reader) views() views.Reader { return views.Reader{Store: r.Store, Idle: r.idle} }

// Idle is why nobody works on an experiment, zero where somebody does.
func Idle(ctx context.Context, engine Engine, e record.Experiment) trial.Reason {
	return World{Engine: engine}.idle(ctx, e)
}

// idle is why nobody works on an experiment, zero where somebody does.
func (w World) idle(ctx context.Context, e record.Experiment) trial.Reason {
	if !e.Status.Active() {
		return trial.Reason{}
	}
	if w.Engine.External().Address != "" {
		return w.unpolled(ctx, e.ID, views.PlatformsOf(e))
	}
	if _, err := w.Engine.Find(ctx); err != nil {
		return noHost
	}
	return trial.Reason{}
}

// unpolled is the reason that a queue at a Temporal of others gives for a wait.
func (w World) unpolled(ctx context.Context, experiment string, platforms []string) trial.Reason {
	queue, err := w.Engine.Unpolled(ctx, experiment, platforms)
	if err != nil {
		return trial.Reason{Code: "temporal-unreachable", Text: err.Error()}
	}
	if queue == "" {
		return trial.Reason{}
	}
	start := "starter worker starts one"
	if name, found := strings.CutPrefix(queue, "platform."); found {
		name, _, _ = strings.Cut(name, ".")
		start = fmt.Sprintf("a worker started by starter worker --platform %s does, one without --platform as well", name)
	}
	return trial.Reason{Code: "no-worker", Text: fmt.Sprintf("no worker polls the queue %s; %s", queue, start)}
}
