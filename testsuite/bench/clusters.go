package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/testsuite/amllab"
	"github.com/perennial-ml/perennial/testsuite/dlclab"
	"github.com/perennial-ml/perennial/testsuite/dltslab"
	"github.com/perennial-ml/perennial/testsuite/openpailab"
	"github.com/perennial-ml/perennial/testsuite/uailab"
	"github.com/perennial-ml/perennial/trial"
)

// openPAIsMost is how many environments OpenPAI starts in an hour, with room for a few
// that are lost.
const openPAIsMost = 50

// onService is a trial that reports every five seconds and notes its sequence number.
const onService = `#!/bin/sh
note() { read -r now rest </proc/uptime; echo "$2 $now $PERENNIAL_SEQUENCE" >>"$1"; }
note "$1" start
step=0
while [ $step -lt %d ]; do step=$((step + 1)); echo "perennial: intermediate $step"; sleep 5; done
echo "perennial: final $step"
note "$1" end
`

// bound is what a laboratory goes with that else goes with its test. It panics where
// a test would fail.
type bound struct {
	testing.TB
	ends []func()
}

func (b *bound) Cleanup(end func())           { b.ends = append(b.ends, end) }
func (b *bound) Helper()                      {}
func (b *bound) Errorf(what string, v ...any) { panic(fmt.Sprintf(what, v...)) }
func (b *bound) FailNow()                     {}
func (b *bound) Logf(what string, v ...any)   { fmt.Fprintf(os.Stderr, what+"\n", v...) }
func (b *bound) Skip(why ...any)              { panic(fmt.Sprint(why...)) }

func (b *bound) end() {
	for _, end := range slices.Backward(b.ends) {
		end()
	}
}

// standIn is a service that trials are measured on.
type standIn struct {
	name, section string
	variables     []string // for the host
	most          int      // trials at once
	calls         interface{ AllCalls() map[string]int }
	refused       func() int
}

// standIns are those of all services, each made as its turn comes.
func standIns(with *bound) []func() (standIn, error) {
	return []func() (standIn, error){
		func() (standIn, error) {
			c := openpailab.New(with)
			return standIn{"OpenPAI, environments reused", fmt.Sprintf("  platform: openpai\n  host: %s\n  username: %s\n  token: %s\n  trialCpuNumber: 1\n  trialGpuNumber: 0\n  dockerImage: ours\n  trialMemorySize: 1gb\n"+
				"  storageConfigName: %s\n  localStorageMountPoint: %s\n  containerStorageMountPoint: %s\n", c.URL, openpailab.User, openpailab.Token, openpailab.Storage, c.Here, c.There),
				nil, openPAIsMost, c, c.Refused}, nil
		},
		func() (standIn, error) {
			s := dlclab.New(with)
			return standIn{"PAI-DLC", s.Section(), nil, 0, s, s.Refused}, nil
		},
		func() (standIn, error) {
			s := dltslab.New(with)
			return standIn{"DLTS", fmt.Sprintf("  platform: dlts\n  dashboard: %s/\n  team: %s\n  email: %s\n  password: %s\n  trialGpuNumber: 0\n  dockerImage: ours\n  localStorageMountPoint: %s\n  containerStorageMountPoint: %s\n",
				s.URL, dltslab.Team, dltslab.Email, dltslab.Password, s.Here, s.There), nil, 0, s, s.Refused}, nil
		},
		func() (standIn, error) {
			s, err := amllab.Start()
			if err == nil {
				with.Cleanup(s.Close)
			}
			return standIn{"Azure ML", s.Section(), s.Environment(), 0, s, s.Refused}, err
		},
		func() (standIn, error) {
			s := uailab.New(with)
			return standIn{"UAI-Train, on UFS", s.Section(), nil, 0, s, s.Refused}, nil
		},
	}
}

// clusters measures trials on stand-ins of services behind an API.
func (b *Bench) clusters(plan Plan) error {
	fmt.Print("\n### Services behind an API\n\n| service | trials, at once | calls a trial | refused | delay of an end: median, p95 | host's share of a core | memory | load before |\n|--|--|--|--|--|--|--|--|\n")
	with := &bound{}
	defer with.end()
	for _, make := range standIns(with) {
		service, err := make()
		if err == nil {
			err = b.onService(plan, service)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", service.name, err)
		}
	}
	return nil
}

