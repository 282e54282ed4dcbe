package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/perennial-ml/perennial/experiment"
	"github.com/perennial-ml/perennial/gpu"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/local"
	"github.com/perennial-ml/perennial/runner/binary"
	"github.com/perennial-ml/perennial/runner/rundir"
	"github.com/perennial-ml/perennial/starter/command"
	"github.com/perennial-ml/perennial/testsuite/platformtest"
	"github.com/perennial-ml/perennial/trial"
)

// checker makes checks and tells of them.
type checker struct {
	ctx          context.Context
	made, failed int
	prober       gpu.Prober
	inventory    gpu.Inventory
	directory    string
	sequence     int
	running      []running
}

// running is a trial that was started.
type running struct {
	*controller
	handle platforms.Handle
}

// expect tells whether something is as it should be.
func (c *checker) expect(good bool, format string, arguments ...any) bool {
	c.made++
	word := "ok  "
	if !good {
		word = "FAIL"
		c.failed++
	}
	fmt.Printf("%s  %s\n", word, strings.ReplaceAll(fmt.Sprintf(format, arguments...), "\n", "\n      "))
	return good
}

func (c *checker) say(format string, arguments ...any) {
	fmt.Printf("      %s\n", strings.ReplaceAll(fmt.Sprintf(format, arguments...), "\n", "\n      "))
}

// place makes a directory for the trials of this check.
func (c *checker) place() bool {
	var err error
	if c.directory, err = os.MkdirTemp("", "gpu-check-"); err != nil {
		return c.expect(false, "a directory for trials: %v", err)
	}
	_, err = binary.Install(c.directory)
	return c.expect(err == nil, "the runner is in this file (%v)", err)
}

func (c *checker) clear() {
	for _, r := range c.running {
		_ = r.Cancel(context.Background(), r.handle, trial.Intent{Cause: trial.CauseUser})
		r.end(r.handle)
	}
	if c.directory != "" {
		os.RemoveAll(c.directory)
	}
}

// controller is a state directory with an experiment of its own; all share the
// ledger of this check.
type controller struct {
	*checker
	platforms.Platform
	experiment, options string
}

func (c *checker) ledger() string { return filepath.Join(c.directory, "ledger") }

func (c *checker) controller(options string) *controller {
	runner, _ := binary.Install(c.directory) // place has said what is wrong
	experiment := trial.NewExperimentID()
	kind := local.New(local.Options{
		Runner: runner, StateDirectory: filepath.Join(c.directory, experiment), GPUs: c.prober, GPULedger: c.ledger(),
	})
	made := &controller{checker: c, experiment: experiment, options: options}
	made.Platform = kind.Open(platformtest.Section(local.Name, experiment, func() json.RawMessage { return json.RawMessage(made.options) }))
	return made
}

// submit starts the command as a trial with so many GPUs.
func (c *controller) submit(command string, gpus int) (platforms.Handle, error) {
	code := filepath.Join(c.directory, "code")
	if err := os.MkdirAll(code, 0o700); err != nil {
		return platforms.Handle{}, err
	}
	job := platforms.Job{
		Key:       trial.Key{Experiment: c.experiment, Sequence: c.sequence, Attempt: 1},
		Workspace: platforms.Workspace{Directory: code}, Command: command, GPUs: &gpus,
		Parameter: []byte(`{"parameter_id": 0, "parameters": {}}`), Parameters: trial.Parameters(`{}`), Grace: time.Second,
	}
	c.checker.sequence++
	handle, err := c.Submit(c.ctx, job)
	if err == nil {
		c.checker.running = append(c.checker.running, running{c, handle})
	}
	return handle, err
}

// report waits until a trial is as wanted, or the check's time is over.
func (c *controller) report(handle platforms.Handle, wanted func(platforms.Report) bool) platforms.Report {
	var report platforms.Report
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		reports, err := c.Poll(context.Background(), platforms.Ask(handle))
		if err != nil {
			continue
		}
		if report = reports[0]; wanted(report) {
			break
		}
	}
	return report
}

func (c *controller) end(handle platforms.Handle) platforms.Report {
	return c.report(handle, func(r platforms.Report) bool { return r.Phase.Definite() })
}

// output is what a trial has printed.
func (c *controller) output(handle platforms.Handle) string {
	report := c.report(handle, func(r platforms.Report) bool { return r.Output != "" })
	content, _ := os.ReadFile(filepath.Join(report.Output, rundir.Stdout)) // none is none
	return string(content)
}

// prints waits until a trial has printed a word.
func (c *controller) prints(handle platforms.Handle, word string) bool {
	c.report(handle, func(r platforms.Report) bool {
		return strings.Contains(c.output(handle), word) || r.Phase.Definite()
	})
	return strings.Contains(c.output(handle), word)
}

// process waits for the process record of a running trial.
func (c *controller) process(handle platforms.Handle) (rundir.Run, rundir.Process) {
	report := c.report(handle, func(r platforms.Report) bool { return r.Phase == platforms.Running })
	run := rundir.Run{Directory: report.Output}
	process, err := run.ReadProcess()
	if err != nil || process == nil {
		return run, rundir.Process{}
	}
	return run, *process
}

// visible is CUDA_VISIBLE_DEVICES of a trial.
func (c *controller) visible(handle platforms.Handle) string {
	run, _ := c.process(handle)
	spec, err := run.ReadSpec()
	if err != nil {
		return err.Error()
	}
	return spec.Variables()["CUDA_VISIBLE_DEVICES"]
}

// table is what `starter gpus` prints.
func (c *controller) table() string {
	var out, complaints bytes.Buffer
	command.Main(c.ctx, command.World{
		Args: []string{"gpus"}, Home: filepath.Join(c.directory, "none"), In: strings.NewReader(""), Out: &out, Err: &complaints,
		Width: func() int { return 0 }, Now: time.Now, Engine: engine{Engine: nil, controller: c},
	})
	return strings.TrimRight(out.String()+complaints.String(), "\n")
}

// engine is all of an engine that `starter gpus` asks.
type engine struct {
	command.Engine
	controller *controller
}

func (e engine) GPUs(ctx context.Context, _ string, _ experiment.Platform) ([]gpu.Host, error) {
	return e.controller.Platform.(platforms.WithGPUs).GPUs(ctx)
}
