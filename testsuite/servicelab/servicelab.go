// Package servicelab is what the laboratories of services have in common: the faults
// that networks and services have, and nodes that run the commands of jobs as processes
// of this machine.
package servicelab

import (
	"crypto/tls"
	"io"
	"maps"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Fault is what happens to a call of a sort, once: before it does anything it answers
// Status, or once it has done its work the answer is lost.
type Fault struct {
	Of         string // the sort; empty: any
	Lost       bool
	Status     int
	Code       string // the service's own word for it, which may be JSON
	HTML       bool   // with Status: the answer is a page
	RetryAfter string
	Slow       time.Duration
}

// Faults are those that calls are still to meet, and the limits of calls. It is safe for
// concurrent use.
type Faults struct {
	mutex   sync.Mutex
	now     func() time.Time // nil: time.Now
	left    []*Fault
	calls   map[string]int
	limits  map[string]limit
	refused int
	down    bool
}

// limit is how many calls of a sort are taken in any span of time.
type limit struct {
	calls int
	span  time.Duration
	taken []time.Time
}

// By has limits go by another clock.
func (f *Faults) By(now func() time.Time) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.now = now
}

// Allow has no more calls of a sort, or of all where that is empty, taken in any span of
// time, those that fail too. Others are refused with a page, and told to come back after the span.
func (f *Faults) Allow(sort string, calls int, span time.Duration) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.limits == nil {
		f.limits = map[string]limit{}
	}
	f.limits[sort] = limit{calls: calls, span: span}
}

// Down has every call end without an answer and without effect, until it is called with
// false.
func (f *Faults) Down(down bool) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.down = down
}

// Unlimited lifts the limits of calls.
func (f *Faults) Unlimited() {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	clear(f.limits)
}

// Refused is how many calls a limit refused.
func (f *Faults) Refused() int {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return f.refused
}

// exceeds tells whether a call is above its limit, and how long that span is.
func (f *Faults) exceeds(sort string) (time.Duration, bool) {
	limit, limited := f.limits[sort]
	if !limited {
		return 0, false
	}
	now := time.Now()
	if f.now != nil {
		now = f.now()
	}
	limit.taken = slices.DeleteFunc(limit.taken, func(at time.Time) bool { return now.Sub(at) >= limit.span })
	full := len(limit.taken) >= limit.calls
	if !full {
		limit.taken = append(limit.taken, now)
	}
	f.limits[sort] = limit
	return limit.span, full
}

// Have adds faults, which the next calls of their sort meet, each one.
func (f *Faults) Have(faults ...Fault) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	for _, fault := range faults {
		f.left = append(f.left, &fault)
	}
}

// Calls is how many calls of a sort there were.
func (f *Faults) Calls(sort string) int { return f.AllCalls()[sort] }

// AllCalls is how many calls there were, by their sort.
func (f *Faults) AllCalls() map[string]int {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return maps.Clone(f.calls)
}

// Meet counts a call and answers it: by the fault that it meets, or as handle does.
func (f *Faults) Meet(sort string, w http.ResponseWriter, handle func(http.ResponseWriter)) {
	fault, down := f.next(sort)
	time.Sleep(fault.Slow)
	switch {
	case down:
		drop(w)
	case fault.Lost:
		handle(lost{})
		drop(w)
	case fault.Status != 0:
		fault.answer(w)
	default:
		handle(w)
	}
}

func (f *Faults) next(sort string) (fault Fault, down bool) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.calls == nil {
		f.calls = map[string]int{}
	}
	f.calls[sort]++
	if f.down {
		return Fault{}, true
	}
	for _, of := range []string{sort, ""} {
		if span, full := f.exceeds(of); full {
			f.refused++
			return Fault{Status: http.StatusTooManyRequests, HTML: true, RetryAfter: strconv.Itoa(int(math.Ceil(span.Seconds())))}, false
		}
	}
	for i, fault := range f.left {
		if fault.Of == "" || fault.Of == sort {
			f.left = append(f.left[:i:i], f.left[i+1:]...)
			return *fault, false
		}
	}
	return Fault{}, false
}

func (f Fault) answer(w http.ResponseWriter) {
	if f.RetryAfter != "" {
		w.Header().Set("Retry-After", f.RetryAfter)
	}
	text, kind := f.Code, "text/plain"
	switch {
	case f.HTML:
		text, kind = "<html><body>Something is wrong, please try again later.</body></html>", "text/html"
	case strings.HasPrefix(text, "{"):
		kind = "application/json"
	}
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(f.Status)
	_, _ = io.WriteString(w, text)
}

// lost is where an answer goes that nobody gets.
type lost struct{}

func (lost) Header() http.Header            { return http.Header{} }
func (lost) Write(text []byte) (int, error) { return len(text), nil }
func (lost) WriteHeader(int)                {}

// drop ends a connection without an answer.
func drop(w http.ResponseWriter) {
	connection, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	if secured, is := connection.(*tls.Conn); is {
		connection = secured.NetConn()
	}
	_ = connection.(*net.TCPConn).SetLinger(0)
	connection.Close()
}

// Grace is what a container has between TERM and KILL.
const Grace = 10 * time.Second

// Container is a job's command as a process group of this machine.
type Container struct{ process *os.Process }

// Run starts a command by a shell in an environment, NAME=value, beside PATH. What it
// prints goes to a file, if that is named. ended is told its exit code, once.
func Run(shell, command, output string, environment []string, ended func(code int)) (*Container, error) {
	child := exec.Command(shell, "-c", command)
	child.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	child.Env = append([]string{"PATH=" + os.Getenv("PATH")}, environment...)
	if output != "" {
		file, err := os.Create(output)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		child.Stdout, child.Stderr = file, file
	}
	if err := child.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = child.Wait()
		ended(child.ProcessState.ExitCode())
	}()
	return &Container{child.Process}, nil
}

// Stop ends a container as a service does: TERM, and KILL after Grace.
func (c *Container) Stop() {
	_ = syscall.Kill(-c.process.Pid, syscall.SIGTERM)
	time.AfterFunc(Grace, c.Kill)
}

// Kill kills a container, as a node that is lost does.
func (c *Container) Kill() { _ = syscall.Kill(-c.process.Pid, syscall.SIGKILL) }