// onService prints the row of one service.
func (b *Bench) onService(plan Plan, s standIn) error {
	atOnce := plan.Services
	if s.most > 0 {
		atOnce = min(atOnce, s.most)
	}
	w, err := b.work(Work{Trials: 2 * atOnce, Concurrency: atOnce, Service: s.section, Script: fmt.Sprintf(onService, plan.Reports)})
	if err != nil {
		return err
	}
	p, err := b.newPerennial(s.variables...)
	if err != nil {
		return err
	}
	before := load()
	share, memory, err := p.watchService(w)
	if err != nil {
		return errors.Join(err, p.stop())
	}
	delays, err := p.delays(w)
	if err != nil {
		return errors.Join(err, p.stop())
	}
	fmt.Printf("| %s | %d, %d | %s | %d | %s s, %s s | %s %% | %s MB | %s |\n", s.name, w.Trials, atOnce, perTrial(s.calls.AllCalls(), w.Trials), s.refused(),
		digits(median(delays), 1), digits(quantile(delays, 0.95), 1), digits(100*share, 1), digits(memory, 0), digits(before, 1))
	return p.stop()
}

// watchService runs an experiment, and watches the host while all its slots are taken.
func (p *Perennial) watchService(w Work) (share, memory float64, err error) {
	if _, err := p.do("run", w.file(), "--detach"); err != nil {
		return 0, 0, err
	}
	if err := awaitStarts(w, w.Concurrency, 3*time.Minute); err != nil {
		return 0, 0, err
	}
	used, _, err := p.usedFor(watched / 2)
	if err == nil {
		_, err = p.do("resume", "--output", "json") // follows it to its end
	}
	return used.Seconds() / (watched / 2).Seconds(), p.memory(), err
}

// perTrial says how many calls of each sort there were for one trial.
func perTrial(calls map[string]int, trials int) string {
	total, parts := 0, []string{}
	for _, sort := range slices.Sorted(maps.Keys(calls)) {
		total += calls[sort]
		parts = append(parts, fmt.Sprintf("%s %s", sort, digits(float64(calls[sort])/float64(trials), 2)))
	}
	return fmt.Sprintf("%s: %s", digits(float64(total)/float64(trials), 1), strings.Join(parts, ", "))
}

// delays are how long after a trial's last instruction its end was on record.
func (p *Perennial) delays(w Work) ([]float64, error) {
	ends, err := endsOf(w)
	if err != nil {
		return nil, err
	}
	listed, err := p.do("ls", "--output", "json")
	if err != nil {
		return nil, err
	}
	var experiments []struct{ ID string }
	if err := json.Unmarshal([]byte(listed), &experiments); err != nil {
		return nil, err
	}
	store, err := record.OpenReadOnly(filepath.Join(p.home, "record.sqlite"))
	if err != nil {
		return nil, err
	}
	defer store.Close()
	events, err := store.Events(context.Background(), experiments[len(experiments)-1].ID, 0, 0)
	var delays []float64
	for _, event := range events {
		if at, known := ends[event.Sequence]; known && event.Kind == trial.KindEnded {
			delays = append(delays, event.Time.Sub(at).Seconds())
		}
	}
	if err == nil && len(delays) != w.Trials {
		err = fmt.Errorf("%d of %d trials have ended", len(delays), w.Trials)
	}
	return delays, err
}

// endsOf is when each trial was at its last instruction, by its sequence number.
func endsOf(w Work) (map[int]time.Time, error) {
	ledger, err := readLedger(w.ledger())
	if err != nil {
		return nil, err
	}
	booted, ends := time.Now().Add(-time.Duration(uptime()*float64(time.Second))), map[int]time.Time{}
	for name, at := range ledger.endOf {
		sequence, err := strconv.Atoi(name)
		if err != nil {
			return nil, err
		}
		ends[sequence] = booted.Add(time.Duration(at * float64(time.Second)))
	}
	return ends, nil
}
