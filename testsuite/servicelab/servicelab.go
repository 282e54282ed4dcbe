// Package servicelab is what the laboratories of services have in common: the faults
// that networks and services have, and nodes that run the commands of jobs as processes
// of this machine.
package servicelab

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
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

// Faults are those that calls are still to meet. It is safe for concurrent use.
type Faults struct {
	mutex sync.Mutex
	left  []*Fault
	calls map[string]int
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
func (f *Faults) Calls(sort string) int {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return f.calls[sort]
}

// Meet counts a call and answers it: by the fault that it meets, or as handle does.
func (f *Faults) Meet(sort string, w http.ResponseWriter, handle func(http.ResponseWriter)) {
	fault := f.next(sort)
	time.Sleep(fault.Slow)
	switch {
	case fault.Lost:
		handle(lost{})
		drop(w)
	case fault.Status != 0:
		fault.answer(w)
	default:
		handle(w)
	}
}

func (f *Faults) next(sort string) Fault {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.calls == nil {
		f.calls = map[string]int{}
	}
	f.calls[sort]++
	for i, fault := range f.left {
		if fault.Of == "" || fault.Of == sort {
			f.left = append(f.left[:i:i], f.left[i+1:]...)
			return *fault
		}
	}
	return Fault{}
}

func (f Fault) answer(w http.ResponseWriter) {
	if f.RetryAfter != "" {
		w.Header().Set("Retry-After", f.RetryAfter)
	}
	text, kind := f.Code, "text/plain"
	switch {
	case f.HTML:
		text, kind = "<html><body>Bad Gateway</body></html>", "text/html"
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
