package verbs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/perennial-ml/perennial/metrics"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/runner/rundir"
	"github.com/perennial-ml/perennial/trial"
)

// Rule is how a service was found to keep one rule of its contract.
type Rule struct {
	Rule string `json:"rule"`
	Kept bool   `json:"kept"`
	// Broken says how it broke the rule, and Calls what was sent and answered last.
	Broken string `json:"broken,omitempty"`
	Calls  []Call `json:"calls,omitempty"`
}

// Call is one call of a service, for people, without secrets.
type Call struct {
	Verb     string `json:"verb"`
	Sent     string `json:"sent"`
	Answered string `json:"answered,omitempty"`
	Failed   string `json:"failed,omitempty"`
}

const (
	// callsShown is how many calls are told of a rule that is broken.
	callsShown = 4
	// atOnce is how many rules are tried at the same time.
	atOnce = 4
	// endless is how long a trial sleeps, in seconds, that is to be ended: it ends by
	// itself where an executable cannot do that.
	endless = 300
)

// Examination tries a service against every rule of its contract that concerns it, by
// real trials of a moment's length.
type Examination struct {
	Platform *Platform
	// Service is the same service, whose calls are told to note.
	Service  func(note func(Call)) Service
	Verbs    []string      // those of prepare, logs and cleanUp that the service has
	Patience time.Duration // what a run may take to start and to end, queues included
	Only     string        // the one rule to try; empty: all
	// Tell is called as each rule was tried, by one at a time, with how many there are;
	// nil: nobody is.
	Tell func(found Rule, of int)

	nature Nature
	code   string
}

// Run returns how each rule was kept, in their order. What the trials left behind in a
// shared directory is removed. The error is that of an examination that could not be
// made.
func (e *Examination) Run(ctx context.Context) ([]Rule, error) {
	e.code = filepath.Join(e.Platform.StateDirectory, "code")
	if err := rundir.MakeDirectory(e.code); err != nil {
		return nil, err
	}
	if err := rundir.WriteFile(filepath.Join(e.code, "here.txt"), []byte("code is here\n"), 0o644); err != nil {
		return nil, err
	}
	d, err := e.Platform.open(ctx, "describe")
	if err != nil {
		return nil, err
	}
	e.nature = d.Nature
	found := e.all(ctx)
	if d.shared() {
		err = os.RemoveAll(d.home(e.Platform.section.Experiment))
	}
	return found, err
}

// all tries rules, some at a time, and cleaning after all others.
func (e *Examination) all(ctx context.Context) []Rule {
	concerned := slices.DeleteFunc(slices.Clone(rules), func(r rule) bool {
		return r.concerns != nil && !r.concerns(e) || e.Only != "" && e.Only != r.name
	})
	found, slots := make([]Rule, len(concerned)), make(chan struct{}, atOnce)
	var group sync.WaitGroup
	var telling sync.Mutex
	for i, r := range concerned {
		if r.name == cleaning {
			group.Wait()
		}
		group.Go(func() {
			slots <- struct{}{}
			found[i] = e.try(ctx, r, 100*i)
			<-slots
			if e.Tell != nil {
				telling.Lock()
				defer telling.Unlock()
				e.Tell(found[i], len(concerned))
			}
		})
	}
	group.Wait()
	return found
}

func (e *Examination) try(ctx context.Context, r rule, first int) Rule {
	ctx, cancel := context.WithTimeout(ctx, ruleLasts*e.Patience)
	defer cancel()
	x := &examiner{Examination: e, ctx: ctx, first: first}
	x.service = &service{e.Service(x.note), e.nature}
	return x.examine(r)
}

// ruleLasts is how many runs one after another a rule needs at most.
const ruleLasts = 12

// rule is one sentence of the contract and how it is tried; the error of that says
// how it is broken.
type rule struct {
	name     string
	concerns func(*Examination) bool // nil: every service
	try      func(*examiner) error
}

// examiner tries one rule.
type examiner struct {
	*Examination
	ctx     context.Context
	service *service
	first   int // the sequence number of its first trial

	mutex   sync.Mutex
	calls   []Call
	started []subject
}

func (x *examiner) examine(r rule) Rule {
	err := r.try(x)
	calls := x.calls
	x.endAll()
	if err == nil {
		return Rule{Rule: r.name, Kept: true}
	}
	return Rule{Rule: r.name, Broken: err.Error(), Calls: calls[max(0, len(calls)-callsShown):]}
}

// endAll leaves nothing running. What cannot be ended ends by itself: nobody minds.
func (x *examiner) endAll() {
	for _, s := range x.started {
		_ = x.cancel(s, nil, true)
	}
}

