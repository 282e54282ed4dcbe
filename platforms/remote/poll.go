package remote

import (
	"context"
	"sync"
	"time"

	"github.com/perennial-ml/perennial/machine"
	"github.com/perennial-ml/perennial/machine/agent"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/internal/machines"
	"github.com/perennial-ml/perennial/trial"
)

// pollPatience is how long a machine may take to answer before its runs count as
// unreachable this time; the others are not kept waiting longer.
const pollPatience = 4 * time.Second

// lostMargin is what a machine's runner gets beyond hostLostAfter to end its trial.
const lostMargin = time.Minute

// neverStarted is the exit code of a run whose intent came before its start.
const neverStarted = -1

// asked is a question about a run that a machine has, and its place in the answer.
type asked struct {
	placement
	after platforms.Cursor
	at    int
}

// Poll implements platforms.Platform: one round trip to each machine, all at once.
func (p *platform) Poll(ctx context.Context, questions []platforms.Question) ([]platforms.Report, error) {
	reports := make([]platforms.Report, len(questions))
	var group sync.WaitGroup
	for _, batch := range p.batches(questions, reports) {
		group.Go(func() {
			for i, report := range p.ask(ctx, batch) {
				reports[batch[i].at] = report
			}
		})
	}
	group.Wait()
	return reports, ctx.Err()
}

// batches sorts questions by the machines that can answer them, and answers those at
// once that need none.
func (p *platform) batches(questions []platforms.Question, reports []platforms.Report) map[Address][]asked {
	batches := map[Address][]asked{}
	for i, question := range questions {
		placed, err := p.located(question.Handle)
		if report, known := unplaced(question.Handle, placed, err); known {
			reports[i] = report
			continue
		}
		batches[placed.Address] = append(batches[placed.Address], asked{*placed, question.After, i})
	}
	return batches
}

// unplaced reports on what no machine need be asked about.
func unplaced(handle platforms.Handle, placed *placement, err error) (platforms.Report, bool) {
	report := platforms.Report{Key: handle.Key}
	switch {
	case err != nil:
		report.Phase, report.Reason = platforms.Unreachable, trial.Reason{Code: "unreadable", Text: err.Error()}
	case placed == nil:
		report.Phase = platforms.Absent
	case placed.Never != nil:
		report.Phase, report.Intent = platforms.Exited, placed.Never
		report.Exit = &trial.Exit{Code: neverStarted, Text: "never started: it was cancelled before"}
	default:
		return report, false
	}
	return report, true
}

// ask asks one machine about its runs.
func (p *platform) ask(ctx context.Context, batch []asked) []platforms.Report {
	ctx, cancel := context.WithTimeout(ctx, pollPatience)
	defer cancel()
	h, err := p.hostOf(ctx, batch[0].Address)
	if err != nil {
		return unreachable(batch, err)
	}
	up, err := h.up(ctx)
	if err != nil {
		return p.silent(h, batch, err)
	}
	findings, err := up.client.Poll(ctx, questions(batch))
	if err != nil {
		return p.silent(h, batch, err)
	}
	h.told(findings.Facts)
	reports := make([]platforms.Report, len(batch))
	for i, finding := range findings.Findings {
		reports[i] = p.report(h, up, batch[i], finding)
	}
	return reports
}

func questions(batch []asked) []agent.Question {
	questions := make([]agent.Question, len(batch))
	for i, asked := range batch {
		after := machine.Cursor(asked.after)
		questions[i] = agent.Question{Ref: machine.Ref{Key: asked.Key}, After: &after}
	}
	return questions
}

// report takes in what a machine said about a run.
func (p *platform) report(h *host, up *link, asked asked, finding agent.Finding) platforms.Report {
	if err := up.tells(asked.placement); err != nil {
		return p.silent(h, batchOf(asked), err)[0]
	}
	report := machines.Report(finding.Report)
	report.Key, report.Output = asked.Key, "" // that is a path of that machine
	h.saw(asked.Key, report.Phase.Definite() || report.Phase == platforms.Absent)
	if finding.Asked {
		report.Journal = &platforms.Journal{Records: finding.Records, Next: platforms.Cursor(finding.Next), More: !finding.Whole}
	}
	return report
}

func batchOf(one asked) []asked { return []asked{one} }

// silent reports on the runs of a machine that does not answer, or cannot tell of
// them: they cannot be reached, and are lost only after as long as the experiment
// says.
func (p *platform) silent(h *host, batch []asked, err error) []platforms.Report {
	reports := unreachable(batch, plain(h.address, err))
	for i := range reports {
		if p.lost(batch[i].placement) {
			h.saw(batch[i].Key, true)
			reports[i].Phase, reports[i].Reason = platforms.Lost, trial.Reason{Code: "host-lost",
				Text: "nothing was heard of it from " + h.address.String() + " for longer than hostLostAfter"}
		}
	}
	return reports
}

func unreachable(batch []asked, err error) []platforms.Report {
	reports := make([]platforms.Report, len(batch))
	for i := range batch {
		reports[i] = platforms.Report{Key: batch[i].Key, Phase: platforms.Unreachable,
			Reason: trial.Reason{Code: "cannot-reach", Text: err.Error()}}
	}
	return reports
}

// lost tells whether a run's machine has been silent about it for longer than its
// experiment puts up with.
func (p *platform) lost(placed placement) bool {
	p.mutex.Lock()
	h := p.hosts[placed.Address]
	p.mutex.Unlock()
	if h == nil {
		return false
	}
	limit := p.lostAfter()
	return limit > 0 && h.silence(placed) > limit+lostMargin
}

// lostAfter is the longest silence that the section puts up with, 0 where it puts up
// with any: also while nobody can tell.
func (p *platform) lostAfter() time.Duration {
	known := p.known.Load()
	if known == nil {
		s, err := p.read(p.ctx(), "poll")
		if err != nil {
			return 0
		}
		known = &s
	}
	return known.lostAfter()
}
