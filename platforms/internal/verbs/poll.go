package verbs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/perennial-ml/perennial/metrics"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/runner/rundir"
	"github.com/perennial-ml/perennial/trial"
)

// NodesDirectory is where, in a run's directory in a shared one, the further nodes of
// that run have a directory each, by their names, if it has any: with the runner's own in
// it called "attempt".
const (
	NodesDirectory = "nodes"
	nodesRun       = "attempt"
)

const (
	// neverStarted is the exit code of a run whose intent came before its start.
	neverStarted = -1
	// margin is what a runner has, beside the trial's grace, to end a run by itself.
	margin = 30 * time.Second
)

var streams = []string{rundir.Stdout, rundir.Stderr, rundir.TrialLog, trial.ParameterFile}

// starting is why a run waits that hardly can be there yet.
var starting = trial.Reason{Code: "starting", Text: "it was submitted and is not to be seen yet"}

// halfMade is why a run is Absent of which no submit ever came to its end.
var halfMade = trial.Reason{Code: "half-made", Text: "its submission was interrupted"}

// look is one question with what is known of its run here.
type look struct {
	platforms.Question
	attempt
	report platforms.Report
	data   json.RawMessage
	asked  bool // the service must say how the run is
}

// Poll implements platforms.Platform. One call asks about all runs whose end is not
// in their own directory.
func (p *Platform) Poll(ctx context.Context, questions []platforms.Question) ([]platforms.Report, error) {
	d, err := p.open(ctx, "poll")
	if err != nil {
		return nil, err
	}
	looks := make([]*look, len(questions))
	var asked []*look
	for i, question := range questions {
		looks[i] = p.look(question)
		if looks[i].asked {
			asked = append(asked, looks[i])
		}
	}
	if err := p.ask(ctx, d, asked); err != nil {
		return nil, err
	}
	reports := make([]platforms.Report, len(questions))
	for i, l := range looks {
		reports[i] = l.told()
	}
	return reports, nil
}

// look finds what can be said of a run without its service.
func (p *Platform) look(question platforms.Question) *look {
	l := &look{Question: question, report: platforms.Report{Key: question.Handle.Key, Phase: platforms.Absent}}
	a, err := p.find(question.Handle.Key)
	if errors.Is(err, os.ErrNotExist) {
		return l
	}
	l.attempt = a
	if err == nil {
		l.data, err = a.data()
	}
	if err == nil {
		err = l.observe()
	}
	if err != nil {
		l.report.Phase, l.report.Reason = platforms.Unreachable, trial.Reason{Code: "unreadable", Text: err.Error()}
	}
	return l
}

// observe reads what lies in the run's directory. The claim is held by who submits
// it, never by its runner, which is elsewhere.
func (l *look) observe() error {
	seen, err := l.Observe()
	if err != nil {
		return err
	}
	l.report.Intent = seen.Intent
	if l.Shared {
		l.report.Output = l.entry.Directory
	}
	if seen.Process != nil {
		l.report.Started = seen.Process.Started
	}
	switch {
	case seen.Exit != nil:
		l.exited(*seen.Exit)
	case l.data != nil:
		l.asked = true
	case seen.Held:
		l.report.Phase, l.report.Reason = platforms.Waiting, trial.Reason{Code: "starting", Text: "it is being submitted"}
	case l.mayRun(): // a submit whose answer was lost
		l.asked = true
	case seen.Intent != nil:
		l.never()
	default:
		l.report.Reason = halfMade
	}
	return nil
}

func (l *look) exited(exit rundir.ExitRecord) {
	l.report.Phase, l.report.Exit, l.report.Intent = platforms.Exited, &exit.Exit, exit.Intent
	l.report.Started, l.report.Ended = exit.Started, exit.Ended
}

func (l *look) never() {
	l.report.Phase = platforms.Exited
	l.report.Exit = &trial.Exit{Code: neverStarted, Text: "never started: it was cancelled before"}
}

