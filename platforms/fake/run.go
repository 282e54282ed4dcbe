package fake

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/perennial-ml/perennial/metrics"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/trial"
)

const planFormat = 1

// plan is all that a run will do if nobody ends it.
type plan struct {
	Format      int           `json:"format"`
	Key         trial.Key     `json:"key"`
	Submitted   time.Time     `json:"submitted"`
	Waiting     time.Duration `json:"waiting"`
	Duration    time.Duration `json:"duration"`
	Limit       time.Duration `json:"limit,omitempty"` // maxTrialDuration
	ExitCode    int           `json:"exitCode"`
	LostAfter   *float64      `json:"lostAfter,omitempty"`
	Unreachable [][2]Place    `json:"unreachable,omitempty"`
	Reports     []reported    `json:"reports,omitempty"`   // by time
	Parameter   string        `json:"parameter,omitempty"` // Job.Parameter
}

// reported is one metric of a plan.
type reported struct {
	After time.Duration `json:"after"` // since the run began to run
	Kind  metrics.Kind  `json:"kind"`
	Value string        `json:"value"`
}

// noted is an intent and when it came.
type noted struct {
	Format int          `json:"format"`
	Intent trial.Intent `json:"intent"`
	Time   time.Time    `json:"time"`
}

// run is what is known of a run; both are nil where there is nothing.
type run struct {
	plan   *plan
	intent *noted
}

func newPlan(job platforms.Job, behaviour Behaviour, now time.Time) (plan, error) {
	made := plan{
		Format: planFormat, Key: job.Key, Submitted: now.UTC(),
		Waiting: behaviour.Waiting.of(job.Key, "waiting"), Duration: behaviour.Duration.of(job.Key, "duration"),
		Limit: job.MaxDuration, ExitCode: behaviour.ExitCode,
		LostAfter: behaviour.LostAfter, Unreachable: behaviour.Unreachable, Parameter: string(job.Parameter),
	}
	return made, made.addReports(job.Parameters, behaviour)
}

func (p *plan) addReports(parameters trial.Parameters, behaviour Behaviour) error {
	for i, metric := range behaviour.Intermediates {
		after := p.Duration * time.Duration(i+1) / time.Duration(len(behaviour.Intermediates)+1)
		if metric.at != nil {
			after = seconds(*metric.at)
		}
		if err := p.addReport(reported{After: after, Kind: metrics.Periodical}, metric, parameters); err != nil {
			return fmt.Errorf("intermediate %d: %w", i+1, err)
		}
	}
	slices.SortStableFunc(p.Reports, func(a, b reported) int { return cmp.Compare(a.After, b.After) })
	if behaviour.Final == nil {
		return nil
	}
	return p.addReport(reported{After: p.Duration, Kind: metrics.Final}, *behaviour.Final, parameters)
}

func (p *plan) addReport(report reported, metric Metric, parameters trial.Parameters) error {
	value, err := metric.value(parameters)
	report.Value = value
	p.Reports = append(p.Reports, report)
	return err
}

func (p plan) started() time.Time { return p.Submitted.Add(p.Waiting) }

// ending is how and when a run ends.
type ending struct {
	time   time.Time
	exit   *trial.Exit // nil: lost
	intent *trial.Intent
}

// ending returns the first of everything that ends the run.
func (r run) ending() ending {
	first := ending{time: r.plan.started().Add(r.plan.Duration), exit: &trial.Exit{Code: r.plan.ExitCode}}
	consider := func(other ending) {
		if other.time.Before(first.time) {
			first = other
		}
	}
	if r.plan.LostAfter != nil {
		consider(ending{time: r.plan.Submitted.Add(seconds(*r.plan.LostAfter))})
	}
	terminated := &trial.Exit{Code: 143, Signal: "SIGTERM"}
	if r.plan.Limit > 0 {
		consider(ending{time: r.plan.started().Add(r.plan.Limit), exit: terminated, intent: &trial.Intent{Cause: trial.CauseMaxDuration}})
	}
	if r.intent != nil {
		consider(ending{time: r.intent.Time, exit: terminated, intent: &r.intent.Intent})
	}
	return first
}

func (r run) unreachable(now time.Time) bool {
	if r.plan == nil {
		return false
	}
	age := now.Sub(r.plan.Submitted)
	return slices.ContainsFunc(r.plan.Unreachable, func(window [2]Place) bool {
		return age >= seconds(window[0]) && age < seconds(window[1])
	})
}

// forbidden tells whether an intent came before the run could begin.
func (r run) forbidden() bool {
	return r.intent != nil && (r.plan == nil || r.intent.Time.Before(r.plan.Submitted))
}

// report tells how the run is at a moment.
func (r run) report(key trial.Key, now time.Time) platforms.Report {
	report := platforms.Report{Key: key}
	switch {
	case r.plan == nil && r.intent == nil:
		report.Phase = platforms.Absent
	case r.forbidden():
		report.Phase, report.Intent = platforms.Exited, &r.intent.Intent
		report.Exit = &trial.Exit{Code: -1, Text: "never started: it was cancelled before"}
	case r.unreachable(now):
		report.Phase, report.Reason = platforms.Unreachable, trial.Reason{Code: "unreachable", Text: "it cannot be reached, as configured"}
	case now.Before(r.ending().time):
		r.going(&report, now)
	default:
		r.over(&report)
	}
	return report
}

func (r run) going(report *platforms.Report, now time.Time) {
	if r.intent != nil {
		report.Intent = &r.intent.Intent
	}
	if now.Before(r.plan.started()) {
		report.Phase, report.Reason = platforms.Waiting, trial.Reason{Code: "queued", Text: "it waits, as configured"}
		return
	}
	report.Phase, report.Started = platforms.Running, r.plan.started()
}

func (r run) over(report *platforms.Report) {
	end := r.ending()
	report.Intent, report.Exit, report.Ended = end.intent, end.exit, end.time
	if !end.time.Before(r.plan.started()) {
		report.Started = r.plan.started()
	}
	report.Phase = platforms.Exited
	if end.exit == nil {
		report.Phase, report.Reason = platforms.Lost, trial.Reason{Code: "platform-fault", Text: "it was lost, as configured"}
	}
}

// records returns what the run has reported until now.
func (r run) records(now time.Time) []metrics.Record {
	if r.plan == nil || r.forbidden() {
		return nil
	}
	end := r.ending().time
	var records []metrics.Record
	step := int64(0)
	for i, report := range r.plan.Reports {
		at := r.plan.started().Add(report.After)
		if at.After(now) || at.After(end) {
			break
		}
		record := metrics.Record{Number: int64(i + 1), Time: at, Kind: report.Kind, Value: report.Value}
		if report.Kind == metrics.Periodical {
			record.Step = step
			step++
		}
		records = append(records, record)
	}
	return records
}
