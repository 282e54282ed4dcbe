package supervisor

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// Serve answers the laboratory's users, on a socket in its directory, until one
// of them ends it or stop is closed; ready is called once it does:
//
//	POST /parts/NAME/kill|start|freeze|thaw
//	POST /python?interpreter=PATH
//	POST /kueue
//	POST /down
func (s *Supervisor) Serve(ready func(), stop <-chan struct{}) error {
	listener, err := net.Listen("unix", s.Control())
	if err != nil {
		return err
	}
	down := make(chan struct{}, 1)
	routes := http.NewServeMux()
	routes.HandleFunc("POST /parts/{name}/{verb}", s.steer)
	routes.HandleFunc("POST /python", func(w http.ResponseWriter, r *http.Request) { tell(w, s.Python(r.FormValue("interpreter"))) })
	routes.HandleFunc("POST /kueue", func(w http.ResponseWriter, r *http.Request) { tell(w, s.Kueue(r.Context())) })
	routes.HandleFunc("POST /down", func(http.ResponseWriter, *http.Request) { down <- struct{}{} })
	go func() { _ = http.Serve(listener, routes) }()
	ready()
	select {
	case <-stop:
	case <-down:
	}
	return nil
}

func (s *Supervisor) steer(w http.ResponseWriter, r *http.Request) {
	p := s.there(r.PathValue("name"))
	if p == nil {
		tell(w, errors.New("there is no part "+r.PathValue("name")))
		return
	}
	switch r.PathValue("verb") {
	case "kill":
		p.kill()
	case "start":
		tell(w, p.start(s.path("logs")))
	case "freeze":
		tell(w, p.signal(syscall.SIGSTOP))
	case "thaw":
		tell(w, p.signal(syscall.SIGCONT))
	default:
		tell(w, errors.New("there is no verb "+r.PathValue("verb")))
	}
}

// there is a part that was started, perhaps killed since; nil: it was not.
func (s *Supervisor) there(name string) *part {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.parts[name]
}

func tell(w http.ResponseWriter, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// Stop ends everything that runs, pods too, and removes what would stay: the
// kernel takes the rest with the namespaces.
func (s *Supervisor) Stop() {
	for _, name := range []string{"kubelet", "containerd"} { // or they would start others meanwhile
		if p := s.parts[name]; p != nil && p.ended != nil {
			p.kill()
		}
	}
	_ = syscall.Kill(-1, syscall.SIGKILL) // all in our namespace but its first process and this one
	_ = await(context.Background(), "the end of all processes", func() error {
		if left, _ := filepath.Glob("/proc/[0-9]*"); len(left) > 2 {
			return errors.New("some are left")
		}
		return nil
	})
	s.unmount()
	groups, _ := filepath.Glob(filepath.Join("/sys/fs/cgroup", "*", s.Group()))
	for _, group := range append(groups, filepath.Join("/sys/fs/cgroup", s.Group())) {
		_ = exec.Command("find", group, "-depth", "-type", "d", "-delete").Run()
	}
	_ = os.RemoveAll(s.Directory)
}

// unmount lets go of every mount below the directory.
func (s *Supervisor) unmount() {
	content, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(content)) {
		if place := strings.Fields(line)[4]; strings.HasPrefix(place, s.Directory+"/") {
			_ = syscall.Unmount(place, syscall.MNT_DETACH)
		}
	}
}
