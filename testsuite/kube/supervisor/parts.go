package supervisor

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
)

// part is a process of the cluster that can be ended and started again.
type part struct {
	sync.Mutex
	name, program string
	arguments     []string
	environment   []string
	directory     string
	command       *exec.Cmd
	ended         chan struct{}
}

// start starts a part by the program of the tools that holds it.
func (s *Supervisor) start(name, program string, arguments ...string) error {
	p := &part{name: name, program: filepath.Join(s.tools, program), arguments: arguments, directory: s.Directory}
	if program == "node" {
		p.arguments = append([]string{name}, arguments...)
	}
	return s.add(p)
}

func (s *Supervisor) add(p *part) error {
	s.mutex.Lock()
	s.parts[p.name] = p
	s.mutex.Unlock()
	return p.start(s.path("logs"))
}

// start starts the process; what it says is in a log of the part's name.
func (p *part) start(logs string) error {
	p.Lock()
	defer p.Unlock()
	if p.ended != nil {
		select {
		case <-p.ended:
		default:
			return nil
		}
	}
	if err := os.MkdirAll(logs, 0o755); err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(logs, p.name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	p.command = exec.Command(p.program, p.arguments...)
	p.command.Stdout, p.command.Stderr, p.command.Dir = log, log, p.directory
	// Some look for what lies in servingDirectory wherever temporary files are.
	p.command.Env = append(append(os.Environ(), "TMPDIR=/tmp"), p.environment...)
	return p.launch()
}

func (p *part) launch() error {
	if err := p.command.Start(); err != nil {
		return err
	}
	ended, command := make(chan struct{}), p.command
	p.ended = ended
	go func() { _ = command.Wait(); close(ended) }()
	return nil
}

// kill ends the process at once and returns when it has ended: asked to, the API
// server would wait a minute for etcd.
func (p *part) kill() {
	p.Lock()
	defer p.Unlock()
	_ = p.command.Process.Kill()
	<-p.ended
}

// signal sends the process a signal: SIGSTOP makes a part that answers nobody.
func (p *part) signal(signal syscall.Signal) error {
	p.Lock()
	defer p.Unlock()
	return p.command.Process.Signal(signal)
}
