package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/fake"
	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
)

const (
	longGlance   = 20 * time.Millisecond
	longPatience = time.Hour
	downFor      = 2 * time.Second // how long nobody is there after a kill
)

// longRun is thousands of trials without processes, hundreds at a time, with the
// host killed in the middle.
type longRun struct {
	*Perennial
	plan     Plan
	id       string
	store    *record.Store
	platform platforms.Platform
	returns  []comeback
}

// comeback is how long a host that was killed took, from the command that starts
// the next one, until every end that it had missed was on record (seen), and until
// those trials were settled and about as many ran again as before (driven).
type comeback struct{ seen, driven time.Duration }

const longExperiment = `experimentName: long
searchSpace:
  x: {_type: uniform, _value: [0, 1]}
trialCommand: none
trialCodeDirectory: .
trialConcurrency: %d
maxTrialNumber: %d
tuner:
  name: Random
trainingService:
  platform: fake
  duration: [20, 40]
  intermediates: [0.1, 0.2, 0.3]
  final: 0.4
`

// long runs and judges the long run.
func (b *Bench) long(plan Plan) error {
	p, err := b.newPerennial()
	if err != nil {
		return err
	}
	l := &longRun{Perennial: p, plan: plan, platform: fake.New(fake.Options{StateDirectory: p.home}).Open(platforms.Section{Platform: fake.Name})}
	if err := l.start(b.scratch); err != nil {
		return err
	}
	defer l.store.Close()
	defer b.spin()()
	before, watch := load(), newWatch()
	early, late, err := l.follow()
	if err != nil {
		return err
	}
	return errors.Join(l.report(early, late, before, watch.others(0)), p.stop())
}

// spin keeps the hosts' cores busy until the function it returns is called.
func (b *Bench) spin() (stop func()) {
	var spinning []*exec.Cmd
	for range b.spinning {
		command := exec.Command("taskset", "-c", b.cores, "sh", "-c", "while :; do :; done")
		if err := command.Start(); err != nil {
			say("spin: %v", err)
			continue
		}
		spinning = append(spinning, command)
	}
	return func() {
		for _, command := range spinning {
			_ = command.Process.Kill()
			_ = command.Wait()
		}
	}
}

func (l *longRun) start(scratch string) error {
	file := filepath.Join(scratch, "long.yml")
	text := fmt.Sprintf(longExperiment, l.plan.Parallel, l.plan.Long)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		return err
	}
	if _, err := l.do("run", file, "--detach"); err != nil {
		return err
	}
	list, err := l.do("ls", "--output", "json")
	if err != nil {
		return err
	}
	var experiments []struct{ ID string }
	if err := json.Unmarshal([]byte(list), &experiments); err != nil || len(experiments) != 1 {
		return fmt.Errorf("one experiment should be listed: %s", list)
	}
	l.id = experiments[0].ID
	l.store, err = record.OpenReadOnly(filepath.Join(l.home, "record.sqlite"))
	return err
}

// follow kills the host when two and three fifths of the trials have ended, and
// returns its memory after the first fifth and at the end, in MB.
func (l *longRun) follow() (early, late float64, err error) {
	fifth := l.plan.Long / 5
	if err := l.await(fifth); err != nil {
		return 0, 0, err
	}
	early = l.memory()
	for _, ended := range []int{2 * fifth, 3 * fifth} {
		if err := l.await(ended); err != nil {
			return 0, 0, err
		}
		if err := l.kill(); err != nil {
			return 0, 0, err
		}
	}
	err = l.await(l.plan.Long)
	return early, l.memory(), err
}

func (l *longRun) memory() float64 {
	host, err := l.host()
	if err != nil {
		return 0
	}
	return residentMB(host)
}

// await waits until so many trials have ended.
func (l *longRun) await(ended int) error {
	say("waiting for %d ended trials", ended)
	return l.until(time.Second, func() (bool, error) {
		row, err := l.store.Experiment(context.Background(), l.id)
		if err != nil {
			return false, err
		}
		unsettled, err := l.store.Unsettled(context.Background(), l.id)
		return row.Asked-len(unsettled) >= ended, err
	})
}

func (l *longRun) until(glance time.Duration, holds func() (bool, error)) error {
	for deadline := time.Now().Add(longPatience); time.Now().Before(deadline); time.Sleep(glance) {
		if done, err := holds(); done || err != nil {
			return err
		}
	}
	return fmt.Errorf("not seen within %v", longPatience)
}

// kill kills the host, leaves trials alone for a while, and watches the next one
// take up the work.
func (l *longRun) kill() error {
	host, err := l.host()
	if err != nil {
		return err
	}
	full, err := l.running()
	if err != nil {
		return err
	}
	process, err := os.FindProcess(host)
	if err == nil {
		err = process.Kill()
	}
	if err != nil {
		return err
	}
	time.Sleep(downFor)
	missed, err := l.missed()
	if err != nil {
		return err
	}
	started, served := time.Now(), make(chan error, 1)
	go func() { served <- l.serve() }()
	var back comeback
	if back.seen, err = l.since(started, missed, func(a record.Attempt) bool { return a.Drained }); err != nil {
		return err
	}
	if back.driven, err = l.since(started, missed, func(a record.Attempt) bool { return a.Outcome != "" }); err != nil {
		return err
	}
	err = l.until(longGlance, func() (bool, error) {
		running, err := l.running()
		return running >= 24*full/25, err
	})
	back.driven = time.Since(started)
	say("killed at %d missed ends: seen after %v, driven after %v", len(missed), back.seen, back.driven)
	l.returns = append(l.returns, back)
	return errors.Join(err, <-served)
}

