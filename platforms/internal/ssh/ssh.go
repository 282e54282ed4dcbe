// Package ssh reaches machines as the user's own ssh would: with their
// configuration, agent, keys, known hosts and jump hosts. A Connection runs
// commands until it is closed or found dead; it is never repaired, only replaced.
//
// Nothing here shows a password, a passphrase or a key: errors name files, users
// and machines.
package ssh

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"
)

// Target is a machine and how to log in there.
type Target struct {
	Host       string // a name, an address, or a Host of the user's configuration
	Port       int    // 0: the configuration's, else 22
	User       string // empty: the configuration's, else this user
	Password   string // if set, no key is tried
	KeyFile    string // if set, the only key that is tried
	Passphrase string // of KeyFile, or of the configuration's keys
	// ConfigFile replaces the user's and the system's ssh configuration.
	ConfigFile string
	// AgentSocket is where the user's ssh agent listens, empty if there is none.
	AgentSocket string
}

// String names the target for people, without anything secret.
func (t Target) String() string {
	name := t.Host
	if t.User != "" {
		name = t.User + "@" + name
	}
	if t.Port != 0 && t.Port != 22 {
		name = fmt.Sprintf("%s:%d", name, t.Port)
	}
	return name
}

// command is how a person logs in to the target by hand.
func (t Target) command() string {
	words := "ssh"
	if t.ConfigFile != "" {
		words += " -F " + t.ConfigFile
	}
	if t.Port != 0 && t.Port != 22 {
		words += fmt.Sprintf(" -p %d", t.Port)
	}
	if t.User != "" {
		return words + " " + t.User + "@" + t.Host
	}
	return words + " " + t.Host
}

// Kind tells what an error asks for.
type Kind string

// The kinds of errors.
const (
	Unreachable Kind = "unreachable" // try again, for ever
	Denied      Kind = "denied"      // a person must mend what lets us in
	Untrusted   Kind = "untrusted"   // a person must look at the machine's key
	Wrong       Kind = "wrong"       // the configuration makes no sense
)

