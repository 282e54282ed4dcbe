package remote

import (
	"context"
	"io"

	"github.com/perennial-ml/perennial/machine"
	"github.com/perennial-ml/perennial/machine/agent"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/internal/machines"
	"github.com/perennial-ml/perennial/platforms/internal/ssh"
)

// Logs implements platforms.WithLogs.
func (p *platform) Logs(ctx context.Context, handle platforms.Handle, wanted platforms.Log) (io.ReadCloser, error) {
	placed, err := p.located(handle)
	if err != nil {
		return nil, machines.Fault("logs", err)
	}
	if placed == nil || placed.Never != nil {
		return nil, platforms.Errorf(platforms.NotFound, "logs", "no machine ever had this run")
	}
	if wanted.Replica != "" {
		return nil, platforms.Errorf(platforms.NotFound, "logs", "a trial on platform remote has no replicas")
	}
	h, err := p.hostOf(ctx, placed.Address)
	var up *link
	if err == nil {
		up, err = h.up(ctx)
	}
	if err == nil {
		err = up.tells(*placed)
	}
	if err != nil {
		return nil, faultAt("logs", placed.Address, err)
	}
	return &logStream{ctx: ctx, link: up, address: h.address,
		hello: agent.Hello{Purpose: agent.Logs, Ref: &machine.Ref{Key: handle.Key}, Stream: wanted.Stream, Offset: wanted.From}}, nil
}

// logStream is a stream over a session of its own, which begins with the first
// Read.
type logStream struct {
	ctx     context.Context
	link    *link
	address Address
	hello   agent.Hello
	process *ssh.Process
	output  io.Reader
}

// Read implements io.Reader.
func (s *logStream) Read(into []byte) (int, error) {
	if s.output == nil {
		if err := s.open(); err != nil {
			return 0, faultAt("logs", s.address, err)
		}
	}
	return s.output.Read(into)
}

func (s *logStream) open() error {
	process, output, _, err := s.link.start(s.ctx, s.hello)
	if err != nil {
		return err
	}
	s.process = process
	if err := agent.ReadFault(output); err != nil {
		return err
	}
	s.output = output
	return nil
}

// Close implements io.Closer.
func (s *logStream) Close() error {
	if s.process != nil {
		s.process.Close()
	}
	return nil
}
