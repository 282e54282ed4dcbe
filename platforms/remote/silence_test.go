package remote

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/machine"
	"github.com/perennial-ml/perennial/machine/agent"
	"github.com/perennial-ml/perennial/metrics"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/trial"
)

func placed() placement {
	return placement{Key: trial.Key{Experiment: "abcdefgh", Attempt: 1}, Address: Address{Host: "gpu1"}, Site: "site", Boot: "boot"}
}

// silentFor is a platform whose only machine has not been heard of for so long.
func silentFor(t *testing.T, silence time.Duration, section string) (*platform, *host) {
	resolve := func(context.Context) (json.RawMessage, error) { return json.RawMessage(section), nil }
	p := newKind(Options{StateDirectory: t.TempDir()}).open(platforms.Section{Platform: Name, Experiment: "abcdefgh", Resolve: resolve})
	h := newHost(p, machineEntry{Address: Address{Host: "gpu1"}})
	h.heard = time.Now().Add(-silence)
	h.asked = h.heard.Add(time.Nanosecond)
	p.hosts[h.address] = h
	return p, h
}

func TestASilentMachineMakesItsRunsUnreachableForEverByDefault(t *testing.T) {
	p, h := silentFor(t, 10000*time.Hour, `{"machineList":[{"host":"gpu1"}]}`)
	report := p.silent(h, batchOf(asked{placement: placed()}), errors.New("no route to host"))[0]
	require.Equal(t, platforms.Unreachable, report.Phase)
	require.Equal(t, "no route to host", report.Reason.Text)
}

func TestASilentMachinesRunsAreLostWhenHostLostAfterAndAMarginHavePassed(t *testing.T) {
	const section = `{"machineList":[{"host":"gpu1"}],"hostLostAfter":600}`
	p, h := silentFor(t, 10*time.Minute+lostMargin/2, section)
	require.Equal(t, platforms.Unreachable, p.silent(h, batchOf(asked{placement: placed()}), errors.New("down"))[0].Phase)
	p, h = silentFor(t, 11*time.Minute, section)
	h.saw(placed().Key, false)
	report := p.silent(h, batchOf(asked{placement: placed()}), errors.New("down"))[0]
	require.Equal(t, platforms.Lost, report.Phase)
	require.Equal(t, "host-lost", report.Reason.Code)
	require.Empty(t, h.open, "nobody need stay connected for its sake")
	_, _, err := p.Collect(t.Context(), placed().handle(), "")
	require.Equal(t, platforms.NotFound, platforms.CodeOf(err), "and its journal is not waited for")
}

func TestAMachineThatNobodyAskedIsNotSilent(t *testing.T) {
	p, h := silentFor(t, time.Hour, `{"machineList":[{"host":"gpu1"}],"hostLostAfter":600}`)
	h.heard = h.asked.Add(time.Nanosecond)
	require.False(t, p.lost(placed()))
	h.ask()
	require.Less(t, h.silence(placed()), time.Minute)
}

func TestAMachineThatOwesAnAnswerIsNotGivenATrialByItsLastWord(t *testing.T) {
	_, h := silentFor(t, 2*answerDue, `{"machineList":[{"host":"gpu1"}]}`)
	h.looked = time.Now()
	_, good := h.recall()
	require.False(t, good)
	h.told(agent.Facts{DiskFree: 7})
	facts, good := h.recall()
	require.True(t, good)
	require.EqualValues(t, 7, facts.DiskFree)
	h.looked = h.looked.Add(-2 * factsGood)
	_, good = h.recall()
	require.False(t, good)
}

func TestEachSectionGivesItsMachinesUpByItsOwnLimit(t *testing.T) {
	p, _ := silentFor(t, time.Hour, `{"machineList":[{"host":"gpu1"}],"hostLostAfter":600}`)
	require.True(t, p.lost(placed()))
	other := func(context.Context) (json.RawMessage, error) {
		return json.RawMessage(`{"machineList":[{"host":"gpu1"}]}`), nil
	}
	patient := p.kind.open(platforms.Section{Platform: Name, Experiment: "abcdefgh", Index: 1, Resolve: other})
	require.False(t, patient.lost(placed()), "for ever")
}

func TestAnAttemptWhoseMachineWasGivenUpBeforeItStartedDoesNotWaitForIt(t *testing.T) {
	const section = `{"machineList":[{"host":"gpu1"}],"hostLostAfter":600}`
	p, _ := silentFor(t, 11*time.Minute, section)
	_, err := p.placements.add(placed())
	require.NoError(t, err)
	handle, err := p.Submit(t.Context(), platforms.Job{Key: placed().Key})
	require.NoError(t, err)
	require.NotEmpty(t, handle.Data)
}

