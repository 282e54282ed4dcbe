package executable

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/perennial-ml/perennial/platforms"
)

const (
	// answerLimit bounds what a call may print, and wordsLimit what is kept of what
	// it says on standard error, both in bytes.
	answerLimit = 64 << 20
	wordsLimit  = 2 << 10
	// closing is how long a call that is over may keep its streams open by a process
	// that it left behind.
	closing = 2 * time.Second
	// longest is how long an executable can have nobody ask it.
	longest = time.Hour
)

// codes says whose failure an exit code is: sysexits.h has names for all of them.
// Any other is worth another try.
var codes = map[int]platforms.Code{
	65: platforms.Invalid,   // EX_DATAERR
	66: platforms.NotFound,  // EX_NOINPUT
	69: platforms.Exhausted, // EX_UNAVAILABLE
	75: platforms.Transient, // EX_TEMPFAIL
	77: platforms.Denied,    // EX_NOPERM
}

// program is an executable that is called once for each verb. It is safe for
// concurrent use.
type program struct {
	path        string        // absolute
	environment []string      // all it gets
	patience    time.Duration // for one call
	slots       chan struct{} // as many as calls may be under way
	secrets     *strings.Replacer
	note        func(verb string, sent, answered []byte, err error) // of each call; nil: nobody cares
}

func newProgram(path string, environment []string, patience time.Duration, concurrency int) *program {
	return &program{path: path, environment: environment, patience: patience, slots: make(chan struct{}, max(1, concurrency)), secrets: strings.NewReplacer()}
}

// hiding is the same executable, of whose words secrets are struck out.
func (p *program) hiding(secrets []string) *program {
	var pairs []string
	for _, secret := range secrets {
		pairs = append(pairs, secret, "•••")
	}
	hiding := *p
	hiding.secrets = strings.NewReplacer(pairs...)
	return &hiding
}

// call has the executable carry out a verb: the request is JSON on its standard
// input, the answer JSON on its standard output. A failure is a *platforms.Error
// with what it said on standard error.
func (p *program) call(ctx context.Context, verb string, request, answer any) error {
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	case <-ctx.Done():
		return platforms.Errorf(platforms.Transient, verb, "%s has too many calls under way: %w", p.path, ctx.Err())
	}
	input, err := json.Marshal(request)
	if err != nil {
		return platforms.Errorf(platforms.Invalid, verb, "%w", err)
	}
	output, err := p.run(ctx, verb, input)
	if p.note != nil {
		p.note(verb, input, output, err)
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(output, answer); err != nil {
		return platforms.Errorf(platforms.Transient, verb, "%s %s printed no answer that is JSON as it should be: %w: %.200q", p.path, verb, err, p.secrets.Replace(string(output)))
	}
	return nil
}

// run starts the executable and waits for it. It ends with its whole process group
// where it takes too long.
func (p *program) run(ctx context.Context, verb string, input []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, p.patience)
	defer cancel()
	output, words := bounded{limit: answerLimit}, bounded{limit: wordsLimit, last: true}
	command := exec.CommandContext(ctx, p.path, verb)
	command.Env, command.Stdin, command.Stdout, command.Stderr = p.environment, bytes.NewReader(input), &output, &words
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	command.WaitDelay = closing
	err := command.Run()
	if errors.Is(err, exec.ErrWaitDelay) && ctx.Err() == nil {
		err = nil // it ended well, and what it left behind has its streams open
	}
	if err == nil && output.cut {
		err = fmt.Errorf("it printed more than %d MiB", answerLimit>>20)
	}
	if err == nil {
		return output.content, nil
	}
	return nil, p.fault(ctx, verb, err, output.content, words.text())
}

// failure is what a call that fails may print: JSON, or nothing.
type failure struct {
	RetryAfter float64 `json:"retryAfter"` // seconds
}

func (p *program) fault(ctx context.Context, verb string, err error, output []byte, words string) error {
	code := platforms.Transient
	var exit *exec.ExitError
	var told failure
	switch {
	case ctx.Err() != nil:
		err = fmt.Errorf("%s %s did not answer within %s", p.path, verb, p.patience)
	case errors.As(err, &exit):
		if known, ok := codes[exit.ExitCode()]; ok {
			code = known
		}
		_ = json.Unmarshal(output, &told) // what is no JSON has nothing to say
		err = fmt.Errorf("%s %s: %w", p.path, verb, err)
	default:
		err = fmt.Errorf("%s cannot be started%s: %w", p.path, p.unstarted(err), err)
	}
	if words != "" {
		err = fmt.Errorf("%s (%w)", p.secrets.Replace(words), err)
	}
	return &platforms.Error{Code: code, Verb: verb, After: seconds(told.RetryAfter), Err: err}
}

// unstarted says what the kernel does not about a program that it cannot start.
func (p *program) unstarted(err error) string {
	_, missing := os.Stat(p.path)
	switch {
	case errors.Is(err, syscall.ENOEXEC):
		return ", for its first line names no interpreter, such as #!/usr/bin/env python3"
	case errors.Is(err, os.ErrNotExist) && missing == nil:
		return ", for the interpreter that its first line names is not there"
	}
	return ""
}

// seconds is what an executable names as a time, within 0 and longest: it may name
// any number.
func seconds(number float64) time.Duration {
	return time.Duration(min(max(0, number), longest.Seconds()) * float64(time.Second))
}

// bounded keeps the first bytes of what is written to it, or the last.
type bounded struct {
	content []byte
	limit   int
	last    bool
	cut     bool // something was dropped
}

// Write implements io.Writer; it never fails, so that nobody is stopped by it.
func (b *bounded) Write(more []byte) (int, error) {
	all := append(b.content, more...)
	if len(all) > b.limit {
		b.cut = true
		if b.last {
			all = bytes.Clone(all[len(all)-b.limit:])
		} else {
			all = all[:b.limit]
		}
	}
	b.content = all
	return len(more), nil
}

// text is the content in one line.
func (b *bounded) text() string {
	return strings.Join(strings.Fields(strings.ToValidUTF8(string(b.content), "")), " ")
}
