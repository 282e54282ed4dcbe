package remote

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/perennial-ml/perennial/machine/agent"
	"github.com/perennial-ml/perennial/platforms/internal/ssh"
)

// link is a connection with an agent at its end.
type link struct {
	connection *ssh.Connection
	client     *agent.Client
	welcome    agent.Welcome
	place      place
	forget     func() bool // who would close it with the platform
}

// place is where things are on a machine.
type place struct {
	directory string // ours
	runner    string // the runner's binary
}

// tells says why the agent cannot tell of a run, nil where it can.
func (l *link) tells(placed placement) error {
	if !placed.foreign(l.welcome) {
		return nil
	}
	return fmt.Errorf("%s: our directory there is not the one that the trial was started in: is a file system not mounted? "+
		"if it is gone for good, give the trial up by starter kill --lost", placed.Address)
}

func (l *link) close() {
	l.forget()
	l.connection.Close()
}

// connect logs in, brings the runner if need be and starts an agent.
func (h *host) connect(ctx context.Context) (*link, error) {
	connection, err := ssh.Dial(ctx, h.target(ctx))
	if err != nil {
		return nil, err
	}
	made := &link{connection: connection}
	made.forget = context.AfterFunc(h.kind.ctx(), func() { connection.Close() })
	if err := h.serve(ctx, made); err != nil {
		made.close()
		return nil, err
	}
	return made, nil
}

func (h *host) serve(ctx context.Context, made *link) error {
	site, err := h.look(ctx, made.connection)
	if err != nil {
		return err
	}
	made.place = place{site.directory, site.runnerPath()}
	if !site.present {
		if err := site.bring(ctx, made.connection); err != nil {
			return h.refused(err)
		}
	}
	process, output, welcome, err := made.start(ctx, agent.Hello{Purpose: agent.Serve})
	if err != nil {
		return h.refused(err)
	}
	if welcome.SHA256 != site.sum {
		return h.replace(ctx, made.connection, site)
	}
	made.welcome = welcome
	made.client = agent.NewClient(output, process.Stdin, h.kind.ended.Tell)
	return nil
}

// replace removes a runner that is not what its name says; the next try brings it.
func (h *host) replace(ctx context.Context, connection *ssh.Connection, site site) error {
	_, err := connection.Run(ctx, "exec rm -f "+quote(site.runnerPath()), strings.NewReader(""))
	return h.refused(errors.Join(errors.New("the runner there was damaged and is brought again"), err))
}

func (h *host) refused(err error) error {
	var known *ssh.Error
	if errors.As(err, &known) {
		return err
	}
	return fmt.Errorf("%s: %w", h.address, err)
}

// start starts an agent for some purpose and greets it.
func (l *link) start(ctx context.Context, hello agent.Hello) (*ssh.Process, *bufio.Reader, agent.Welcome, error) {
	hello.Directory, hello.NNIPlatform = l.place.directory, "remote"
	process, err := l.connection.Start(ctx, "exec "+quote(l.place.runner)+" "+agent.Command)
	if err != nil {
		return nil, nil, agent.Welcome{}, err
	}
	greeted := make(chan greeting, 1)
	go func() { // a process that hangs hangs on when its session is closed
		output, welcome, err := agent.Greet(process.Stdout, process.Stdin, hello)
		greeted <- greeting{output, welcome, err}
	}()
	var got greeting
	select {
	case got = <-greeted:
	case <-ctx.Done():
		got.err = fmt.Errorf("the runner there does not answer: %w", ctx.Err())
	}
	if got.err != nil {
		got.err = l.explain(ctx, got.err, process)
		process.Close()
	}
	return process, got.output, got.welcome, got.err
}

type greeting struct {
	output  *bufio.Reader
	welcome agent.Welcome
	err     error
}

// lastWords is how long a process that said nothing of use may take to end and say
// why.
const lastWords = 2 * time.Second

// explain says why no agent began to speak.
func (l *link) explain(ctx context.Context, err error, process *ssh.Process) error {
	if !errors.Is(err, agent.ErrGone) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, lastWords)
	defer cancel()
	var failed *ssh.Failure
	if errors.As(process.Wait(ctx), &failed) && failed.Code == 126 {
		return fmt.Errorf("%s cannot be executed there: is its file system mounted noexec? name another directory for this machine by its key directory: %s",
			l.place.runner, failed.Said)
	}
	if said := process.Said(); said != "" {
		return fmt.Errorf("%w: %s", err, said)
	}
	return err
}

func sum(content []byte) string {
	hash := sha256.Sum256(content)
	return hex.EncodeToString(hash[:])
}
