package remote

import (
	"context"
	"errors"
	"io"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/internal/ssh"
	"github.com/perennial-ml/perennial/runner/agent"
	"github.com/perennial-ml/perennial/runner/runs"
)

// Logs implements platforms.WithLogs. The stream is an io.Seeker until it is read:
// who knows the beginning need not have it brought again.
func (p *platform) Logs(ctx context.Context, handle platforms.Handle, stream string) (io.ReadCloser, error) {
	placed, err := p.located(handle)
	if err != nil {
		return nil, runs.Fault("logs", err)
	}
	if placed == nil || placed.Never != nil {
		return nil, platforms.Errorf(platforms.NotFound, "logs", "no machine ever had this run")
	}
	h, err := p.hostOf(handle.Key.Experiment, placed.Address)
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
		hello: agent.Hello{Purpose: agent.Logs, Ref: &runs.Ref{Key: handle.Key}, Stream: stream}}, nil
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

// Seek implements io.Seeker, from the start and before the first Read only.
func (s *logStream) Seek(offset int64, whence int) (int64, error) {
	if whence != io.SeekStart || s.process != nil {
		return 0, errors.New("a log can be moved in from its start only, before it is read")
	}
	s.hello.Offset = offset
	return offset, nil
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
