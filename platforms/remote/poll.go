package remote

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/runner/agent"
	"github.com/perennial-ml/perennial/runner/runs"
	"github.com/perennial-ml/perennial/trial"
)

// pollPatience is how long a machine may take to answer before its runs count as
// unreachable this time; the others are not kept waiting longer.
const pollPatience = 4 * time.Second

// lostMargin is what a machine's runner gets beyond hostLostAfter to end its trial.
const lostMargin = time.Minute

// neverStarted is the exit code of a run whose intent came before its start.
const neverStarted = -1

// batch is what is asked of one machine: the runs, and their places in the answer.
type batch struct {
	placed []placement
	at     []int
}

// Poll implements platforms.Platform: one round trip to each machine, all at once.
func (p *platform) Poll(ctx context.Context, handles []platforms.Handle) ([]platforms.Report, error) {
	reports := make([]platforms.Report, len(handles))
	var group sync.WaitGroup
	for _, b := range p.batches(handles, reports) {
		group.Go(func() {
			for i, report := range p.ask(ctx, b.placed) {
				reports[b.at[i]] = report
			}
		})
	}
	group.Wait()
	return reports, ctx.Err()
}

// batches sorts runs by their machines, and reports at once on those without.
func (p *platform) batches(handles []platforms.Handle, reports []platforms.Report) map[Address]*batch {
	batches := map[Address]*batch{}
	for i, handle := range handles {
		placed, err := p.located(handle)
		if report, known := unplaced(handle, placed, err); known {
			reports[i] = report
			continue
		}
		b := batches[placed.Address]
		if b == nil {
			b = &batch{}
			batches[placed.Address] = b
		}
		b.placed, b.at = append(b.placed, *placed), append(b.at, i)
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
func (p *platform) ask(ctx context.Context, placed []placement) []platforms.Report {
	ctx, cancel := context.WithTimeout(ctx, pollPatience)
	defer cancel()
	h, err := p.hostOf(placed[0].Key.Experiment, placed[0].Address)
	if err != nil {
		return unreachable(placed, err)
	}
	up, err := h.up(ctx)
	if err != nil {
		return p.silent(h, placed, err)
	}
	questions := p.questions(placed)
	findings, err := up.client.Poll(ctx, questions)
	if err != nil {
		return p.silent(h, placed, err)
	}
	h.told(findings.Facts)
	reports := make([]platforms.Report, len(placed))
	for i, finding := range findings.Findings {
		reports[i] = p.report(h, up, placed[i], questions[i], finding)
	}
	return reports
}

func (p *platform) questions(placed []placement) []agent.Question {
	questions := make([]agent.Question, len(placed))
	for i := range placed {
		questions[i] = agent.Question{Ref: runs.Ref{Key: placed[i].Key}, After: p.journals.cursor(placed[i].Key)}
	}
	return questions
}

// report takes in what a machine said about a run.
func (p *platform) report(h *host, up *link, placed placement, asked agent.Question, finding agent.Finding) platforms.Report {
	if err := up.tells(placed); err != nil {
		return p.silent(h, []placement{placed}, err)[0]
	}
	report := finding.Report
	report.Key, report.Output = placed.Key, "" // that is a path of that machine
	h.saw(placed.Key, report.Phase.Definite() || report.Phase == platforms.Absent)
	if asked.After != nil {
		p.journals.put(placed.Key, *asked.After, finding)
	}
	return report
}

// silent reports on the runs of a machine that does not answer, or cannot tell of
// them: they cannot be reached, and are lost only after as long as the experiment
// says.
func (p *platform) silent(h *host, placed []placement, err error) []platforms.Report {
	reports := unreachable(placed, plain(h.address, err))
	for i := range reports {
		if p.lost(placed[i]) {
			h.saw(placed[i].Key, true)
			reports[i].Phase, reports[i].Reason = platforms.Lost, trial.Reason{Code: "host-lost",
				Text: "nothing was heard of it from " + h.address.String() + " for longer than hostLostAfter"}
		}
	}
	return reports
}

func unreachable(placed []placement, err error) []platforms.Report {
	reports := make([]platforms.Report, len(placed))
	for i := range placed {
		reports[i] = platforms.Report{Key: placed[i].Key, Phase: platforms.Unreachable,
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
	limit := p.lostAfter(placed)
	return limit > 0 && h.silence(placed) > limit+lostMargin
}

// lostAfter is the longest silence that any section with the run's machine puts up
// with, 0 where one puts up with any.
func (p *platform) lostAfter(placed placement) time.Duration {
	of := limited{placed.Key.Experiment, placed.Address}
	if known, found := p.limits.Load(of); found {
		return known.(time.Duration)
	}
	sections, err := p.sections(of.experiment)
	if err != nil || len(sections) == 0 {
		return 0
	}
	limit := longestSilence(sections, of.address)
	p.limits.Store(of, limit)
	return limit
}

// limited is what a limit holds for.
type limited struct {
	experiment string
	address    Address
}

func longestSilence(sections []section, address Address) (limit time.Duration) {
	for _, s := range sections {
		if !slices.ContainsFunc(s.Machines, func(m machine) bool { return m.Address == address }) {
			continue
		}
		if s.lostAfter() == 0 {
			return 0
		}
		limit = max(limit, s.lostAfter())
	}
	return limit
}
