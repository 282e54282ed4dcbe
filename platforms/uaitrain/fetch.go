package uaitrain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/perennial-ml/perennial/codedir"
	"github.com/perennial-ml/perennial/metrics"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/internal/verbs"
	"github.com/perennial-ml/perennial/runner/rundir"
	"github.com/perennial-ml/perennial/runner/stream"
)

const (
	// logsAPoll is how many jobs' logs one poll reads, and logsEvery for how many
	// intervals a job's log is not read again: what is left out comes with the output.
	logsAPoll = 5
	logsEvery = 3
	// fetchPatience is what a poll waits for output that is small.
	fetchPatience = 2 * time.Second
	fetchesAtOnce = 4
)

// turn is what one poll may still spend.
type turn struct {
	logs  int
	until time.Time
}

// fetching is output on its way from the bucket.
type fetching struct {
	mutex       sync.Mutex
	done, total int64
	over        chan struct{}
	err         error // once it is over
}

func (f *fetching) progress() string {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return fmt.Sprintf("its output is being fetched: %.1f of %.1f MB", float64(f.done)/1e6, float64(f.total)/1e6)
}

func (f *fetching) add(done, total int64) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.done, f.total = f.done+done, f.total+total
}

// fetch brings what a job left into its run's directory, beside the polls, and says how
// far that is; and once it is done, how the run ended.
func (a apart) fetch(question verbs.Question, one job, told verbs.Report, now *turn) (verbs.Report, error) {
	if known, err := fetched(question); err == nil && known != nil { // another asked about it just now
		return *known, nil
	}
	f := a.memory.fetching(question.Name, func(f *fetching) { a.fetches.Go(func() { a.bring(f, question.Run, one) }) })
	select {
	case <-f.over:
	case <-time.After(time.Until(now.until)):
		told.Phase, told.Reason = verbs.Running, verbs.Reason{Code: "fetching", Text: f.progress()}
		return told, nil
	}
	a.memory.fetched(question.Name)
	if f.err != nil {
		told.Phase, told.Reason = verbs.Unknown, verbs.Reason{Code: "fetching", Text: "its output cannot be fetched: " + f.err.Error()}
		return told, nil
	}
	known, err := fetched(question)
	if err != nil {
		return told, platforms.Errorf(platforms.Transient, "poll", "%w", err)
	}
	return *known, nil
}

// bring fetches all that a job left. Where it is killed it is begun anew, by whoever
// polls next.
func (a apart) bring(f *fetching, run verbs.Run, one job) {
	defer close(f.over)
	a.slots <- struct{}{}
	defer func() { <-a.slots }()
	ctx, cancel := context.WithCancel(a.open)
	defer cancel()
	if f.err = a.download(ctx, f, run, one); f.err == nil {
		f.err = keep(run, conclude(run, one))
	}
	if f.err == nil && !a.Keep {
		_ = bucket{a.client}.clear(ctx, "poll", a.key(one.Output)) // CleanUp finds what is left
	}
}

func (a apart) download(ctx context.Context, f *fetching, run verbs.Run, one job) error {
	prefix := a.key(one.Output)
	all, err := bucket{a.client}.list(ctx, "poll", prefix)
	if err != nil {
		return err
	}
	for _, from := range all {
		f.add(0, from.size)
	}
	for _, from := range all {
		path := below(outputOf(run), prefix, from.key)
		if path == "" {
			continue
		}
		if err := (bucket{a.client}).get(ctx, from, path, func(n int) { f.add(int64(n), 0) }); err != nil {
			return err
		}
	}
	return rundir.MakeDirectory(outputOf(run))
}

// outputOf is the directory of what a run's job left, as the job had it.
func outputOf(run verbs.Run) string { return filepath.Join(run.Directory, "output") }

// leftBy is the directory in it of the runner, with the trial's output, metrics and logs;
// it is not there where the runner never came to write it.
func leftBy(run verbs.Run) string { return filepath.Join(outputOf(run), "attempt") }

// conclude is how a run ended, by what its job left.
func conclude(run verbs.Run, one job) verbs.Report {
	exit, err := rundir.Run{Directory: leftBy(run)}.ReadExit()
	switch {
	case err == nil && exit != nil:
		return verbs.Report{Phase: verbs.Exited, Exit: &exit.Exit, Started: exit.Started, Ended: exit.Ended}
	case one.Status == "Stopped" && one.Started > 0:
		return verbs.Report{Phase: verbs.Exited, Exit: outside(one.ID), Started: time.Unix(one.Started, 0), Ended: time.Unix(max(one.Started, one.Ended), 0)}
	}
	return verbs.Report{Phase: verbs.Gone, Reason: one.report("", settings{}).Reason}
}

