package verbs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/perennial-ml/perennial/trial"
)

func shared(e *Examination) bool { return e.nature.shared() }
func alone(e *Examination) bool  { return !e.nature.shared() }

func having(verb string) func(*Examination) bool {
	return func(e *Examination) bool { return slices.Contains(e.Verbs, verb) }
}

// rules are the contract of docs/writing-a-platform.md, each tried on its own.
// testsuite/platformtest has the same of package platforms.
var rules = []rule{
	{"a run is waiting or running, and then over", nil, aRunEnds},
	{"a run that nobody submitted is gone", nil, anUnknownRunIsGone},
	{"submit called twice starts a run once", nil, submittedTwice},
	{"three submits at once start a run once", nil, submittedAtOnce},
	{"a run whose submit was answered to nobody is found by its name", nil, foundByName},
	{"a submit that was killed half-way is finished by the next", nil, killedHalfWay},
	{"submit of a run that has ended starts nothing", nil, submittedAfterTheEnd},
	{"reports come in the order in which runs are asked about", nil, inOrder},
	{"cancel ends a run that runs, and may be called again", nil, cancelled},
	{"cancel of a run that was never submitted keeps it from starting", nil, cancelledBefore},
	{"cancel of a run that has ended changes nothing", nil, cancelledAfter},
	{"cancel with force ends what does not end by itself", shared, forced},
	{"the exit code of a trial that fails is told", alone, exitCode},
	{"the same cursor gives the same records, and the next one what follows", alone, sameCursor},
	{"logs gives what a run printed, from a byte on", having("logs"), printed},
	{"prepare called twice answers the same", having("prepare"), preparedTwice},
	{cleaning, having("cleanUp"), cleanedTwice},
}

// cleaning is tried after all others, for it takes away what they need.
const cleaning = "cleanUp may be called twice, and the ends of runs are still told"

func aRunEnds(x *examiner) error {
	s, _, err := x.begin(0, brief)
	if err != nil {
		return err
	}
	return x.once(s)
}

func anUnknownRunIsGone(x *examiner) error {
	s, err := x.subject(0, brief)
	if err != nil {
		return err
	}
	told, err := x.poll("", s)
	if err == nil && told[0].Phase != Gone {
		return fmt.Errorf("a run that nobody submitted reads %s", told[0].Phase)
	}
	return err
}

func submittedTwice(x *examiner) error {
	s, _, err := x.begin(0, brief)
	if err == nil {
		_, err = x.submit(s)
	}
	if err != nil {
		return err
	}
	return x.once(s)
}

func submittedAtOnce(x *examiner) error {
	s, err := x.subject(0, brief)
	if err != nil {
		return err
	}
	var group sync.WaitGroup
	failures := make([]error, 3)
	for i := range failures {
		group.Go(func() { _, failures[i] = x.submit(s) })
	}
	group.Wait()
	if err := errors.Join(failures...); err != nil {
		return err
	}
	return x.once(s)
}

// foundByName asks about a run with data null, as poll does here always.
func foundByName(x *examiner) error {
	s, _, err := x.begin(0, long)
	if err == nil {
		err = x.running(s)
	}
	if err == nil {
		_, err = x.submit(s)
	}
	if err == nil {
		err = x.running(s)
	}
	if err == nil {
		err = x.cancel(s, nil, false)
	}
	if err == nil {
		_, err = x.dead(s)
	}
	return err
}

// killedHalfWay ends submits in the middle of all they do, and has each finished.
func killedHalfWay(x *examiner) error {
	whole, err := x.subject(0, brief)
	if err != nil {
		return err
	}
	before := time.Now()
	if _, err := x.submit(whole); err != nil {
		return err
	}
	lasts := time.Since(before)
	parts := []float64{0.1, 0.3, 0.5, 0.7, 0.9}
	failures := make([]error, len(parts))
	var group sync.WaitGroup
	for i, part := range parts {
		after := time.Duration(part * float64(lasts))
		group.Go(func() {
			if err := x.killed(i+1, after); err != nil {
				failures[i] = fmt.Errorf("after a submit was killed %s after its start: %w", after.Round(time.Millisecond), err)
			}
		})
	}
	group.Wait()
	return errors.Join(failures...)
}

func (x *examiner) killed(number int, after time.Duration) error {
	s, err := x.subject(number, brief)
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(x.ctx, after)
	defer stop()
	_, _ = x.service.Submit(ctx, s.request) // it is to fail
	if _, err := x.submit(s); err != nil {
		return err
	}
	return x.once(s)
}

func submittedAfterTheEnd(x *examiner) error {
	s, _, err := x.begin(0, brief)
	if err == nil {
		err = x.once(s)
	}
	if err == nil {
		_, err = x.submit(s)
	}
	if err != nil {
		return err
	}
	return x.once(s)
}

