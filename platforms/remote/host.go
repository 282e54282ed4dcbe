package remote

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/perennial-ml/perennial/machine/agent"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/internal/machines"
	"github.com/perennial-ml/perennial/platforms/internal/ssh"
	"github.com/perennial-ml/perennial/trial"
)

// Pauses between two tries to reach a machine: the first, and the longest, of a
// machine that does not answer and of one that does not let us in. Some lock out
// who fails often; whether a key is known by now is nobody's business but ours.
const (
	firstPause    = time.Second
	longestPause  = 30 * time.Second
	firstDenied   = 30 * time.Second
	longestDenied = 5 * time.Minute
	untrusted     = 3 * time.Second
)

// connectTimeout bounds all that comes before an agent answers, a first upload of
// the runner over a slow line included.
const connectTimeout = 5 * time.Minute

// host is one machine: its connection while there is one, made when somebody needs
// it, and what is known of it.
type host struct {
	kind    *kind
	address Address

	mutex    sync.Mutex
	section  *platform // on whose behalf we log in
	machine  machineEntry
	link     *link         // nil while there is none
	trying   chan struct{} // closed when the present try is over; nil: there is none
	fault    error         // of the last try; nil after a good one
	failures int
	next     time.Time     // no try before
	heard    time.Time     // when its agent last answered
	asked    time.Time     // when it was first asked since then
	looked   time.Time     // when facts were told
	welcome  agent.Welcome // of the last connection
	changed  time.Time     // when that was another directory than before
	used     time.Time     // when somebody last needed it
	facts    agent.Facts
	open     map[trial.Key]bool   // runs that are not over, as far as known
	code     map[string]bool      // hashes it is known to hold
	uploads  map[string]*bringing // those under way
}

func newHost(p *platform, m machineEntry) *host {
	return &host{
		kind: p.kind, section: p, address: m.Address, machine: m, heard: time.Now(),
		open: map[trial.Key]bool{}, code: map[string]bool{}, uploads: map[string]*bringing{},
	}
}

// host returns the machine, made known now if it was not. The next login goes by
// what this section says of it.
func (p *platform) host(m machineEntry) *host {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	known := p.hosts[m.Address]
	if known == nil {
		known = newHost(p, m)
		p.hosts[m.Address] = known
	}
	known.mutex.Lock()
	defer known.mutex.Unlock()
	known.machine, known.section = m, p
	return known
}

// hostOf returns the machine that has a run of the section.
func (p *platform) hostOf(ctx context.Context, address Address) (*host, error) {
	p.mutex.Lock()
	known := p.hosts[address]
	p.mutex.Unlock()
	if known != nil {
		return known, nil
	}
	m, err := p.machine(ctx, address)
	if err != nil {
		return nil, err
	}
	return p.host(m), nil
}

// machine is what the section says of a machine now.
func (p *platform) machine(ctx context.Context, address Address) (machineEntry, error) {
	s, err := p.read(ctx, "connect")
	if err != nil {
		return machineEntry{}, err
	}
	i := slices.IndexFunc(s.Machines, func(m machineEntry) bool { return m.Address == address })
	if i < 0 {
		return machineEntry{}, fmt.Errorf("machine %s is not in the experiment's machineList any more", address)
	}
	return s.Machines[i], nil
}

// up returns the connection. It waits for the first try to reach the machine; where
// the last one failed, it returns why at once and tries again behind its back.
func (h *host) up(ctx context.Context) (*link, error) {
	return h.await(ctx, 0)
}

// await is up for somebody who needs this machine and no other: where it is being
// tried again he waits a while.
func (h *host) await(ctx context.Context, patience time.Duration) (*link, error) {
	late := time.After(patience)
	for {
		h.mutex.Lock()
		h.drop()
		h.used = time.Now()
		h.ask()
		up, trying := h.link, h.try()
		fault := h.fault
		h.mutex.Unlock()
		if up != nil || trying == nil {
			return up, fault
		}
		if fault == nil {
			late = nil
		}
		select {
		case <-trying:
		case <-late:
			return nil, fault
		case <-ctx.Done():
			return nil, fmt.Errorf("%s: still connecting: %w", h.address, ctx.Err())
		}
	}
}

const (
	// tries is how often a verb is sent again when the connection goes under it:
	// all of them may be.
	tries = 4
	// againPatience is how long such a verb waits for the next connection.
	againPatience = 3 * time.Second
)

// do does something over the connection, again where that was lost.
func (h *host) do(ctx context.Context, verb func(*link) error) (err error) {
	for range tries {
		var up *link
		if up, err = h.await(ctx, againPatience); err != nil {
			return err
		}
		if err = verb(up); !errors.Is(err, agent.ErrGone) {
			return machines.Error(err)
		}
		<-up.client.Done()
	}
	return err
}

// doFor is do about a run, for an agent that can tell of it.
func (h *host) doFor(ctx context.Context, placed placement, verb func(*agent.Client) error) error {
	return h.do(ctx, func(up *link) error {
		if err := up.tells(placed); err != nil {
			return err
		}
		return verb(up.client)
	})
}

// try sees to it that the machine is being reached, unless it is or it is too
// soon. It returns what is closed when the present try is over.
func (h *host) try() <-chan struct{} {
	if h.link == nil && h.trying == nil && !time.Now().Before(h.next) && h.kind.ctx().Err() == nil {
		h.trying = make(chan struct{})
		go h.reach()
	}
	if h.trying == nil && h.link == nil && h.fault == nil {
		h.fault = errors.New("the platform is closed")
	}
	return h.trying
}