// ask has the service say how runs are, unless it did so just before.
func (p *Platform) ask(ctx context.Context, d *service, asked []*look) error {
	if len(asked) == 0 {
		return nil
	}
	if told, good := p.heard.recall(asked, d.Interval); good {
		return hear(asked, told)
	}
	var questions []Question
	for _, l := range asked {
		questions = append(questions, Question{l.attempt.run(l.data), string(l.After)})
	}
	told, err := d.Poll(ctx, questions)
	if err != nil {
		return err
	}
	if len(told) != len(asked) {
		return platforms.Errorf(platforms.Transient, "poll", "%s was asked about %d runs and answered about %d", p.Name, len(asked), len(told))
	}
	p.heard.keep(asked, told)
	if err := hear(asked, told); err != nil {
		return err
	}
	d.enforceAll(ctx, asked)
	return nil
}

func hear(asked []*look, told []Report) error {
	for i, l := range asked {
		if err := l.hear(told[i]); err != nil {
			return err
		}
	}
	return nil
}

// hear takes over what the service says of a run.
func (l *look) hear(told Report) error {
	l.report.Reason = trial.Reason(told.Reason)
	if l.report.Reason.Text != "" && l.report.Reason.Code == "" {
		l.report.Reason = trial.Reason{Code: "platform", Text: told.Reason.Text}
	}
	if string(told.Data) == "null" {
		told.Data = nil
	}
	if told.Host != "" || told.URL != "" || told.TensorBoard != "" || told.Data != nil {
		if err := l.learn(told); err != nil {
			return err
		}
	}
	if l.report.Started.IsZero() {
		l.report.Started = told.Started
	}
	if !l.Shared {
		l.report.Output = told.Output
	}
	if wrong := told.wrongRecords(); wrong != "" && !l.Shared {
		l.report.Phase, l.report.Reason = platforms.Unreachable, trial.Reason{Code: "wrong-records", Text: wrong}
		return nil
	}
	if !l.Shared {
		l.report.Journal = &platforms.Journal{Records: told.Records, Next: platforms.Cursor(told.Next), More: told.More}
	}
	switch told.Phase {
	case Waiting:
		l.report.Phase = platforms.Waiting
		l.explain("its platform says that it waits, and not why")
	case Running:
		l.runs()
	case Exited:
		return l.ended(told)
	case Gone:
		return l.gone()
	case Unknown:
		l.report.Phase = platforms.Unreachable
		l.explain("its platform cannot tell how it is")
	default:
		l.report.Phase = platforms.Unreachable
		l.explain(fmt.Sprintf("its platform answers a phase that there is not: %.40q", told.Phase))
	}
	return nil
}

// wrongRecords tells what is wrong with a report's records, where taking them would
// lose some; empty where nothing is.
func (r Report) wrongRecords() string {
	for i, record := range r.Records {
		switch {
		case record.Kind != metrics.Periodical && record.Kind != metrics.Final && record.Kind != metrics.Unreadable:
			return fmt.Sprintf("its platform reports a record of kind %.40q: PERIODICAL and FINAL are known", record.Kind)
		case record.Number < 1 || record.Number != r.Records[0].Number+int64(i):
			return fmt.Sprintf("its platform reports a record with the number %d as the %d. of an answer: they are numbered from 1, without gaps", record.Number, i+1)
		}
	}
	if len(r.Records) > 0 && r.Next == "" {
		return "its platform reports records without next, the cursor after them"
	}
	return ""
}

// explain gives a run a reason where the service gave none.
func (l *look) explain(text string) {
	if l.report.Reason.Text == "" {
		l.report.Reason = trial.Reason{Code: "platform", Text: text}
	}
}

// runs is a run whose command has started, as its directory tells where that is
// shared: what the service sees may still be on its way there.
func (l *look) runs() {
	l.report.Phase = platforms.Running
	if l.Shared && l.report.Started.IsZero() {
		l.report.Phase, l.report.Reason = platforms.Waiting, trial.Reason{Code: "starting", Text: "its runner is starting"}
	}
}

