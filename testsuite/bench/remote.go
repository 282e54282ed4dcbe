package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/remote"
	"github.com/perennial-ml/perennial/runner/binary"
	"github.com/perennial-ml/perennial/testsuite/platformtest"
	"github.com/perennial-ml/perennial/testsuite/sshlab"
	"github.com/perennial-ml/perennial/trial"
)

const (
	// roundTrip is the link that targets speak of.
	roundTrip = 40 * time.Millisecond
	// files and fileSize make a code directory of 12 MB.
	files, fileSize = 2000, 6 << 10
	// crowded hosts, each with as many trials, are watched for watched.
	crowded, watched = 8, 20 * time.Second
)

// remote measures trials on SSH hosts: those of a laboratory in namespaces of this
// machine, and beside NNI one sshd that both use.
func (b *Bench) remote(plan Plan) error {
	if missing := sshlab.Missing(); missing != "" {
		return errors.New(missing)
	}
	fmt.Printf("\n### SSH hosts\n\n| what | measured | target | load before |\n|--|--|--|--|\n")
	for _, measure := range []func(Plan) error{b.uploads, b.idleSlots, b.watching} {
		if err := measure(plan); err != nil {
			return err
		}
	}
	return b.besideNNI(plan)
}

// laboratory brings up hosts whose links have the round trip.
func laboratory(hosts int, trip time.Duration) (*sshlab.Lab, error) {
	specs := make([]sshlab.Spec, hosts)
	for i := range specs {
		specs[i].Latency = trip / 2
	}
	return sshlab.Start(func(err error) { say("the laboratory: %v", err) }, specs...)
}

func row(what, measured, target string, before float64) {
	fmt.Printf("| %s | %s | %s | %s |\n", what, measured, target, digits(before, 1))
}

// uploads brings the same code to three hosts at once: first with connections and
// the runner's binary, then a changed tree over connections that are open.
func (b *Bench) uploads(Plan) error {
	lab, err := laboratory(3, roundTrip)
	if err != nil {
		return err
	}
	defer lab.Close()
	u := &upload{lab: lab, code: filepath.Join(b.scratch, "upload"), experiment: trial.NewExperimentID()}
	kind := remote.New(remote.Options{StateDirectory: filepath.Join(b.scratch, "upload-state"), Runner: binary.For})
	open := func(hosts ...*sshlab.Host) platforms.Platform {
		return kind.Open(platformtest.Section(remote.Name, u.experiment, func() json.RawMessage { return sectionOf(lab, hosts...) }))
	}
	u.platform = open(lab.Hosts...)
	defer u.platform.Close()
	for _, host := range lab.Hosts {
		section := open(host)
		defer section.Close()
		u.alone = append(u.alone, section)
	}
	before := load()
	for i, what := range []string{"with connections and the runner's binary", "changed code, connections open"} {
		took, err := u.bring(i)
		if err != nil {
			return err
		}
		row(fmt.Sprintf("%d files, 12 MB, to 3 hosts at 40 ms: %s", files, what), digits(took.Seconds(), 2)+" s", "3 s", before)
	}
	return nil
}

type upload struct {
	lab        *sshlab.Lab
	code       string
	experiment string
	platform   platforms.Platform
	alone      []platforms.Platform // the section of each host, so that none is left out
}

// bring writes a tree of its own for each turn, and returns how long it took until
// a trial of it had started on each host.
func (u *upload) bring(turn int) (time.Duration, error) {
	if err := u.write(turn); err != nil {
		return 0, err
	}
	began := time.Now()
	workspace, err := u.platform.Prepare(context.Background(), platforms.Bundle{CodeDirectory: u.code})
	if err != nil {
		return 0, err
	}
	var group sync.WaitGroup
	faults := make([]error, len(u.lab.Hosts))
	for i, section := range u.alone {
		group.Go(func() {
			_, faults[i] = section.Submit(context.Background(), platforms.Job{
				Key: trial.Key{Experiment: u.experiment, Sequence: 10*turn + i, Attempt: 1}, Workspace: workspace,
				Command: "true", Parameter: []byte("{}"), Parameters: json.RawMessage("{}"),
			})
		})
	}
	group.Wait()
	return time.Since(began), errors.Join(faults...)
}