func inOrder(x *examiner) error {
	runs, _, err := x.begin(0, long)
	if err == nil {
		err = x.running(runs)
	}
	if err != nil {
		return err
	}
	never, err := x.subject(1, brief)
	if err != nil {
		return err
	}
	for _, asked := range [][]subject{{runs, never}, {never, runs}} {
		told, err := x.poll("", asked...)
		if err != nil {
			return err
		}
		for i, s := range asked {
			if (told[i].Phase == Running) != (s.Key == runs.Key) {
				return fmt.Errorf("asked about %s, which was not submitted, and %s, which runs, in the order %s, %s: answered %s, %s",
					never.name(), runs.name(), asked[0].name(), asked[1].name(), told[0].Phase, told[1].Phase)
			}
		}
	}
	return nil
}

func cancelled(x *examiner) error {
	s, data, err := x.begin(0, long)
	if err == nil {
		err = x.running(s)
	}
	for range 2 {
		if err == nil {
			err = x.cancel(s, data, false)
		}
	}
	if err != nil {
		return err
	}
	exit, err := x.dead(s)
	if err == nil && exit != nil && exit.Code == 0 && exit.Signal == "" {
		return errors.New("a run that was cancelled ended with exit code 0")
	}
	return err
}

func cancelledBefore(x *examiner) error {
	s, err := x.subject(0, brief)
	if err == nil {
		err = x.cancel(s, nil, false)
	}
	if err == nil {
		_, err = x.submit(s)
	}
	if err == nil {
		_, err = x.over(s)
	}
	if err == nil {
		err = x.settle(s)
	}
	if err != nil {
		return err
	}
	records, recordsErr := x.records(s)
	starts, err := s.starts()
	if err == nil && (starts > 0 || recordsErr == nil && len(records) > 0) {
		return errors.New("it was started although it had been cancelled before")
	}
	return err
}

func cancelledAfter(x *examiner) error {
	s, data, err := x.begin(0, brief)
	if err == nil {
		err = x.once(s)
	}
	for range 2 {
		if err == nil {
			err = x.cancel(s, data, false)
		}
	}
	if err != nil {
		return err
	}
	return x.once(s)
}

func forced(x *examiner) error {
	s, data, err := x.begin(0, stubborn)
	if err == nil {
		err = x.running(s)
	}
	if err == nil {
		err = x.cancel(s, data, true)
	}
	if err == nil {
		_, err = x.dead(s)
	}
	return err
}

func exitCode(x *examiner) error {
	s, _, err := x.begin(0, failing)
	if err != nil {
		return err
	}
	exit, err := x.over(s)
	if err == nil && (exit == nil || exit.Code != 3) {
		return fmt.Errorf("a run that ended with code 3 was told as %s", describeExit(exit))
	}
	return err
}

func describeExit(exit *trial.Exit) string {
	if exit == nil {
		return "gone, without a word of its end"
	}
	return fmt.Sprintf("exited with code %d", exit.Code)
}

func sameCursor(x *examiner) error {
	s, _, err := x.begin(0, brief)
	if err == nil {
		err = x.once(s)
	}
	if err != nil {
		return err
	}
	first, err := x.poll("", s)
	if err != nil {
		return err
	}
	again, err := x.poll("", s)
	if err == nil && !reflect.DeepEqual(first[0].Records, again[0].Records) {
		return errors.New("the same cursor gave other records the second time")
	}
	return err
}

func printed(x *examiner) error {
	s, data, err := x.begin(0, brief)
	if err == nil {
		_, err = x.over(s)
	}
	if err != nil {
		return err
	}
	whole, err := x.service.Logs(x.ctx, LogQuestion{s.run(data), "stdout", 0})
	if err != nil {
		return err
	}
	if !strings.Contains(whole, "code is here") {
		return fmt.Errorf("a run that prints %q is told to have printed %.200q", "code is here", whole)
	}
	rest, err := x.service.Logs(x.ctx, LogQuestion{s.run(nil), "stdout", 5})
	if err == nil && rest != whole[5:] {
		return fmt.Errorf("from byte 5 on it is told to have printed %.200q", rest)
	}
	return err
}

func preparedTwice(x *examiner) error {
	first, err := x.service.Prepare(x.ctx, x.code)
	if err != nil {
		return err
	}
	second, err := x.service.Prepare(x.ctx, x.code)
	if err == nil && !equalJSON(first, second) {
		return errors.New("the workspace is another one the second time")
	}
	return err
}

func equalJSON(one, other json.RawMessage) bool {
	var a, b any
	return (len(one) == 0 && len(other) == 0) || json.Unmarshal(one, &a) == nil && json.Unmarshal(other, &b) == nil && reflect.DeepEqual(a, b)
}

func cleanedTwice(x *examiner) error {
	s, _, err := x.begin(0, brief)
	if err == nil {
		err = x.once(s)
	}
	for range 2 {
		if err == nil {
			err = x.service.CleanUp(x.ctx)
		}
	}
	if err != nil {
		return err
	}
	return x.once(s)
}
