package uaitrain

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/internal/verbs"
	"github.com/perennial-ml/perennial/runner/rundir"
)

const (
	// tidyAfter is how long a job is kept that is over and nobody asks about any more,
	// and tidied how many go with one poll.
	tidyAfter = 10 * time.Minute
	tidied    = 3
	// endPatience is what jobs have to be over once their experiment is.
	endPatience = 20 * time.Second
)

//go:embed start.py
var startScript []byte

// cluster is UAI-Train as a verbs.Service for a section.
type cluster struct {
	*client
	*platform
}

// ticket is what is kept of a run: its job.
type ticket struct {
	Job string `json:"job"`
}

func (t ticket) encode() json.RawMessage {
	content, _ := json.Marshal(t) // plain data cannot fail
	return content
}

// jobOf is the id of the job of a run, empty while that is unknown.
func jobOf(run verbs.Run) string {
	var known ticket
	_ = json.Unmarshal(run.Data, &known) // null: nobody knows
	return known.Job
}

// Submit implements verbs.Service, as do all that follow. A job that an earlier Submit
// may have asked for is looked for first.
func (c cluster) Submit(ctx context.Context, wanted verbs.Submission) (json.RawMessage, error) {
	return c.submit(ctx, wanted, c.Interval, func() (load, error) {
		command, err := c.command(wanted.Command)
		return load{command, c.input(), c.output()}, err
	})
}

// submit finds the job of a run, or makes one of what is ready for it then. late is how
// long lists may not show a job that was made.
func (c cluster) submit(ctx context.Context, wanted verbs.Submission, late time.Duration, ready func() (load, error)) (json.RawMessage, error) {
	found, err := c.asked(ctx, wanted)
	if err != nil || found != nil {
		return found, err
	}
	from, err := c.offer(ctx, "submit", &c.known)
	if err != nil {
		return nil, coded(err)
	}
	if err := c.made.Take("submit"); err != nil {
		return nil, err
	}
	of, err := ready()
	if err == nil {
		err = rundir.ReplaceFile(noted(wanted.Directory), []byte("a job of UAI-Train may have been asked for\n"), 0o644)
	}
	if err != nil {
		return nil, transient("submit", err)
	}
	id, err := c.create(ctx, c.request(from, wanted.Name, of), late)
	if err != nil {
		return nil, err
	}
	return ticket{id}.encode(), nil
}

// transient gives an error of files a code.
func transient(verb string, err error) error {
	var classified *platforms.Error
	if errors.As(err, &classified) {
		return err
	}
	return platforms.Errorf(platforms.Transient, verb, "%w", err)
}

// asked finds the job that was asked for before, nil where there is none.
func (c cluster) asked(ctx context.Context, wanted verbs.Submission) (json.RawMessage, error) {
	_, err := os.Stat(noted(wanted.Directory))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	all, err := c.jobs(ctx, "submit")
	if err != nil {
		return nil, err
	}
	if found := c.chosen(ctx, all)[wanted.Name]; found != nil {
		return ticket{found.ID}.encode(), nil
	}
	return nil, nil
}

// coded gives faults of the section a code.
func coded(err error) error {
	var faults platforms.OptionFaults
	if errors.As(err, &faults) {
		return platforms.Errorf(platforms.Invalid, "submit", "%w", faults)
	}
	return err
}

// command is what a job is to run: start.py, and for it the runner's command.
func (c cluster) command(runner []string) (string, error) {
	name := fmt.Sprintf("start-%.16x.py", sha256.Sum256(startScript))
	here := filepath.Join(c.mount(), "runner", name)
	if _, err := os.Stat(here); err != nil {
		if err := rundir.WriteFile(here, startScript, 0o755); err != nil {
			return "", err
		}
	}
	words := append([]string{outputThere + "/runner/" + name, strconv.Itoa(len(runner))}, runner...)
	return strings.Join(append(words, strconv.Itoa(c.Nodes)), " "), nil
}

// chosen are the jobs that stand for runs. Those that were made twice, since an answer
// was lost and lists were late, are made one: what still waits is found again the next
// time, should it not be stopped.
func (c cluster) chosen(ctx context.Context, all []job) map[string]*job {
	found := map[string]*job{}
	for _, one := range all {
		name := one.run()
		before := found[name]
		if name == "" || one.Status == "Deleted" {
			continue
		}
		if before == nil {
			found[name] = &one
			continue
		}
		if one.decides(*before) {
			one, *before = *before, one
		}
		if one.phase() == verbs.Waiting {
			_ = c.stop(ctx, "poll", one.ID)
		}
	}
	return found
}