func (x *examiner) note(call Call) {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	x.calls = append(x.calls, call)
}

// subject is a run with what is asked to start it.
type subject struct {
	attempt
	request Submission
}

func (s subject) name() string { return s.run(nil).Name }

// brief is a trial that reports two metrics and ends, and failing one that fails.
// Each leaves a line where it can be seen how often it was started.
const (
	brief   = "cat here.txt; echo 'perennial: intermediate 0.25'; echo 'perennial: final 0.5'"
	failing = "exit 3"
)

// long is a trial that has to be ended, stubborn one that has to be by force.
var (
	long     = fmt.Sprintf("i=0; while [ $i -lt %d ]; do echo >>\"$BEATS\"; sleep 0.5; i=$((i+1)); done", 2*endless)
	stubborn = "trap '' TERM; " + long
)

// subject makes the number-th run of a rule, and starts nothing.
func (x *examiner) subject(number int, command string) (subject, error) {
	key := trial.Key{Experiment: x.Platform.section.Experiment, Sequence: x.first + number, Attempt: 1}
	a, err := x.Platform.enter(x.service, key)
	if err != nil {
		return subject{}, err
	}
	job := platforms.Job{
		Key: key, Workspace: platforms.Workspace{Directory: x.code}, Grace: endless * time.Second,
		Command:    fmt.Sprintf("BEATS='%s'; { echo started >>'%s'; } 2>/dev/null\n%s", a.Path(beats), a.Path(witness), command),
		Parameters: trial.Parameters(`{"x": 5.0}`),
		Parameter:  []byte(`{"parameter_id": 0, "parameter_source": "algorithm", "parameters": {"x": 5.0}, "parameter_index": 0}`),
	}
	if command == long {
		job.Grace = time.Second
	}
	if job.Workspace.Data, err = x.service.Prepare(x.ctx, x.code); err != nil {
		return subject{}, err
	}
	request, err := x.Platform.request(x.ctx, x.service, a, job)
	s := subject{a, request}
	x.mutex.Lock()
	defer x.mutex.Unlock()
	x.started = append(x.started, s)
	return s, err
}

// Files in a run's directory, where trials see that: witness has a line for each start,
// and beats grows as long as a long run does.
const (
	witness = "starts"
	beats   = "beats"
)

// begin makes a run and has it started.
func (x *examiner) begin(number int, command string) (subject, json.RawMessage, error) {
	s, err := x.subject(number, command)
	if err != nil {
		return s, nil, err
	}
	data, err := x.submit(s)
	return s, data, err
}

func (x *examiner) submit(s subject) (json.RawMessage, error) {
	return x.service.Submit(x.ctx, s.request)
}

// cancel asks as the platform does: with the intent written down before.
func (x *examiner) cancel(s subject, data json.RawMessage, force bool) error {
	intent, err := s.WriteIntent(trial.Intent{Cause: trial.CauseUser})
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(x.ctx), x.Patience)
	defer stop()
	return x.service.Cancel(ctx, Cancellation{s.run(data), intent, force || !s.Shared})
}

// poll asks how runs are, of which nothing is known but their names.
func (x *examiner) poll(after string, subjects ...subject) ([]Report, error) {
	var questions []Question
	for _, s := range subjects {
		questions = append(questions, Question{s.run(nil), after})
	}
	reports, err := x.service.Poll(x.ctx, questions)
	if err != nil {
		return nil, err
	}
	if len(reports) != len(subjects) {
		return nil, fmt.Errorf("poll was asked about %d runs and answered about %d", len(subjects), len(reports))
	}
	for _, told := range reports {
		if err := sound(told); err != nil {
			return nil, err
		}
	}
	return reports, nil
}

// sound tells what is wrong with a report by itself.
func sound(told Report) error {
	switch told.Phase {
	case Waiting, Running, Exited, Gone, Unknown:
	default:
		return fmt.Errorf("poll answered a phase that there is not: %q", told.Phase)
	}
	if told.Phase == Waiting && told.Reason.Text == "" {
		return errors.New("poll answered waiting without a reason, which people would read")
	}
	if wrong := told.wrongRecords(); wrong != "" {
		return errors.New(wrong)
	}
	return nil
}

// until polls a run until that is as wanted.
func (x *examiner) until(s subject, what string, wanted func(Report) (bool, error)) (Report, error) {
	for deadline := time.Now().Add(x.Patience); ; {
		told, err := x.poll("", s)
		if err != nil {
			return Report{}, err
		}
		if done, err := wanted(told[0]); done || err != nil {
			return told[0], err
		}
		if time.Now().After(deadline) {
			return told[0], fmt.Errorf("a run was not %s within %s: it reads %s", what, x.Patience, told[0].Phase)
		}
		if err := pause(x.ctx, min(x.service.Interval, x.Patience/4)); err != nil {
			return told[0], err
		}
	}
}