func (u *upload) write(turn int) error {
	if err := os.MkdirAll(u.code, 0o755); err != nil {
		return err
	}
	content := []byte(strings.Repeat(fmt.Sprintf("# turn %d\n", turn), fileSize/9))
	for i := range files {
		if err := os.WriteFile(filepath.Join(u.code, fmt.Sprintf("module_%d.py", i)), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func sectionOf(lab *sshlab.Lab, hosts ...*sshlab.Host) json.RawMessage {
	var machines []map[string]any
	for _, h := range hosts {
		machines = append(machines, map[string]any{"host": h.Name, "sshKeyFile": lab.KeyFile(sshlab.Key)})
	}
	section, _ := json.Marshal(map[string]any{"sshConfigFile": filepath.Join(lab.Home, ".ssh", "config"), "machineList": machines})
	return section
}

// service are the lines of trainingService for all hosts of a lab; configuration
// is a line that NNI does not know.
func service(lab *sshlab.Lab, configuration, more string) string {
	lines := "  platform: remote\n" + configuration + "  machineList:\n"
	for _, h := range lab.Hosts {
		lines += fmt.Sprintf("  - {host: %s, port: %d, user: %s, sshKeyFile: %s%s}\n", h.Address, h.Port, h.User, lab.KeyFile(sshlab.Key), more)
	}
	return lines
}

func configuration(lab *sshlab.Lab) string {
	return "  sshConfigFile: " + filepath.Join(lab.Home, ".ssh", "config") + "\n"
}

// hosted is a host process, and an experiment on the lab's hosts.
func (b *Bench) hosted(lab *sshlab.Lab, w Work) (*Perennial, Work, error) {
	w.Service, w.Ledger = service(lab, configuration(lab), ""), filepath.Join(lab.Evidence, "ledger")
	w, err := b.work(w)
	if err != nil {
		return nil, w, err
	}
	// Whoever runs a trial writes to it.
	if err := errors.Join(os.WriteFile(w.Ledger, nil, 0o666), os.Chmod(w.Ledger, 0o666)); err != nil {
		return nil, w, err
	}
	p, err := b.newPerennial()
	return p, w, err
}

// idleSlots measures how long a slot of a host behind 40 ms is empty.
func (b *Bench) idleSlots(plan Plan) error {
	lab, err := laboratory(1, roundTrip)
	if err != nil {
		return err
	}
	defer lab.Close()
	p, w, err := b.hosted(lab, Work{Trials: plan.AtFour, Concurrency: 4})
	if err != nil {
		return err
	}
	before := load()
	f, err := p.measure(w)
	if err != nil {
		return err
	}
	row(fmt.Sprintf("idle slots at 40 ms, %d empty trials at concurrency 4: median, p95", f.Trials),
		fmt.Sprintf("%s ms, %s ms", digits(1000*median(f.Idle), 0), digits(1000*quantile(f.Idle, 0.95), 0)), "500 ms", before)
	row("trials a second meanwhile; intermediate and final values kept",
		fmt.Sprintf("%s; %d of %d, %d of %d", digits(f.PerSecond, 1), f.Intermediates, 3*plan.AtFour, f.Finals, plan.AtFour), "all kept", before)
	return p.stop()
}

// reporting is a trial that reports now and then for longer than it is watched.
const reporting = `#!/bin/sh
read -r now rest < /proc/uptime; echo "start $now -" >> "$1"
step=0
while [ $step -lt %d ]; do
  step=$((step + 1)); echo "perennial: intermediate $step"; sleep 5
done
read -r now rest < /proc/uptime; echo "end $now -" >> "$1"
`

// watching measures what the controller of 64 trials on eight hosts uses.
func (b *Bench) watching(Plan) error {
	lab, err := laboratory(crowded, roundTrip)
	if err != nil {
		return err
	}
	defer lab.Close()
	all := crowded * crowded
	p, w, err := b.hosted(lab, Work{Trials: all, Concurrency: all, Script: fmt.Sprintf(reporting, 18)})
	if err != nil {
		return err
	}
	if _, err := p.do("run", w.file(), "--detach"); err != nil {
		return err
	}
	if err := awaitStarts(w, all, time.Minute); err != nil {
		return err
	}
	used, before, err := p.usedFor(watched)
	if err != nil {
		return err
	}
	row(fmt.Sprintf("controller of %d hosts × %d trials that report every 5 s: share of a core, memory", crowded, crowded),
		fmt.Sprintf("%s %%, %s MB", digits(100*used.Seconds()/watched.Seconds(), 1), digits(p.memory(), 0)), "5 %", before)
	_, err = p.do("stop")
	return errors.Join(err, p.stop())
}

// awaitStarts waits until so many trials run, and a little longer until nobody is
// busy with their start.
func awaitStarts(w Work, count int, patience time.Duration) error {
	for deadline := time.Now().Add(patience); ; time.Sleep(nniGlance) {
		content, _ := os.ReadFile(w.ledger())
		if strings.Count(string(content), "start") >= count {
			time.Sleep(10 * time.Second)
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d of %d trials started within %s", strings.Count(string(content), "start"), count, patience)
		}
	}
}

// usedFor is the processor time that the host process uses for a while from now on.
func (p *Perennial) usedFor(while time.Duration) (used time.Duration, before float64, err error) {
	host, err := p.host()
	if err != nil {
		return 0, 0, err
	}
	earlier, before := usageOf(host), load()
	time.Sleep(while)
	return usageOf(host).Minus(earlier).Own, before, nil
}

func (p *Perennial) memory() float64 {
	host, err := p.host()
	if err != nil {
		return 0
	}
	return residentMB(host)
}

// besideNNI compares both on the same sshd of this machine: NNI needs its Python
// there, and its manager's address.
func (b *Bench) besideNNI(plan Plan) error {
	if err := b.compare(); err != nil {
		return err
	}
	lab, err := sshlab.StartOne(func(err error) { say("the sshd: %v", err) }, sshlab.Spec{})
	if err != nil {
		return err
	}
	defer lab.Close()
	python := ", pythonPath: " + filepath.Join(b.venv, "bin")
	ours := on(b.perennial, service(lab, configuration(lab), python), "")
	theirs := on(b.nni, service(lab, "", python)+"nniManagerIp: 127.0.0.1\n", unhurried)
	for _, w := range []Work{{Trials: plan.AtFour, Concurrency: 4}, {Trials: plan.AtMore, Concurrency: 16}} {
		table, err := b.rounds(plan.Rounds, w, []side{{"Perennial", ours}, {"NNI 3.0, remote mode", theirs}})
		if err != nil {
			return err
		}
		table.print(fmt.Sprintf("One SSH host, empty trials, concurrency %d, %d trials each", w.Concurrency, w.Trials))
	}
	return nil
}

// unhurried is the empty trial for NNI's remote mode. That loses the parameters of a
// trial which asks for them before the manager has heard that it was started, and
// the trial waits for ever. The pause is after its first instruction and so no part
// of idle time.
var unhurried = strings.Replace(emptyTrial, "\n  \"$2\"\n", "\n  sleep 0.2\n  \"$2\"\n", 1)

// on is a measurement on some training service.
func on(measure func(Work) (Figures, error), service, script string) func(Work) (Figures, error) {
	return func(w Work) (Figures, error) {
		w.Service, w.Script = service, script
		return measure(w)
	}
}
