package main

import (
	"cmp"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

var (
	//go:embed trial.sh
	emptyTrial string
	//go:embed trial.py
	importingTrial string
)

// Work is an experiment as files: the same for every side.
type Work struct {
	Trials, Concurrency int
	Python              string // the interpreter of trials that import NNI; empty: trials are empty
	// Service are lines of trainingService, and what may follow it, instead of
	// "platform: local"; Ledger is then a path that is the same wherever trials run.
	Service, Ledger string
	Script          string // instead of trial.sh
	directory       string
}

func (w Work) ledger() string {
	if w.Ledger != "" {
		return w.Ledger
	}
	return filepath.Join(w.directory, "ledger")
}

// code is apart from what changes, since it is copied to where trials run.
func (w Work) code() string { return filepath.Join(w.directory, "code") }

func (w Work) file() string { return filepath.Join(w.directory, "experiment.yml") }

// write puts the files into a directory of their own.
func (w Work) write(channel string) error {
	command := "sh trial.sh " + w.ledger() + " " + channel
	if w.Python != "" {
		command = w.Python + " trial.py " + w.ledger()
	}
	files := map[string]string{
		"code/trial.sh": cmp.Or(w.Script, emptyTrial), "code/trial.py": importingTrial,
		"space.json": `{"x": {"_type": "uniform", "_value": [0, 1]}}` + "\n",
		"experiment.yml": fmt.Sprintf(`experimentName: bench
searchSpaceFile: space.json
trialCommand: %s
trialCodeDirectory: code
trialConcurrency: %d
maxTrialNumber: %d
tuner:
  name: Random
trainingService:
%s`, command, w.Concurrency, w.Trials, cmp.Or(w.Service, "  platform: local\n")),
	}
	if err := os.MkdirAll(w.code(), 0o755); err != nil {
		return err
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(w.directory, name), []byte(content), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// work prepares an experiment in a new directory.
func (b *Bench) work(w Work) (Work, error) {
	b.number++
	w.directory = filepath.Join(b.scratch, fmt.Sprintf("work-%d", b.number))
	return w, w.write(b.channel)
}

// build builds one of the programs below this one.
func build(scratch, name string) (string, error) {
	_, file, _, _ := runtime.Caller(0)
	out := filepath.Join(scratch, name)
	command := exec.Command("go", "build", "-trimpath", "-o", out, "./"+name)
	command.Dir = filepath.Dir(file)
	command.Env = append(os.Environ(), "GOTOOLCHAIN=auto", "GOFLAGS=-buildvcs=false")
	if name == "channel" {
		command.Env = append(command.Env, "CGO_ENABLED=0")
	}
	if said, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", name, err, strings.TrimSpace(string(said)))
	}
	return out, nil
}
