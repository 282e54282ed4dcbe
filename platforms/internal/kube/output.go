package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/runner/rundir"
	"github.com/perennial-ml/perennial/trial"
)

// mostOutput is kept of a replica's output where its job says nothing.
const mostOutput = 256 << 20

// outputFile is where the output of a replica is kept once its pod is gone.
func (p *platform) outputFile(which replica) string {
	name := which.String()
	if which.ordinal > 0 {
		name += fmt.Sprintf(".%d", which.ordinal)
	}
	return filepath.Join(p.directory(), "output", name)
}

// keepAllOutputs keeps what can be had of the experiment's runs that were not forgotten
// one by one.
func (s *site) keepAllOutputs(ctx context.Context) {
	for _, known := range s.objects.objects.List() {
		key, ours := keyOf(known.(*unstructured.Unstructured))
		if ours && key.Experiment == s.platform.section.Experiment {
			_ = s.keepOutputs(ctx, key) // the experiment is over: nothing waits for an output
		}
	}
}

// keepOutputs copies what the run's replicas printed.
func (s *site) keepOutputs(ctx context.Context, key trial.Key) error {
	limit := s.outputLimit(key)
	for _, which := range s.section.replicas(key) {
		if err := s.keepOutput(ctx, which, limit); err != nil {
			return err
		}
	}
	return nil
}

// outputLimit is how much is kept of what each of a run's replicas printed.
func (s *site) outputLimit(key trial.Key) int64 {
	for _, u := range s.objects.of(key.String()) {
		if limit, err := strconv.ParseInt(u.GetAnnotations()[limitAnnotation], 10, 64); err == nil {
			return limit
		}
	}
	return mostOutput
}

// keepOutput copies what a replica printed, once.
func (s *site) keepOutput(ctx context.Context, which replica, limit int64) error {
	path := s.platform.outputFile(which)
	pod := s.pod(which)
	if _, err := os.Stat(path); err == nil || pod == nil || pod.gone || !pod.trial.began() {
		return nil
	}
	// What it printed last may still be on its way into the log.
	log, err := s.cluster.logs(ctx, s.namespace, pod.name, s.job.container, pod.foretold)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer log.Close()
	return save(path, log, limit)
}

// save writes a file that is there whole or not at all.
func save(path string, content io.Reader, limit int64) error {
	if err := rundir.MakeDirectory(filepath.Dir(path)); err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	err = copyWithin(file, content, limit)
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		_ = os.Remove(file.Name())
	}
	return err
}

// copyWithin copies what was printed within a limit, as runners keep it elsewhere: the
// first half of it and the last.
func copyWithin(to *os.File, from io.Reader, limit int64) error {
	half := limit / 2
	if _, err := io.CopyN(to, from, half); err == io.EOF {
		return nil
	} else if err != nil {
		return err
	}
	last := ring{io.NewOffsetWriter(to, half), limit - half, 0}
	if _, err := io.Copy(&last, from); err != nil || last.written <= last.size {
		return err
	}
	return last.straighten(to, half)
}

// ring keeps the last of what is written to it, in a part of a file.
type ring struct {
	file          io.WriterAt
	size, written int64
}

func (r *ring) Write(data []byte) (int, error) {
	for rest := data; len(rest) > 0; {
		at := r.written % r.size
		n, err := r.file.WriteAt(rest[:min(int64(len(rest)), r.size-at)], at)
		r.written += int64(n)
		if rest = rest[n:]; err != nil {
			return len(data) - len(rest), err
		}
	}
	return len(data), nil
}

// straighten puts the ring, which begins at an offset of its file, into order, after a
// line that says how much is missing.
func (r *ring) straighten(file *os.File, from int64) error {
	tail, err := os.CreateTemp(filepath.Dir(file.Name()), ".new-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(tail.Name()); _ = tail.Close() }()
	at := r.written % r.size
	ordered := io.MultiReader(strings.NewReader(fmt.Sprintf("\n[perennial: %d bytes left out]\n", r.written-r.size)),
		io.NewSectionReader(file, from+at, r.size-at), io.NewSectionReader(file, from, at))
	size, err := io.Copy(tail, ordered)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.NewOffsetWriter(file, from), io.NewSectionReader(tail, 0, size))
	return err
}

// Replicas implements platforms.WithReplicas.
func (p *platform) Replicas(ctx context.Context, handle platforms.Handle) (names []string, err error) {
	s, err := p.site(ctx)
	if err != nil {
		return nil, Fault("replicas", err)
	}
	for _, which := range s.section.replicas(handle.Key) {
		names = append(names, s.section.nameOf(which))
	}
	return names, nil
}

// Logs implements platforms.WithLogs. Kubernetes keeps one stream for both stdout
// and stderr, so either has both.
func (p *platform) Logs(ctx context.Context, handle platforms.Handle, wanted platforms.Log) (io.ReadCloser, error) {
	content, err := p.output(ctx, handle, wanted)
	if err != nil {
		return nil, Fault("logs", err)
	}
	if _, err := io.CopyN(io.Discard, content, wanted.From); err != nil && err != io.EOF {
		return nil, Fault("logs", errors.Join(err, content.Close()))
	}
	return content, nil
}

func (p *platform) output(ctx context.Context, handle platforms.Handle, wanted platforms.Log) (io.ReadCloser, error) {
	none := io.NopCloser(strings.NewReader(""))
	if wanted.Stream == trial.ParameterFile {
		return p.parameter(ctx, handle.Key)
	}
	if wanted.Stream != rundir.Stdout && wanted.Stream != rundir.Stderr {
		return none, nil
	}
	which, err := p.replica(ctx, handle.Key, wanted.Replica)
	if err != nil {
		return nil, err
	}
	if kept, err := os.Open(p.outputFile(which)); !errors.Is(err, fs.ErrNotExist) {
		return kept, err
	}
	s, err := p.ready(ctx)
	if err != nil {
		return nil, err
	}
	pod := s.pod(which)
	if pod == nil || !pod.trial.began() {
		return none, nil
	}
	return s.cluster.logs(ctx, s.namespace, pod.name, s.job.container, wanted.Follow)
}

// replica finds one by its name; an empty one is that which decides.
func (p *platform) replica(ctx context.Context, key trial.Key, name string) (replica, error) {
	if name == "" {
		return replica{Key: key}, nil
	}
	s, err := p.site(ctx)
	if err != nil {
		return replica{}, err
	}
	return s.section.replicaNamed(name, key)
}