// Error is why a machine was not reached.
type Error struct {
	Kind Kind
	Err  error
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// KindOf returns the kind of the *Error in err's chain, Unreachable where there is
// none.
func KindOf(err error) Kind {
	var known *Error
	if errors.As(err, &known) {
		return known.Kind
	}
	return Unreachable
}

func errorf(kind Kind, format string, args ...any) error {
	return &Error{kind, fmt.Errorf(format, args...)}
}

const (
	// dialTimeout bounds one try to reach a machine, all its jump hosts included,
	// from when its turn has come.
	dialTimeout = 30 * time.Second
	// dials bounds the tries at a time: sshd drops the eleventh that begins at
	// once, and a jump host sees them all.
	dials = 8
	// longestChain of jump hosts: a configuration may name itself.
	longestChain = 8
)

// dialer lets some connect at a time.
type dialer struct {
	turns   chan struct{} // filled by those whose turn it is
	timeout time.Duration
}

var dialing = dialer{make(chan struct{}, dials), dialTimeout}

// Dial logs in to a machine. Where many are being reached it waits for its turn, as
// long as ctx lets it.
func Dial(ctx context.Context, target Target) (*Connection, error) {
	return dialing.dial(ctx, target)
}

func (d dialer) dial(ctx context.Context, target Target) (*Connection, error) {
	select {
	case d.turns <- struct{}{}:
		defer func() { <-d.turns }()
	case <-ctx.Done():
		return nil, errorf(Unreachable, "%s: waiting for others to connect: %w", target, ctx.Err())
	}
	// Only now: machines that do not answer use up all their time, and those that
	// wait behind them would have none left.
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	client, err := (&chain{}).dial(ctx, target)
	if err != nil {
		return nil, err
	}
	return newConnection(client), nil
}

// chain is the way to a machine: the clients on it, the nearest first.
type chain struct {
	clients []*ssh.Client
	line    *line // to the machine that was logged in to last
}

// login is the machine's client, which closes the whole way when it closes.
type login struct {
	*ssh.Client
	line *line
	way  []*ssh.Client
}

// line counts the bytes that arrive: a machine that is slow to answer, with much on
// the way to it, is none that is silent.
type line struct {
	net.Conn
	arrived atomic.Int64
}

// Read implements net.Conn.
func (l *line) Read(into []byte) (int, error) {
	n, err := l.Conn.Read(into)
	l.arrived.Add(int64(n))
	return n, err
}

func (l login) Close() error {
	err := l.Client.Close()
	closeAll(l.way)
	return err
}

// closeAll closes the farthest first.
func closeAll(way []*ssh.Client) {
	for _, client := range slices.Backward(way) {
		client.Close()
	}
}

func (c *chain) dial(ctx context.Context, target Target) (login, error) {
	client, err := c.reach(ctx, target, 0)
	if err != nil {
		closeAll(c.clients)
		return login{}, err
	}
	return login{client, c.line, c.clients}, nil
}

// reach logs in to a target, first to the jump hosts that its configuration names.
func (c *chain) reach(ctx context.Context, target Target, depth int) (*ssh.Client, error) {
	if depth > longestChain {
		return nil, errorf(Wrong, "%s: more than %d jump hosts: does a ProxyJump name itself?", target, longestChain)
	}
	settings, err := resolve(ctx, target)
	if err != nil {
		return nil, err
	}
	var via *ssh.Client
	for i, hop := range settings.jumps(target) {
		if i == 0 {
			via, err = c.reach(ctx, hop, depth+1)
		} else {
			via, err = c.hop(ctx, hop, via)
		}
		if err != nil {
			return nil, fmt.Errorf("on the way to %s: %w", target, err)
		}
		c.clients = append(c.clients, via)
	}
	return c.handshake(ctx, target, settings, via)
}

// hop logs in to a jump host behind another; its own ProxyJump does not count.
func (c *chain) hop(ctx context.Context, hop Target, via *ssh.Client) (*ssh.Client, error) {
	settings, err := resolve(ctx, hop)
	if err != nil {
		return nil, err
	}
	return c.handshake(ctx, hop, settings, via)
}

// handshake logs in to a machine that can be connected to, from here or from a jump
// host.
func (c *chain) handshake(ctx context.Context, target Target, settings settings, via *ssh.Client) (*ssh.Client, error) {
	trust, err := newTrust(target, settings)
	if err != nil {
		return nil, err
	}
	keys, err := newCredentials(target, settings)
	if err != nil {
		return nil, err
	}
	defer keys.close()
	raw, err := connect(ctx, settings.address(), via)
	if err != nil {
		return nil, errorf(Unreachable, "%s: %w", target, err)
	}
	c.line = &line{Conn: raw}
	client, err := authenticate(ctx, c.line, settings.user, trust, keys)
	if err != nil {
		raw.Close()
		return nil, explain(ctx, err, target, trust, keys)
	}
	return client, nil
}

// authenticate is given up when ctx ends, which ssh itself knows nothing of.
func authenticate(ctx context.Context, raw net.Conn, user string, trust *trust, keys *credentials) (*ssh.Client, error) {
	stop := context.AfterFunc(ctx, func() { raw.Close() })
	connection, channels, requests, err := ssh.NewClientConn(raw, trust.address, &ssh.ClientConfig{
		User: user, Auth: keys.methods, HostKeyCallback: trust.check, HostKeyAlgorithms: trust.algorithms,
	})
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	return ssh.NewClient(connection, channels, requests), nil
}

func connect(ctx context.Context, address string, via *ssh.Client) (net.Conn, error) {
	if via != nil {
		return via.DialContext(ctx, "tcp", address)
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", address)
}

// explain says what a failed handshake asks for.
func explain(ctx context.Context, err error, target Target, trust *trust, keys *credentials) error {
	switch {
	case trust.fault != nil:
		return trust.fault
	case ctx.Err() != nil:
		return errorf(Unreachable, "%s does not answer: %w", target, ctx.Err())
	case keys.refused(err):
		return errorf(Denied, "%s %s", target, keys.advice(target))
	}
	return errorf(Unreachable, "%s: %w", target, err)
}