// learn keeps what is known of a run only after its submit.
func (l *look) learn(told Report) error {
	if told.Data != nil && string(told.Data) != string(l.data) {
		if err := l.keep(told.Data); err != nil {
			return fileFault("poll", err)
		}
		l.data = told.Data
	}
	now := l.attempt.handle(l.data)
	now.Host, now.URL, now.TensorBoard = told.Host, told.URL, told.TensorBoard
	before := l.Handle
	if now.Host != before.Host || now.URL != before.URL || now.TensorBoard != before.TensorBoard || string(now.Data) != string(before.Data) {
		l.report.Handle = &now
	}
	return nil
}

// ended is a run that the service saw end. What its own directory says of the end
// stands before that: it may have come there since.
func (l *look) ended(told Report) error {
	if found, err := l.endFound(); err != nil || found {
		return err
	}
	l.report.Phase, l.report.Exit, l.report.Ended = platforms.Exited, told.Exit, told.Ended
	if told.Exit == nil {
		l.report.Exit = &trial.Exit{Code: 1, Text: "the platform did not say how it ended"}
	}
	if l.report.Exit.Code == 0 {
		l.report.Intent = nil // it ended by itself
	}
	if l.report.Intent != nil && l.report.Exit.Outside { // it was ours, by way of the service
		exit := *l.report.Exit
		exit.Outside, l.report.Exit = false, &exit
	}
	return nil
}

// endFound reads a run's directory again, and tells whether its end is there now.
func (l *look) endFound() (bool, error) {
	why := l.report.Reason
	if l.Shared {
		rundir.Refresh(l.entry.Directory)
	}
	if err := l.observe(); err != nil {
		return false, fileFault("poll", err)
	}
	if l.report.Phase != platforms.Exited {
		l.report.Reason = why
		return false, nil
	}
	l.report.Reason, l.report.Handle = trial.Reason{}, nil // as when nobody is asked any more
	return true, nil
}

// gone is a run that the service does not find any more. Its directory is read
// again: it may have ended since.
func (l *look) gone() error {
	if found, err := l.endFound(); err != nil || found {
		return err
	}
	seen, err := l.Observe()
	switch {
	case err != nil:
		return fileFault("poll", err)
	case seen.Intent != nil && seen.Process == nil:
		l.never()
	case seen.Process == nil && l.Shared && l.fresh():
		l.report.Phase, l.report.Reason = platforms.Waiting, starting
	case seen.Process == nil && l.data == nil: // no submit has been answered: the next one may start it
		l.report.Phase, l.report.Reason = platforms.Absent, halfMade
	default:
		l.report.Phase = platforms.Lost
		if l.report.Reason.Zero() {
			l.report.Reason = trial.Reason{Code: "gone", Text: "its platform does not know it any more, and it left no word of its end"}
		}
	}
	return nil
}

// fresh tells whether the run was submitted so short a time ago that it need not be
// there yet.
func (l *look) fresh() bool {
	info, err := os.Stat(l.answered)
	return err == nil && time.Since(info.ModTime()) < margin
}

// enforceAll ends by force what had all the time there is, all at once and
// within forcedAfter: the rest has its turn with the next poll.
func (d *service) enforceAll(ctx context.Context, asked []*look) {
	ctx, cancel := context.WithTimeout(ctx, forcedAfter)
	defer cancel()
	var group sync.WaitGroup
	for _, l := range asked {
		group.Go(func() { d.enforce(ctx, l) })
	}
	group.Wait()
}