// running waits until a run's command has started.
func (x *examiner) running(s subject) error {
	_, err := x.until(s, "running", func(told Report) (bool, error) {
		if told.Phase == Exited || told.Phase == Gone {
			return false, fmt.Errorf("a run that has not ended reads %s", told.Phase)
		}
		if !s.Shared {
			return told.Phase == Running, nil
		}
		process, err := s.ReadProcess()
		return told.Phase == Running && process != nil, err
	})
	return err
}

// over waits until a run is over and returns how it ended: as the runner wrote down in
// a shared directory, or as the executable says. An exit of nil is one of which nobody
// knows.
func (x *examiner) over(s subject) (*trial.Exit, error) {
	var exit *trial.Exit
	_, err := x.until(s, "over", func(told Report) (bool, error) {
		exit = told.Exit
		if !s.Shared {
			if told.Phase == Exited && told.Exit == nil {
				return false, errors.New("poll answered exited without exit: how it ended")
			}
			return told.Phase == Exited || told.Phase == Gone, nil
		}
		seen, err := s.Observe()
		if err != nil || told.Phase != Exited && told.Phase != Gone {
			return false, err
		}
		if seen.Exit != nil {
			exit = &seen.Exit.Exit
			return true, nil
		}
		return s.quiet(), nil
	})
	return exit, err
}

// quiet tells whether a run's own directory has been as it is for a while, so that a
// start that is still on its way need not be waited for.
func (s subject) quiet() bool {
	last := time.Time{}
	for _, name := range []string{rundir.ProcessFile, rundir.IntentFile, rundir.JobFile} {
		if info, err := os.Stat(s.Path(name)); err == nil && info.ModTime().After(last) {
			last = info.ModTime()
		}
	}
	return time.Since(last) > arriving
}

const (
	// settling is how long something may still be on its way that nobody wants.
	settling = 3 * time.Second
	// arriving is how long a start may still be on its way whose process is not to be
	// seen yet, on a busy machine.
	arriving = 10 * time.Second
)

// settle waits for a second start of a run: in a shared directory it does nothing.
func (x *examiner) settle(s subject) error {
	if s.Shared {
		return nil
	}
	return pause(x.ctx, settling)
}

// dead waits until a run is over, and tells whether it really is, as far as that can
// be seen.
func (x *examiner) dead(s subject) (*trial.Exit, error) {
	exit, err := x.over(s)
	if err != nil {
		return nil, err
	}
	before, _ := os.Stat(s.Path(beats))
	if err := pause(x.ctx, settling); err != nil {
		return nil, err
	}
	after, _ := os.Stat(s.Path(beats))
	if before != nil && after != nil && after.Size() != before.Size() {
		return nil, errors.New("it still runs after it was told to be over")
	}
	return exit, nil
}

// once tells whether a run was started exactly once, as far as that can be seen, and
// has reported what a brief one reports.
func (x *examiner) once(s subject) error {
	exit, err := x.over(s)
	if err == nil {
		err = x.settle(s)
	}
	if err != nil {
		return err
	}
	if exit == nil || exit.Code != 0 {
		return fmt.Errorf("a run that ends with code 0 ended with %+v", exit)
	}
	starts, err := s.starts()
	if err == nil && starts > 1 {
		return fmt.Errorf("it was started %d times", starts)
	}
	if err != nil {
		return err
	}
	records, err := x.records(s)
	if err == nil && len(records) != 2 {
		return fmt.Errorf("a run that reports 2 metrics brought %d", len(records))
	}
	return err
}

// starts is how often a run is known to have started: 0 where that cannot be seen.
func (a attempt) starts() (int, error) {
	content, err := os.ReadFile(a.Path(witness))
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	return strings.Count(string(content), "\n"), err
}

// records returns all that a run has reported.
func (x *examiner) records(s subject) ([]metrics.Record, error) {
	if s.Shared {
		records, _, err := readJournal(s.attempt, "")
		return records, err
	}
	var all []metrics.Record
	for after := ""; ; {
		told, err := x.poll(after, s)
		if err != nil || len(told[0].Records) == 0 {
			return all, err
		}
		if number := told[0].Records[0].Number; number != int64(len(all)+1) {
			return nil, fmt.Errorf("after the cursor %q the record %d came, and %d were there before", after, number, len(all))
		}
		all, after = append(all, told[0].Records...), told[0].Next
	}
}