func kept(run verbs.Run) string { return filepath.Join(run.Directory, "fetched.json") }

// keep writes down how a run ended: from then on nobody is asked about it.
func keep(run verbs.Run, how verbs.Report) error {
	content, err := json.Marshal(how)
	if err != nil {
		return err
	}
	return rundir.WriteFile(kept(run), content, 0o600)
}

// fetched is how a run ended whose output is here, with the records after the question's
// cursor; nil where it is not here yet.
func fetched(question verbs.Question) (*verbs.Report, error) {
	content, err := os.ReadFile(kept(question.Run))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	var told verbs.Report
	if err == nil {
		err = json.Unmarshal(content, &told)
	}
	if err != nil {
		return nil, err
	}
	told.Data, told.Next = nil, question.After
	if _, err := os.Stat(leftBy(question.Run)); err == nil {
		told.Output = leftBy(question.Run)
	}
	if told.Records, told.More, err = records(question); len(told.Records) > 0 {
		told.Next = strconv.FormatInt(told.Records[len(told.Records)-1].Number, 10)
	}
	return &told, err
}

// records reads what follows a cursor, the number of a record, of a journal that is
// here.
func records(question verbs.Question) (found []metrics.Record, more bool, err error) {
	path, after := filepath.Join(leftBy(question.Run), rundir.JournalFile), number(question.After)
	for offset := int64(0); len(found) == 0; {
		read, next, err := metrics.ReadJournal(path, offset)
		if errors.Is(err, metrics.ErrNoJournal) || err == nil && len(read) == 0 {
			return nil, false, nil
		}
		if err != nil {
			return nil, false, err
		}
		for _, record := range read {
			if record.Number > after {
				found = append(found, record)
			}
		}
		offset = next
		if len(found) > 0 {
			rest, _, err := metrics.ReadJournal(path, next)
			return found, len(rest) > 0, err
		}
	}
	return found, false, nil
}

// number is the number of the last record before a cursor.
func number(cursor string) int64 {
	n, _ := strconv.ParseInt(cursor, 10, 64) // the empty one is the beginning
	return n
}

// log is the log of a job, as much of it as the service still has.
func (a apart) log(ctx context.Context, verb, id string) (lines []string, err error) {
	topics := a.memory.topicsOf(id)
	if len(topics) == 0 {
		if topics, err = a.topics(ctx, verb, id); err != nil {
			return nil, err
		}
	}
	for _, topic := range topics {
		var told struct{ RunningLog []string }
		if err := a.call(ctx, verb, "GetUAITrainRunningLog", map[string]any{"TrainJobId": id, "LogTopicId": topic}, &told); err != nil {
			return nil, err
		}
		lines = append(lines, told.RunningLog...)
	}
	return lines, nil
}

// topics are the names of a job's logs.
func (a apart) topics(ctx context.Context, verb, id string) (names []string, err error) {
	var told struct{ DataSet []struct{ TopicId string } }
	err = a.call(ctx, verb, "GetUAITrainRunningLogTopicList", map[string]any{"TrainJobId": id}, &told)
	for _, topic := range told.DataSet {
		names = append(names, topic.TopicId)
	}
	a.memory.knowTopics(id, names)
	return names, err
}

// logged is what the log of a job has of its run's records after the cursor. What it does
// not have comes with the output.
func (a apart) logged(ctx context.Context, question verbs.Question, id string, now *turn) ([]metrics.Record, string) {
	if now.logs == 0 || !a.memory.readsLog(id, logsEvery*a.Interval) {
		return nil, question.After
	}
	now.logs--
	lines, err := a.log(ctx, "poll", id)
	if err != nil {
		return nil, question.After
	}
	reader := stream.NewReader(question.Key, number(question.After))
	found := reader.Feed([]byte(strings.Join(lines, "\n") + "\n"))
	if len(found) == 0 {
		return nil, question.After
	}
	return found, strconv.FormatInt(reader.After(), 10)
}

// codeFault tells what a person must mend in the code from what passes by itself.
func codeFault(err error) error {
	if errors.Is(err, codedir.ErrTooLarge) || errors.Is(err, codedir.ErrLinkLeaves) {
		return platforms.Errorf(platforms.Invalid, "prepare", "%w", err)
	}
	return platforms.Errorf(platforms.Transient, "prepare", "%w", err)
}