func (c cluster) Poll(ctx context.Context, asked []verbs.Question) ([]verbs.Report, error) {
	all, err := c.jobs(ctx, "poll")
	if err != nil {
		return nil, err
	}
	found, names := c.chosen(ctx, all), map[string]bool{}
	reports := make([]verbs.Report, len(asked))
	for i, question := range asked {
		names[question.Name] = true
		if reports[i], _, err = c.report(ctx, question.Run, found[question.Name]); err != nil {
			return nil, err
		}
	}
	c.tidy(ctx, found, names)
	return reports, nil
}

// report tells how a run is. One that no list shows is asked about by its id: lists may
// be late.
func (c cluster) report(ctx context.Context, run verbs.Run, listed *job) (verbs.Report, *job, error) {
	id := jobOf(run)
	if listed == nil && id != "" {
		var err error
		if listed, err = c.find(ctx, "poll", id); err != nil {
			return verbs.Report{}, nil, err
		}
	}
	if listed == nil {
		return verbs.Report{Phase: verbs.Gone, Reason: verbs.Reason{Code: "gone", Text: "UAI-Train does not know its job " + id}}, nil, nil
	}
	told := listed.report(page(listed.ID), c.settings)
	if listed.ID != id {
		told.Data = ticket{listed.ID}.encode()
	}
	return told, listed, nil
}

// tidy removes jobs of the experiment that are over and nobody asks about any more, some
// at a time, so that lists stay short however many trials there were.
func (c cluster) tidy(ctx context.Context, found map[string]*job, asked map[string]bool) {
	if c.Keep {
		return
	}
	now, gone := time.Now(), 0
	for name, one := range found {
		if asked[name] || !one.over() || !c.ours(name) || !c.memory.settled(one.ID, now) || gone == tidied {
			continue
		}
		gone++
		_ = c.remove(ctx, one.ID) // the next poll, or CleanUp, tries again
	}
}

// ours tells whether a run is one of the section's experiment.
func (c cluster) ours(name string) bool {
	return strings.HasPrefix(name, "perennial-"+c.section.Experiment+"-")
}

// settled tells whether a job has been over for long enough.
func (m *memory) settled(id string, now time.Time) bool {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	since, seen := m.over[id]
	if !seen {
		m.over[id] = now
		return false
	}
	return now.Sub(since) >= tidyAfter
}

// Cancel implements verbs.Service. What runs ends by itself, unless it is forced.
func (c cluster) Cancel(ctx context.Context, wanted verbs.Cancellation) error {
	one, err := c.lookUp(ctx, wanted.Run)
	if err != nil || one == nil || one.over() || one.phase() == verbs.Running && !wanted.Force {
		return err
	}
	return c.stop(ctx, "cancel", one.ID)
}

// lookUp finds the job of a run, by its id where that is known; nil where there is none.
func (c cluster) lookUp(ctx context.Context, run verbs.Run) (*job, error) {
	if id := jobOf(run); id != "" {
		return c.find(ctx, "cancel", id)
	}
	all, err := c.jobs(ctx, "cancel")
	return c.chosen(ctx, all)[run.Name], err
}

func (c cluster) Prepare(context.Context, string) (json.RawMessage, error) { return nil, nil }

func (c cluster) Logs(context.Context, verbs.LogQuestion) (string, error) {
	return "", platforms.Errorf(platforms.NotFound, "logs", "they are in the shared directory")
}

// CleanUp stops what still runs of the experiment, for it is billed, and removes its
// jobs unless the section keeps them.
func (c cluster) CleanUp(ctx context.Context) error {
	for deadline := time.Now().Add(endPatience); ; {
		left, err := c.clear(ctx)
		if err != nil || left == 0 {
			return err
		}
		if time.Now().After(deadline) {
			return platforms.Errorf(platforms.Transient, "cleanUp", "%d jobs of UAI-Train are not over yet", left)
		}
		select {
		case <-ctx.Done():
			return platforms.Errorf(platforms.Transient, "cleanUp", "%w", ctx.Err())
		case <-time.After(c.Interval):
		}
	}
}

// clear returns how many jobs are not over yet.
func (c cluster) clear(ctx context.Context) (left int, err error) {
	all, err := c.jobs(ctx, "cleanUp")
	if err != nil {
		return 0, err
	}
	for _, one := range all {
		if one.Status == "Deleted" || !c.ours(one.run()) || one.over() && c.Keep {
			continue
		}
		if one.over() {
			err = errors.Join(err, c.remove(ctx, one.ID))
			continue
		}
		left++
		err = errors.Join(err, c.stop(ctx, "cleanUp", one.ID))
	}
	return left, err
}
