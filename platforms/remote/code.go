package remote

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/perennial-ml/perennial/codedir"
	"github.com/perennial-ml/perennial/machine"
	"github.com/perennial-ml/perennial/machine/agent"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/internal/archives"
	"github.com/perennial-ml/perennial/platforms/internal/machines"
	"github.com/perennial-ml/perennial/platforms/internal/ssh"
)

// othersPatience is how long Prepare waits for the other machines once one has the
// code; those that come later are brought it then.
const othersPatience = 5 * time.Second

// uploadTimeout bounds an upload: 300 MiB take that long at 0.5 MB/s.
const uploadTimeout = 10 * time.Minute

func (k *kind) archives(experiment string) archives.Archives {
	return archives.Archives{Directory: filepath.Join(k.placements.Folder(experiment), "code")}
}

// Prepare implements platforms.Platform: it packs the code and brings it to every
// machine that can be reached. One is enough; the others get it with their first
// trial.
func (p *platform) Prepare(ctx context.Context, bundle platforms.Bundle) (platforms.Workspace, error) {
	s, err := p.read(ctx, "prepare")
	if err != nil {
		return platforms.Workspace{}, err
	}
	hash, err := p.packed(bundle)
	if err != nil {
		return platforms.Workspace{}, err
	}
	return platforms.Workspace{Hash: hash}, p.bringToAll(ctx, s.Machines, hash)
}

// packed has the bundle's code packed here and returns its hash.
func (p *platform) packed(bundle platforms.Bundle) (string, error) {
	if bundle.Again != nil {
		return bundle.Again.Hash, nil
	}
	if err := machine.CheckCode(bundle.CodeDirectory); err != nil {
		return "", platforms.Errorf(platforms.Invalid, "prepare", "%w", err)
	}
	hash, err := p.archives(p.section.Experiment).Pack(bundle.CodeDirectory)
	if errors.Is(err, codedir.ErrTooLarge) || errors.Is(err, codedir.ErrLinkLeaves) {
		err = platforms.Errorf(platforms.Invalid, "prepare", "%w", err)
	}
	return hash, machines.Fault("prepare", err)
}

// result is what became of one machine.
type result struct {
	at  int
	err error
}

// bringToAll returns when every machine has the code, or one and the others take
// too long. It fails where none can be reached.
func (p *platform) bringToAll(ctx context.Context, entries []machineEntry, hash string) error {
	results := make(chan result, len(entries))
	for i, m := range entries {
		go func() {
			results <- result{i, faultAt("prepare", m.Address, p.host(m).bringCode(p.ctx(), p.section.Experiment, hash))}
		}()
	}
	faults, done := awaitOne(ctx, results, len(entries))
	switch {
	case done:
		return nil
	case ctx.Err() != nil:
		return machines.Fault("prepare", errors.Join(append(faults, ctx.Err())...))
	}
	return worst("prepare", faults)
}

// awaitOne tells whether any of so many succeeded, after a while for the others.
func awaitOne(ctx context.Context, results <-chan result, count int) (faults []error, done bool) {
	faults = make([]error, count)
	var late <-chan time.Time
	for range count {
		select {
		case got := <-results:
			faults[got.at] = got.err
			if got.err == nil && !done {
				done, late = true, time.After(othersPatience)
			}
		case <-late:
			return faults, done
		case <-ctx.Done():
			return faults, done
		}
	}
	return faults, done
}

// bringCode sees to it that the machine has the code. An upload that nobody waits
// for any more goes on: the next one to ask finds it.
func (h *host) bringCode(ctx context.Context, experiment, hash string) error {
	up, err := h.up(ctx)
	if err != nil || h.hasCode(experiment, hash) {
		return err
	}
	brought := h.bringing(up, experiment, hash)
	select {
	case <-brought.done:
		return brought.err
	case <-ctx.Done():
		return fmt.Errorf("still sending the code: %w", ctx.Err())
	}
}

// bringing is an upload under way.
type bringing struct {
	done chan struct{}
	err  error // once done
}

// bringing returns the one upload of a tree, begun now if there was none.
func (h *host) bringing(up *link, experiment, hash string) *bringing {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	name := experiment + " " + hash
	if known := h.uploads[name]; known != nil {
		return known
	}
	brought := &bringing{done: make(chan struct{})}
	h.uploads[name] = brought
	go func() {
		archive := h.kind.archives(experiment).Path(hash)
		err := up.upload(h.kind.ctx(), archive, agent.Hello{Experiment: experiment, Code: hash})
		h.mutex.Lock()
		defer h.mutex.Unlock()
		delete(h.uploads, name)
		h.code[name] = err == nil
		brought.err = err
		close(brought.done)
	}()
	return brought
}

func (h *host) hasCode(experiment, hash string) bool {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return h.code[experiment+" "+hash]
}

func (h *host) lacksCode(experiment, hash string) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	delete(h.code, experiment+" "+hash)
}

// upload sends an archive, over a session of its own, unless the code is there.
func (l *link) upload(ctx context.Context, archive string, hello agent.Hello) error {
	ctx, cancel := context.WithTimeout(ctx, uploadTimeout)
	defer cancel()
	file, err := os.Open(archive)
	if errors.Is(err, fs.ErrNotExist) {
		return platforms.Errorf(platforms.NotFound, "upload", "the experiment's packed code is gone from %s: run the experiment anew", archive)
	}
	if err != nil {
		return err
	}
	defer file.Close()
	hello.Purpose = agent.Unpack
	process, output, welcome, err := l.start(ctx, hello)
	if err != nil {
		return err
	}
	defer process.Close()
	if welcome.HasCode {
		return nil
	}
	return deliver(ctx, process, output, file)
}

// deliver sends a file to a process and returns what it says at the end.
func deliver(ctx context.Context, process *ssh.Process, output *bufio.Reader, file io.Reader) error {
	answered := make(chan error, 1)
	go func() {
		sent := send(process, file)
		err := agent.ReadFault(output)
		if errors.Is(err, agent.ErrGone) && sent != nil {
			err = fmt.Errorf("send the code: %w", sent)
		}
		answered <- err
	}()
	select {
	case err := <-answered:
		return err
	case <-ctx.Done():
		return fmt.Errorf("send the code: %w", ctx.Err())
	}
}

// send copies in pieces as large as a window takes; small ones would each wait for
// the line.
func send(process *ssh.Process, file io.Reader) error {
	_, err := io.CopyBuffer(struct{ io.Writer }{process.Stdin}, struct{ io.Reader }{file}, make([]byte, 256<<10))
	return errors.Join(err, process.Stdin.Close())
}

// soonest is the shorter one of two times, of which the first may be none.
func soonest(first, second time.Duration) time.Duration {
	if first == 0 {
		return second
	}
	return min(first, second)
}

// worst joins what went wrong on machines, with the code of what passes the soonest
// by itself; only where that is all there is, with that of what a person must mend.
func worst(verb string, faults []error) error {
	code, after := platforms.Denied, time.Duration(0)
	var all []string
	for _, err := range faults {
		var known *platforms.Error
		if err == nil || !errors.As(err, &known) {
			continue
		}
		switch {
		case known.Code == platforms.Exhausted:
			code, after = known.Code, soonest(after, cmp.Or(known.After, roomInterval))
		case known.Code != platforms.Denied && code == platforms.Denied:
			code = platforms.Transient
		}
		all = append(all, known.Err.Error())
	}
	return &platforms.Error{Code: code, Verb: verb, After: after,
		Err: errors.New("no machine can take trials: " + strings.Join(all, "; "))}
}