func TestAMachineThatAnswersTooLateIsNotSilent(t *testing.T) {
	p, h := silentFor(t, time.Hour, `{"machineList":[{"host":"gpu1"}],"hostLostAfter":600}`)
	out, said := io.Pipe()
	defer said.Close()
	h.link = &link{client: agent.NewClient(bufio.NewReader(out), io.Discard, nil)}
	require.Equal(t, platforms.Lost, p.silent(h, batchOf(asked{placement: placed()}), errors.New("no answer"))[0].Phase)
	_, err := io.WriteString(said, `{"id":7}`+"\n") // what nobody waits for any more
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		return p.silent(h, batchOf(asked{placement: placed()}), errors.New("no answer"))[0].Phase == platforms.Unreachable
	}, 10*time.Second, time.Millisecond)
}

func TestAMachineThatCameBackWithoutOurDirectoryCannotTellAndIsGivenUpLikeASilentOne(t *testing.T) {
	for _, c := range []struct {
		section string
		since   time.Duration
		there   agent.Welcome
		want    platforms.Phase
	}{
		{`{"machineList":[{"host":"gpu1"}]}`, 10000 * time.Hour, agent.Welcome{Site: "elsewhere", Boot: "another"}, platforms.Unreachable},
		{`{"machineList":[{"host":"gpu1"}],"hostLostAfter":600}`, 10 * time.Minute, agent.Welcome{Site: "elsewhere", Boot: "another"}, platforms.Unreachable},
		{`{"machineList":[{"host":"gpu1"}],"hostLostAfter":600}`, 12 * time.Minute, agent.Welcome{Site: "elsewhere", Boot: "another"}, platforms.Lost},
		// It may run on, out of sight.
		{`{"machineList":[{"host":"gpu1"}],"hostLostAfter":600}`, 12 * time.Minute, agent.Welcome{Site: "elsewhere", Boot: "boot"}, platforms.Unreachable},
	} {
		p, h := silentFor(t, 0, c.section)
		h.welcome, h.changed = c.there, time.Now().Add(-c.since)
		report := p.report(h, &link{welcome: c.there}, asked{placement: placed()}, agent.Finding{Report: machine.Report{Phase: machine.Absent}})
		require.Equal(t, c.want, report.Phase, "%+v", c)
	}
}

func TestWhatOurDirectoryDoesNotKnowWasNeverThere(t *testing.T) {
	p, h := silentFor(t, 0, `{"machineList":[{"host":"gpu1"}]}`)
	there := &link{welcome: agent.Welcome{Site: placed().Site, Boot: "another"}}
	report := p.report(h, there, asked{placement: placed()}, agent.Finding{Report: machine.Report{Phase: machine.Absent}})
	require.Equal(t, platforms.Absent, report.Phase)
}

func TestACommandRunsAfterAnotherOnlyIfThatSucceeds(t *testing.T) {
	for _, c := range []struct{ first, then, want string }{
		{"export A=b", "echo $A", "b\n"},
		{"true # ready", "echo ran", "ran\n"}, // a comment at the end hides nothing
		{"A=b\n", "echo $A # b", "b\n"},
		{"false", "false || echo ran", ""},
		{"false", "echo first\necho second", ""},
	} {
		printed, _ := exec.CommandContext(t.Context(), "sh", "-c", both(c.first, c.then)).CombinedOutput()
		require.Equal(t, c.want, string(printed), "%q, then %q", c.first, c.then)
	}
}

func TestMachinesWithFreeGPUsComeFirstThenIdleOnesThenThoseWithFewTrials(t *testing.T) {
	name := func(name string) *host { return &host{address: Address{Host: name}} }
	hosts := sorted([]rated{
		{name("overloaded"), 1, 2, 0, 0}, {name("busy"), 1, 0, 3, 0}, {name("second"), 1, 0, 1, 1},
		{name("first"), 1, 0, 1, 0}, {name("GPUs"), 4, 9, 9, 9},
	})
	var names []string
	for _, h := range hosts {
		names = append(names, h.address.Host)
	}
	require.Equal(t, []string{"GPUs", "first", "second", "busy", "overloaded"}, names)
}

func TestWhatWasReadOfAJournalComesWithTheReport(t *testing.T) {
	p, h := silentFor(t, 0, `{"machineList":[{"host":"gpu1"}]}`)
	there := &link{welcome: agent.Welcome{Site: placed().Site}}
	report := func(finding agent.Finding) platforms.Report {
		return p.report(h, there, asked{placement: placed()}, finding)
	}
	require.Nil(t, report(agent.Finding{}).Journal, "it was not read, and is to be asked for")
	read := report(agent.Finding{Asked: true, Whole: true, Records: []metrics.Record{{Number: 1}}, Next: "9"})
	require.Equal(t, &platforms.Journal{Records: []metrics.Record{{Number: 1}}, Next: "9"}, read.Journal)
	require.True(t, report(agent.Finding{Asked: true, Next: "9"}).Journal.More)
}

func TestAMachineThatRefusesUsIsTriedLessAndLessOften(t *testing.T) {
	_, h := silentFor(t, 0, "{}")
	var last time.Duration
	for range 12 {
		before := time.Now()
		h.failed(errors.New("connection refused"))
		pause := h.next.Sub(before)
		require.GreaterOrEqual(t, pause, last-time.Second/2)
		last = pause
	}
	require.InDelta(t, longestPause, last, float64(time.Second))
}