// enforce ends a run by force that had all the time there is to end by itself.
func (d *service) enforce(ctx context.Context, l *look) {
	if l.report.Phase != platforms.Running || l.report.Intent == nil || !l.Shared {
		return
	}
	since, err := os.Stat(l.Path(rundir.IntentFile))
	spec, specErr := l.ReadSpec()
	if err != nil || specErr != nil || time.Since(since.ModTime()) < spec.Grace+margin {
		return
	}
	// A failure comes again with the next poll, which says why the run still is.
	if err := d.Cancel(ctx, Cancellation{l.attempt.run(l.data), *l.report.Intent, true}); err != nil {
		l.report.Reason = trial.Reason{Code: "cannot-end", Text: "it does not end, and its platform cannot end it by force: " + err.Error()}
	}
}

// told is the report, with the journal where that lies in a shared directory.
func (l *look) told() platforms.Report {
	if !l.Shared || l.report.Phase == platforms.Unreachable {
		return l.report
	}
	records, next, err := readJournal(l.attempt, l.After)
	if err != nil {
		return l.report // Collect says why
	}
	l.report.Journal = &platforms.Journal{Records: records, Next: next}
	if more, _, err := readJournal(l.attempt, next); err == nil {
		l.report.Journal.More = len(more) > 0
	}
	return l.report
}

// readJournal reads what follows a cursor, an offset in bytes.
func readJournal(a attempt, after platforms.Cursor) ([]metrics.Record, platforms.Cursor, error) {
	offset, err := strconv.ParseInt("0"+string(after), 10, 64)
	if err != nil {
		return nil, after, platforms.Errorf(platforms.Invalid, "collect", "%q is no cursor of this platform", after)
	}
	records, next, err := metrics.ReadJournal(a.Path(rundir.JournalFile), offset)
	switch {
	case errors.Is(err, metrics.ErrNoJournal):
		return nil, after, platforms.Errorf(platforms.NotFound, "collect", "%w", err)
	case err != nil || len(records) == 0:
		return nil, after, fileFault("collect", err)
	}
	return records, platforms.Cursor(strconv.FormatInt(next, 10)), nil
}

// Collect implements platforms.Platform.
func (p *Platform) Collect(ctx context.Context, handle platforms.Handle, after platforms.Cursor) ([]metrics.Record, platforms.Cursor, error) {
	a, err := p.find(handle.Key)
	if errors.Is(err, os.ErrNotExist) {
		return nil, after, nil
	}
	if err != nil {
		return nil, after, fileFault("collect", err)
	}
	if a.Shared {
		return readJournal(a, after)
	}
	reports, err := p.Poll(ctx, []platforms.Question{{Handle: handle, After: after}})
	if err != nil || reports[0].Journal == nil || len(reports[0].Journal.Records) == 0 {
		return nil, after, err
	}
	return reports[0].Journal.Records, reports[0].Journal.Next, nil
}

// Cancel implements platforms.Platform. The intent is on this machine's disk, or in
// the shared directory where the runner finds it, before the service hears of it.
func (p *Platform) Cancel(ctx context.Context, handle platforms.Handle, intent trial.Intent) error {
	d, err := p.open(ctx, "cancel")
	if err != nil {
		return err
	}
	a, err := p.enter(d, handle.Key)
	if err != nil {
		return fileFault("cancel", err)
	}
	return fileFault("cancel", p.end(ctx, d, a, intent, false))
}

// end notes an intent and has the service end the run; a run that was never
// submitted never is.
func (p *Platform) end(ctx context.Context, d *service, a attempt, intent trial.Intent, force bool) error {
	seen, err := a.Observe()
	if err != nil || seen.Exit != nil {
		return err
	}
	first, err := a.WriteIntent(intent)
	if err != nil {
		return err
	}
	claim, err := claimed(ctx, a.Run) // a submit that is under way comes to its end first
	if err != nil {
		return err
	}
	defer claim.Close()
	data, err := a.data()
	if err != nil || data == nil && !a.mayRun() {
		return err
	}
	return d.Cancel(ctx, Cancellation{a.run(data), first, force || !a.Shared})
}