// reach is one try.
func (h *host) reach() {
	ctx, cancel := context.WithTimeout(h.kind.ctx(), connectTimeout)
	defer cancel()
	made, err := h.connect(ctx)
	h.mutex.Lock()
	defer h.mutex.Unlock()
	close(h.trying)
	h.trying = nil
	if err != nil {
		h.failed(err)
		return
	}
	if made.welcome.Site != h.welcome.Site {
		h.changed = time.Now()
	}
	h.link, h.welcome, h.fault, h.failures, h.heard = made, made.welcome, nil, 0, time.Now()
	go h.follow(made)
	go h.section.supersedeOn(h)
}

func (h *host) failed(err error) {
	h.fault = err
	times := min(h.failures, 10)
	pause := min(firstPause<<times, longestPause)
	switch ssh.KindOf(err) {
	case ssh.Denied:
		pause = min(firstDenied<<times, longestDenied)
	case ssh.Untrusted:
		pause = untrusted
	}
	h.failures++
	h.next = time.Now().Add(pause)
}

// idleFor is how long a connection stays that nobody needs, and idleLook how often
// that is looked at.
const (
	idleFor  = 10 * time.Minute
	idleLook = time.Minute
)

// follow waits for the end of a connection, and ends it when nobody needs it.
func (h *host) follow(up *link) {
	ticker := time.NewTicker(idleLook)
	defer ticker.Stop()
	for !up.client.Gone() {
		select {
		case <-up.client.Done():
		case <-ticker.C:
			if h.idle() {
				up.close()
			}
		}
	}
	up.close()
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.drop()
}

// idle tells whether nobody has runs on the machine or asked for it of late.
func (h *host) idle() bool {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return len(h.open) == 0 && time.Since(h.used) > idleFor
}

// drop forgets a connection that is lost. The next one is made when somebody needs
// it; who has runs there need not wait to learn that they cannot be reached.
func (h *host) drop() {
	if h.link == nil || !h.link.client.Gone() {
		return
	}
	h.hear(h.link)
	h.link = nil
	clear(h.code) // who knows what is there when it comes back
	if len(h.open) > 0 {
		h.fault = fmt.Errorf("%s: the connection was lost", h.address)
	}
}

func (h *host) close() {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if h.link != nil {
		h.link.close()
	}
}

// told notes what an answer said about the machine.
func (h *host) told(facts agent.Facts) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.facts, h.heard, h.looked = facts, time.Now(), time.Now()
}

// silence is for how long nobody has heard of a run from the machine, as far as this
// process knows. A machine that answers without our directory is silent about what
// ran there only if it was started anew: else that may run on, and would not notice
// that it was given up.
func (h *host) silence(placed placement) time.Duration {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if h.link != nil {
		h.hear(h.link)
	}
	switch {
	case placed.foreign(h.welcome) && placed.Boot != h.welcome.Boot:
		return time.Since(h.changed)
	case h.heard.After(h.asked):
		return 0 // nobody has asked
	}
	return time.Since(h.asked)
}

// ask takes note that somebody wants an answer.
func (h *host) ask() {
	if h.link != nil {
		h.hear(h.link)
	}
	if h.heard.After(h.asked) {
		h.asked = time.Now()
	}
}

// hear takes note of answers that came too late for whoever had asked: a machine
// that is slow is none that is silent.
func (h *host) hear(of *link) {
	if last := of.client.Heard(); last.After(h.heard) {
		h.heard = last
	}
}

// saw notes whether a run is over.
func (h *host) saw(key trial.Key, over bool) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if over {
		delete(h.open, key)
	} else {
		h.open[key] = true
	}
}

// target is how to log in, by what the section says now: a person may have
// mended a password meanwhile.
func (h *host) target(ctx context.Context) ssh.Target {
	h.mutex.Lock()
	section, m := h.section, h.machine
	h.mutex.Unlock()
	if fresh, err := section.machine(ctx, h.address); err == nil {
		m = fresh
	}
	socket, _ := section.section.LookupEnv("SSH_AUTH_SOCK")
	return ssh.Target{
		Host: m.Host, Port: m.Port, User: m.User, Password: m.Password, KeyFile: m.KeyFile, Passphrase: m.Passphrase,
		ConfigFile: m.configuration, AgentSocket: socket,
	}
}

// faultAt gives an error about a machine the code that says what to do.
func faultAt(verb string, address Address, err error) error {
	var known *platforms.Error
	var refused *ssh.Error
	switch err = machines.Error(err); {
	case err == nil:
		return nil
	case errors.As(err, &known):
		return &platforms.Error{Code: known.Code, Verb: verb, After: known.After, Err: fmt.Errorf("%s: %w", address, known.Err)}
	case errors.As(err, &refused) && refused.Kind != ssh.Unreachable:
		return platforms.Errorf(platforms.Denied, verb, "%w", err)
	case errors.As(err, &refused):
		return platforms.Errorf(platforms.Transient, verb, "%w", err)
	}
	if strings.HasPrefix(err.Error(), address.String()) {
		return platforms.Errorf(platforms.Transient, verb, "%w", err) // says it already
	}
	return platforms.Errorf(platforms.Transient, verb, "%s: %w", address, err)
}

// plain puts an error into words that stay the same from try to try: a connection's
// own end has another number each time.
func plain(address Address, err error) error {
	var operation *net.OpError
	switch {
	case errors.As(err, &operation):
		return fmt.Errorf("%s: %s: %w", address, operation.Op, operation.Err)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s does not answer", address)
	}
	return err
}
