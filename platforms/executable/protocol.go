package executable

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/internal/verbs"
)

// Protocol is the number of the protocol that executables are spoken to in.
const Protocol = 1

// call is what every request begins with. What follows it is what package verbs has
// for that verb.
type call struct {
	Protocol   int             `json:"protocol"`
	Experiment string          `json:"experiment"`
	Options    json.RawMessage `json:"options"`
	// State is a directory on this machine in which the executable may keep notes for
	// the experiment. It need not: what it answers to submit is kept for it.
	State string `json:"state"`
}

// description is the answer to describe: what the executable is like with these
// options.
type description struct {
	Protocol int `json:"protocol"`
	// SharedDirectory is a directory, absolute, that this machine and all that run
	// trials have in common. Then code, logs and metrics go through it, and the
	// executable has only to start commands, watch and end them.
	SharedDirectory string  `json:"sharedDirectory"`
	PollInterval    float64 `json:"pollInterval"` // seconds; the default is 5
	// Verbs are those of prepare, logs and cleanUp that the executable has.
	Verbs  []string `json:"verbs"`
	Faults []fault  `json:"faults"` // of the options
}

// fault is one thing that is wrong with the options.
type fault struct {
	Field   string `json:"field"`
	Message string `json:"message"`
	Hint    string `json:"hint"`
}

type submitAnswer struct {
	Data json.RawMessage `json:"data"`
}

type pollAnswer struct {
	Reports []verbs.Report `json:"reports"` // one for each run, in their order
}

type logsAnswer struct {
	Text string `json:"text"`
}

type prepareAnswer struct {
	Workspace json.RawMessage `json:"workspace"`
}

// nothing is the answer of verbs that have nothing to say.
type nothing struct{}

func (d *described) has(verb string) bool { return slices.Contains(d.Verbs, verb) }

func (d *described) nature() verbs.Nature {
	return verbs.Nature{SharedDirectory: d.SharedDirectory, Interval: d.interval()}
}

// interval is how often the executable may be asked.
func (d *described) interval() time.Duration {
	if d.PollInterval <= 0 {
		return usualInterval
	}
	return seconds(d.PollInterval)
}

// Submit implements verbs.Service, as do all that follow.
func (d *described) Submit(ctx context.Context, wanted verbs.Submission) (json.RawMessage, error) {
	var answer submitAnswer
	err := d.program.call(ctx, "submit", struct {
		call
		verbs.Submission
	}{d.call, wanted}, &answer)
	return answer.Data, err
}

func (d *described) Poll(ctx context.Context, runs []verbs.Question) ([]verbs.Report, error) {
	var answer pollAnswer
	err := d.program.call(ctx, "poll", struct {
		call
		Runs []verbs.Question `json:"runs"`
	}{d.call, runs}, &answer)
	for i := range answer.Reports {
		answer.Reports[i].Reason.Text = d.secrets.Replace(answer.Reports[i].Reason.Text)
	}
	return answer.Reports, err
}

func (d *described) Cancel(ctx context.Context, wanted verbs.Cancellation) error {
	return d.program.call(ctx, "cancel", struct {
		call
		verbs.Cancellation
	}{d.call, wanted}, &nothing{})
}

func (d *described) Prepare(ctx context.Context, codeDirectory string) (json.RawMessage, error) {
	if !d.has("prepare") {
		return nil, nil
	}
	var answer prepareAnswer
	err := d.program.call(ctx, "prepare", struct {
		call
		CodeDirectory string `json:"codeDirectory"`
	}{d.call, codeDirectory}, &answer)
	return answer.Workspace, err
}

func (d *described) Logs(ctx context.Context, wanted verbs.LogQuestion) (string, error) {
	if !d.has("logs") {
		return "", platforms.Errorf(platforms.NotFound, "logs", "%s has no verb logs", d.path)
	}
	var answer logsAnswer
	err := d.program.call(ctx, "logs", struct {
		call
		verbs.LogQuestion
	}{d.call, wanted}, &answer)
	return answer.Text, err
}

func (d *described) CleanUp(ctx context.Context) error {
	if !d.has("cleanUp") {
		return nil
	}
	return d.program.call(ctx, "cleanUp", d.call, &nothing{})
}