// missed are the open attempts that ended while nobody was there, as the platform
// itself tells.
func (l *longRun) missed() (missed []trial.Key, err error) {
	open, err := l.store.OpenAttempts(context.Background(), fake.Name)
	if err != nil {
		return nil, err
	}
	handles := make([]platforms.Handle, len(open))
	for i, attempt := range open {
		handles[i] = platforms.Handle{Format: 1, Platform: fake.Name, Key: attempt.Key}
	}
	reports, err := l.platform.Poll(context.Background(), platforms.Ask(handles...))
	for _, report := range reports {
		if report.Phase.Definite() {
			missed = append(missed, report.Key)
		}
	}
	return missed, err
}

// since tells when something held for all of some attempts.
func (l *longRun) since(started time.Time, keys []trial.Key, holds func(record.Attempt) bool) (time.Duration, error) {
	err := l.until(longGlance, func() (bool, error) {
		for len(keys) > 0 {
			attempt, err := l.store.Attempt(context.Background(), keys[0])
			if err != nil || !holds(attempt) {
				return false, err
			}
			keys = keys[1:]
		}
		return true, nil
	})
	return time.Since(started), err
}

// running is how many runs the platform itself calls running.
func (l *longRun) running() (count int, err error) {
	open, err := l.store.OpenAttempts(context.Background(), fake.Name)
	if err != nil {
		return 0, err
	}
	handles := make([]platforms.Handle, len(open))
	for i, attempt := range open {
		handles[i] = platforms.Handle{Format: 1, Platform: fake.Name, Key: attempt.Key}
	}
	reports, err := l.platform.Poll(context.Background(), platforms.Ask(handles...))
	for _, report := range reports {
		if report.Phase == platforms.Running {
			count++
		}
	}
	return count, err
}

// report prints what the record tells of the whole run.
func (l *longRun) report(early, late, before, busy float64) error {
	trials, err := l.store.Trials(context.Background(), l.id)
	if err != nil {
		return err
	}
	var starts, ends []time.Time
	once, succeeded := 0, 0
	for _, row := range trials {
		if row.Attempts == 1 {
			once++
		}
		if row.State == trial.Succeeded {
			succeeded++
		}
		starts, ends = append(starts, row.Started), append(ends, row.Ended)
	}
	first, last := l.thousands(ends)
	fmt.Printf("\n### %d trials of 20–40 s on platform fake, concurrency %d, the host killed twice\n\n", l.plan.Long, l.plan.Parallel)
	fmt.Println("| what | measured | target |")
	fmt.Println("|--|--|--|")
	fmt.Printf("| trials that ran once and SUCCEEDED | %d and %d of %d | all |\n", once, succeeded, l.plan.Long)
	fmt.Printf("| running at the peak | %d | ≥ %d |\n", peak(starts, ends), 24*l.plan.Parallel/25)
	for i, back := range l.returns {
		fmt.Printf("| after kill %d: seen, driven | %.1f s, %.1f s | 1 s, 10 s |\n", i+1, back.seen.Seconds(), back.driven.Seconds())
	}
	fmt.Printf("| host's memory after %d trials and at the end | %.0f MB, %.0f MB | at most 1.1 times |\n", l.plan.Long/5, early, late)
	fmt.Printf("| trials a second in the second fifth and the last full one | %.1f, %.1f | within 10 %% |\n", first, last)
	fmt.Printf("\nLoad average before: %.1f. Processors that everything on the machine used meanwhile, this run included: %.1f.\n", before, busy)
	return nil
}

// thousands are the trials a second while a fifth of the trials ended: the first
// fifth after the beginning, in which all start together, and the last one that
// ended before slots were left empty.
func (l *longRun) thousands(ends []time.Time) (first, last float64) {
	slices.SortFunc(ends, time.Time.Compare)
	fifth, full := len(ends)/5, len(ends)-l.plan.Parallel
	rate := func(from int) float64 {
		to := from + fifth
		return float64(fifth) / ends[to-1].Sub(ends[from]).Seconds()
	}
	return rate(l.plan.Parallel), rate(full - fifth)
}

// peak is the largest number of trials that ran at the same time.
func peak(starts, ends []time.Time) (highest int) {
	slices.SortFunc(starts, time.Time.Compare)
	slices.SortFunc(ends, time.Time.Compare)
	ended := 0
	for started, at := range starts {
		for ended < len(ends) && !ends[ended].After(at) {
			ended++
		}
		highest = max(highest, started+1-ended)
	}
	return highest
}
