package ssh

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

const (
	// sessions is how many commands run at a time; sshd allows ten by default.
	sessions = 8
	// aliveEvery and alivePatience find a link that was cut silently, where
	// nothing ever errors by itself.
	aliveEvery    = 3 * time.Second
	alivePatience = 6 * time.Second
	// said is how much of a command's complaints is kept, in bytes.
	said = 4 << 10
)

// Connection is one login. It is safe for concurrent use.
type Connection struct {
	client login
	slots  chan struct{}
	done   chan struct{}
	once   sync.Once
}

func newConnection(client login) *Connection {
	c := &Connection{client: client, slots: make(chan struct{}, sessions), done: make(chan struct{})}
	go c.keepAlive()
	return c
}

// Done is closed when the connection is dead or closed.
func (c *Connection) Done() <-chan struct{} { return c.done }

// Close ends the connection with all that runs on it.
func (c *Connection) Close() error {
	c.once.Do(func() { close(c.done) })
	return c.client.Close()
}

// keepAlive closes the connection when the machine does not answer.
func (c *Connection) keepAlive() {
	defer c.Close()
	go func() {
		c.client.Wait()
		c.Close()
	}()
	ticker := time.NewTicker(aliveEvery)
	defer ticker.Stop()
	for {
		select {
		case <-c.done:
			return
		case <-ticker.C:
			if !c.answers() {
				return
			}
		}
	}
}

// answers tells whether the machine answers, or at least still says something.
func (c *Connection) answers() bool {
	answered := make(chan error, 1)
	go func() {
		_, _, err := c.client.SendRequest("keepalive@openssh.com", true, nil)
		answered <- err
	}()
	for {
		arrived := c.client.line.arrived.Load()
		select {
		case err := <-answered:
			return err == nil
		case <-c.done:
			return false
		case <-time.After(alivePatience):
			// The question may wait behind an upload; sshd says how that goes.
			if c.client.line.arrived.Load() == arrived {
				return false
			}
		}
	}
}

// Process is a command that runs on the machine.
type Process struct {
	Stdin  io.WriteCloser
	Stdout io.Reader

	session *ssh.Session
	release func()
	stderr  *tail
}

// Start starts a command, given to the user's login shell.
func (c *Connection) Start(ctx context.Context, command string) (*Process, error) {
	if err := c.slot(ctx); err != nil {
		return nil, err
	}
	process := &Process{stderr: &tail{}, release: sync.OnceFunc(func() { <-c.slots })}
	started := make(chan error, 1)
	go func() { started <- process.start(c.client.Client, command) }()
	var err error
	select {
	case err = <-started:
	case <-ctx.Done():
		go func() { <-started; process.Close() }() // a channel that opens late
		return nil, ctx.Err()
	case <-c.done:
		err = errorf(Unreachable, "the connection was lost")
	}
	if err != nil {
		process.release()
		return nil, err
	}
	return process, nil
}

// slot waits until another command may run.
func (c *Connection) slot(ctx context.Context) error {
	select {
	case c.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-c.done:
		return errorf(Unreachable, "the connection is closed")
	}
}

func (p *Process) start(client *ssh.Client, command string) (err error) {
	if p.session, err = open(client); err != nil {
		return errorf(Unreachable, "open a session: %w", err)
	}
	p.session.Stderr = p.stderr
	p.Stdin, err = p.session.StdinPipe()
	if err == nil {
		p.Stdout, err = p.session.StdoutPipe()
	}
	if err == nil {
		err = p.session.Start(command)
	}
	if err != nil {
		p.session.Close()
		return errorf(Unreachable, "start a command: %w", err)
	}
	return nil
}

// open opens a session. Where there are too many sshd may not have noticed yet that
// some have ended.
func open(client *ssh.Client) (session *ssh.Session, err error) {
	for range 20 {
		session, err = client.NewSession()
		var refused *ssh.OpenChannelError
		if !errors.As(err, &refused) {
			return session, err
		}
		time.Sleep(100 * time.Millisecond)
	}
	return nil, err
}

// Close ends the session. What it started may go on.
func (p *Process) Close() {
	p.release()
	if p.session != nil {
		p.session.Close()
	}
}

// Wait returns when the command has ended, and what it complained of if it failed.
// After Close that may be long: sshd waits for the command's own end.
func (p *Process) Wait(ctx context.Context) error {
	ended := make(chan error, 1)
	go func() { ended <- p.session.Wait() }()
	var err error
	select {
	case err = <-ended:
		p.release()
	case <-ctx.Done():
		return ctx.Err()
	}
	var exit *ssh.ExitError
	if errors.As(err, &exit) {
		return &Failure{Code: exit.ExitStatus(), Said: p.Said()}
	}
	if err != nil {
		return errorf(Unreachable, "the connection was lost: %w", err)
	}
	return nil
}

// Said is what the command last wrote to its standard error.
func (p *Process) Said() string { return p.stderr.String() }

// Failure is a command that ended with another code than 0.
type Failure struct {
	Code int
	Said string // on standard error
}

func (f *Failure) Error() string {
	if f.Said == "" {
		return fmt.Sprintf("exit code %d", f.Code)
	}
	return fmt.Sprintf("exit code %d: %s", f.Code, f.Said)
}

// Run runs a command to its end and returns what it printed. A *Failure is a
// command that failed; other errors are about the connection.
func (c *Connection) Run(ctx context.Context, command string, stdin io.Reader) ([]byte, error) {
	process, err := c.Start(ctx, command)
	if err != nil {
		return nil, err
	}
	defer process.Close()
	go func() {
		io.CopyBuffer(struct{ io.Writer }{process.Stdin}, stdin, make([]byte, 256<<10))
		process.Stdin.Close()
	}()
	read := make(chan output, 1)
	go func() {
		content, err := io.ReadAll(process.Stdout)
		read <- output{content, err}
	}()
	select {
	case printed := <-read:
		if err := process.Wait(ctx); err != nil {
			return printed.content, err
		}
		return printed.content, printed.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

type output struct {
	content []byte
	err     error
}

// tail keeps the end of what is written to it.
type tail struct {
	mutex sync.Mutex
	kept  []byte
}

// Write implements io.Writer.
func (t *tail) Write(data []byte) (int, error) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.kept = append(t.kept, data...)
	t.kept = t.kept[max(0, len(t.kept)-said):]
	return len(data), nil
}

// String returns it as valid text on one line.
func (t *tail) String() string {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	lines := bytes.Split(bytes.TrimSpace(bytes.ToValidUTF8(t.kept, []byte("?"))), []byte("\n"))
	return string(bytes.Join(lines, []byte("; ")))
}
