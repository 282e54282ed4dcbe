package bridge

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Fault is what keeps an algorithm from running, and what would be right.
type Fault struct {
	Message   string `json:"message"`
	Advice    string `json:"advice"`
	Arguments bool   `json:"arguments"`
	Unknown   bool   `json:"unknown"`
}

// Error implements error.
func (f *Fault) Error() string { return f.Message }

// Hint says what would be right; it may be empty.
func (f *Fault) Hint() string { return f.Advice }

// Argument tells whether it is about classArgs.
func (f *Fault) Argument() bool { return f.Arguments }

// Stranger tells whether there is no algorithm of that name, as far as can be known.
func (f *Fault) Stranger() bool { return f.Unknown }

//go:embed probe.py
var probeProgram string

// probeTimeout is enough to import a large framework from a cold disk.
const probeTimeout = 3 * time.Minute

// Check finds out, before anything starts, whether an algorithm can run in an
// environment: that there is a Python with nni, and that it can import what the
// algorithm names. kind is "tuner" or "assessor". What is wrong comes as a *Fault.
// Of a command, only the program that it begins with is looked for.
func Check(ctx context.Context, kind string, algorithm Algorithm, environment []string) error {
	if algorithm.Command != "" {
		return checkCommand(ctx, algorithm, environment)
	}
	python, err := interpreter(environment)
	if err != nil {
		return err
	}
	asked, err := json.Marshal(struct {
		Kind string `json:"kind"`
		Algorithm
	}{kind, algorithm})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	command := exec.CommandContext(ctx, python, "-c", bootstrap)
	command.Env = append(slices.Clone(environment), "PERENNIAL_PROGRAM="+probeProgram, "PERENNIAL_PROBE="+string(asked),
		"CUDA_VISIBLE_DEVICES=")
	return probe(ctx, command)
}

// plainWord is what a command begins with where that is no more than a program.
var plainWord = regexp.MustCompile(`^[\w./+-]+(?:\s|$)`)

// checkCommand asks the shell for the program that a command begins with.
func checkCommand(ctx context.Context, algorithm Algorithm, environment []string) error {
	word := strings.TrimSpace(plainWord.FindString(strings.TrimSpace(algorithm.Command)))
	if word == "" {
		return nil
	}
	command := exec.CommandContext(ctx, "/bin/sh", "-c", `command -v -- "$1" >/dev/null`, "sh", word)
	command.Dir, command.Env = algorithm.CodeDirectory, environment
	if err := command.Run(); err != nil {
		return &Fault{
			Message: fmt.Sprintf("command not found: %q", word),
			Advice:  "install it, activate its environment, or correct it; relative paths begin at " + algorithm.CodeDirectory,
		}
	}
	return nil
}

// probe runs the probe, reads its answer, and ends it with all that it started: an
// import may leave processes and threads that never end, and hold its pipes.
func probe(ctx context.Context, command *exec.Cmd) error {
	answer, theirs, err := os.Pipe()
	if err != nil {
		return err
	}
	defer answer.Close()
	command.ExtraFiles = []*os.File{nil, nil, theirs} // 3 and 4 are NNI's own
	var words strings.Builder
	command.Stdout, command.Stderr, command.WaitDelay = &words, &words, time.Second
	c := &child{command: command, exited: make(chan struct{})}
	err = c.begin()
	theirs.Close()
	if err != nil {
		return &Fault{Message: err.Error()}
	}
	fault, err := c.answered(answer)
	switch {
	case err != nil && ctx.Err() != nil:
		return &Fault{Message: fmt.Sprintf("importing it took more than %s", probeTimeout)}
	case err != nil:
		return &Fault{Message: fmt.Sprintf("its Python failed (%v): %s", c.err, lastLine(words.String()))}
	case fault.Message != "":
		return &fault
	}
	return nil
}

// answered reads what the process answers, which it does before it exits or never,
// and ends it.
func (c *child) answered(from *os.File) (fault Fault, err error) {
	go func() {
		<-c.exited
		const moment = time.Second // for what it said last
		_ = from.SetReadDeadline(time.Now().Add(moment))
	}()
	err = json.NewDecoder(from).Decode(&fault)
	c.end(0)
	return fault, err
}