// mayRun tells whether a service may have started a run although no answer of it
// came: whether all that is written before it is called is there.
func (a attempt) mayRun() bool {
	last := trial.ParameterFile
	if a.Shared {
		last = rundir.JobFile
	}
	_, err := os.Stat(a.Path(last))
	return !errors.Is(err, os.ErrNotExist)
}

// Logs implements platforms.WithLogs.
func (p *Platform) Logs(ctx context.Context, handle platforms.Handle, wanted platforms.Log) (io.ReadCloser, error) {
	if !slices.Contains(streams, wanted.Stream) {
		return nil, platforms.Errorf(platforms.NotFound, "logs", "there is no stream %q, only %v", wanted.Stream, streams)
	}
	a, err := p.find(handle.Key)
	if errors.Is(err, os.ErrNotExist) {
		return io.NopCloser(strings.NewReader("")), nil
	}
	if err != nil {
		return nil, fileFault("logs", err)
	}
	if a.Shared && wanted.Replica != "" {
		return a.openReplica(wanted)
	}
	if a.Shared || wanted.Stream == trial.ParameterFile {
		return openFrom(a.Path(wanted.Stream), wanted.From)
	}
	return p.askLogs(ctx, a, wanted)
}

// openReplica opens what one of the further nodes of a run printed.
func (a attempt) openReplica(wanted platforms.Log) (io.ReadCloser, error) {
	entries, err := os.ReadDir(a.Path(NodesDirectory))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fileFault("logs", err)
	}
	var names []string
	for _, one := range entries {
		names = append(names, one.Name())
	}
	if !slices.Contains(names, wanted.Replica) {
		return nil, platforms.Errorf(platforms.NotFound, "logs", "there is no replica %q beside the one that decides, only %v", wanted.Replica, names)
	}
	return openFrom(a.Path(filepath.Join(NodesDirectory, wanted.Replica, nodesRun, wanted.Stream)), wanted.From)
}

func openFrom(path string, from int64) (io.ReadCloser, error) {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return io.NopCloser(strings.NewReader("")), nil
	}
	if err != nil {
		return nil, fileFault("logs", err)
	}
	_, err = file.Seek(from, io.SeekStart)
	return file, fileFault("logs", err)
}

func (p *Platform) askLogs(ctx context.Context, a attempt, wanted platforms.Log) (io.ReadCloser, error) {
	d, err := p.open(ctx, "logs")
	if err != nil {
		return nil, err
	}
	data, err := a.data()
	if err != nil {
		return nil, fileFault("logs", err)
	}
	text, err := d.Logs(ctx, LogQuestion{a.run(data), wanted.Stream, wanted.From})
	return io.NopCloser(strings.NewReader(text)), err
}

// CleanUp implements platforms.WithCleanup. In a shared directory everything stays:
// code for who resumes the experiment, and what trials left.
func (p *Platform) CleanUp(ctx context.Context) error {
	d, err := p.open(ctx, "cleanUp")
	if err != nil {
		return err
	}
	return d.CleanUp(ctx)
}

// Remove implements platforms.WithRemoval: what trials left goes, in a shared directory
// too, and then what their runs are known by. The service is asked only where the
// directory is.
func (p *Platform) Remove(ctx context.Context) error {
	d, err := p.open(ctx, "remove")
	if err != nil {
		return err
	}
	if d.shared() {
		err = rundir.RemoveTree(d.home(p.section.Experiment))
	} else {
		err = p.removeApart()
	}
	if err == nil {
		err = os.RemoveAll(p.register.Folder(p.section.Experiment))
	}
	return fileFault("remove", err)
}

// removeApart removes what is on this machine of runs that have no shared directory.
func (p *Platform) removeApart() error {
	all, err := p.register.List(p.section.Experiment)
	for _, known := range all {
		if !known.Shared {
			err = errors.Join(err, rundir.RemoveTree(known.Directory))
		}
	}
	return err
}
