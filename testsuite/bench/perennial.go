package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Perennial is one state directory with its host.
type Perennial struct {
	program, home string
	variables     []string
	cores         string // that the host may use; empty: all
}

// newPerennial returns a state directory whose host serves, with further variables.
func (b *Bench) newPerennial(variables ...string) (*Perennial, error) {
	b.number++
	p := &Perennial{program: b.starter, variables: variables, cores: b.cores, home: filepath.Join(b.scratch, fmt.Sprintf("home-%d", b.number))}
	if b.profile {
		p.variables = append(p.variables, "PERENNIAL_PROFILE="+b.scratch)
	}
	return p, p.serve()
}

func (p *Perennial) command(arguments ...string) *exec.Cmd {
	command := exec.Command(p.program, arguments...)
	if p.cores != "" {
		command = exec.Command("taskset", append([]string{"-c", p.cores, p.program}, arguments...)...)
	}
	command.Env = append(os.Environ(), "PERENNIAL_HOME="+p.home, "NO_COLOR=1")
	command.Env = append(command.Env, p.variables...)
	return command
}

func (p *Perennial) do(arguments ...string) (string, error) {
	var said strings.Builder
	command := p.command(arguments...)
	command.Stderr = &said
	out, err := command.Output()
	if err != nil {
		err = fmt.Errorf("starter %s: %w\n%s", strings.Join(arguments, " "), err, said.String())
	}
	return string(out), err
}

func (p *Perennial) serve() error {
	_, err := p.do("serve", "--detach")
	return err
}

func (p *Perennial) stop() error {
	_, err := p.do("serve", "--stop")
	return err
}

// host is the pid of the host process.
func (p *Perennial) host() (int, error) {
	for _, pid := range find(p.program, "serve", "--background") {
		if environmentHas(pid, "PERENNIAL_HOME="+p.home) {
			return pid, nil
		}
	}
	return 0, errors.New("the host is not there")
}

// measure runs an experiment to its end on a host that serves.
func (p *Perennial) measure(w Work) (f Figures, err error) {
	host, err := p.host()
	if err != nil {
		return f, err
	}
	before, watch, asked := usageOf(host), newWatch(), uptime()
	command := p.command("run", w.file(), "--output", "json")
	if said, err := command.CombinedOutput(); err != nil {
		return f, fmt.Errorf("starter run: %w\n%s", err, said)
	}
	if err := awaitReaped(host); err != nil {
		return f, err
	}
	used := usageOf(host).Minus(before)
	state := command.ProcessState
	f, err = figuresOf(w, asked)
	f.Parts = []Part{
		{"host (Temporal, workflows, activities, record)", used.Own},
		{"runners and trials", used.Children},
		{"starter run, which follows", state.UserTime() + state.SystemTime()},
	}
	f.ResidentMB = residentMB(host)
	f.Others = watch.others(f.used())
	return f, errors.Join(err, p.count(&f))
}

// awaitReaped waits until the host has taken in every runner that ended.
func awaitReaped(host int) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for len(descendants(host)) > 0 {
		select {
		case <-ctx.Done():
			return errors.New("runners are left after the experiment's end")
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}

// count counts the metrics that can be exported again.
func (p *Perennial) count(f *Figures) error {
	ids, err := p.do("ls", "--output", "json")
	if err != nil {
		return err
	}
	var experiments []struct{ ID string }
	if err := json.Unmarshal([]byte(ids), &experiments); err != nil || len(experiments) == 0 {
		return fmt.Errorf("no experiment is listed: %w", err)
	}
	for _, experiment := range experiments[len(experiments)-1:] {
		if err := p.countOf(experiment.ID, f); err != nil {
			return err
		}
	}
	return nil
}

func (p *Perennial) countOf(id string, f *Figures) error {
	text, err := p.do("export", id, "--intermediate")
	if err != nil {
		return err
	}
	var trials []struct {
		Intermediate []string `json:"intermediate"`
	}
	if err := json.Unmarshal([]byte(text), &trials); err != nil {
		return err
	}
	for _, trial := range trials {
		f.Finals++
		f.Intermediates += len(trial.Intermediate) - 1 // the final value is its last
	}
	return nil
}
