package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/perennial-ml/perennial/codedir"
	"github.com/perennial-ml/perennial/experiment"
	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/starter/command"
	"github.com/perennial-ml/perennial/starter/host"
	"github.com/perennial-ml/perennial/workers/codec"
)

// packedCode ends the path of a parcel that is a packed directory.
const packedCode = ".tar.gz"

// codeOf is where, below a state directory, code is that was handed over with an
// experiment, each directory named by its hash.
func codeOf(experiment string) string { return filepath.Join("experiments", experiment, "code") }

// Elsewhere implements command.Engine.
func (e *engine) Elsewhere(ctx context.Context, experiment string) (machine string, err error) {
	worker, err := e.elsewhere(ctx)
	if worker != nil && experiment != "" {
		worker, err = e.driver(ctx, experiment)
	}
	if worker == nil {
		return "", err
	}
	return worker.Machine, err
}

// distant is the host of another machine, as commands see it.
func (e *engine) distant(worker *record.Worker) command.Host {
	return command.Host{PID: worker.Process, Version: worker.Version, Machine: worker.Machine,
		Address: e.external.options.HostPort, Namespace: e.external.options.Namespace, WebUI: e.external.webUI}
}

// Deposit implements command.Engine.
func (e *engine) Deposit(ctx context.Context, id string, config *experiment.Experiment) error {
	worker, err := e.elsewhere(ctx)
	if err != nil {
		return err
	}
	if worker == nil {
		return errors.New("the worker is gone: try again, so that another one is chosen")
	}
	ring, err := e.sharedRing(worker)
	if err != nil {
		return err
	}
	store, err := record.OpenBeside(e.record.Location)
	if err != nil {
		return err
	}
	defer store.Close()
	made := deposit{known: map[string]string{}, ctx: ctx, store: store, ring: ring, home: e.home, id: id}
	for _, directory := range config.CodeDirectories() {
		if err := made.code(directory); err != nil {
			return err
		}
	}
	return errors.Join(made.private(command.SecretsFile(e.home, id)), made.private(command.EnvironmentFile(e.home, id)))
}

// sharedRing seals with a key that the worker can open with, the one it uses itself if
// that is here.
func (e *engine) sharedRing(worker *record.Worker) (*codec.Ring, error) {
	dir, err := host.Open(e.home)
	if err != nil {
		return nil, err
	}
	for _, id := range slices.Backward(worker.Keys) {
		if ring, err := codec.With(dir.Keys(), id); err == nil {
			return ring, nil
		}
	}
	return nil, fmt.Errorf("what is private of an experiment is sealed for the worker, and no key of that one is here: "+
		"copy the files of keys/ in the state directory of the worker on %s into %s", worker.Machine, dir.Keys().Keys)
}

// deposit puts into the record what a worker on another machine needs of this one's disk.
type deposit struct {
	known map[string]string // directories that were packed already, and where they will be
	ctx   context.Context
	store *record.Store
	ring  *codec.Ring
	home  string
	id    string
}

// code packs a directory, and has the configuration name the one that the worker makes of
// that, below its state directory.
func (d deposit) code(directory *string) error {
	if known, packed := d.known[*directory]; packed || *directory == "" {
		*directory = known
		return nil
	}
	tree, err := codedir.Scan(*directory, codedir.DefaultLimits())
	if err != nil {
		return err
	}
	hash, err := tree.Hash()
	if err != nil {
		return err
	}
	var packed bytes.Buffer
	if err := tree.Pack(&packed); err != nil {
		return err
	}
	if packed.Len() > record.LargestParcel {
		return fmt.Errorf("the code in %s is %d MB when it is packed, and the record takes %d MB: leave out what trials do not need by "+
			"a file .perennialignore, or run it from the worker's machine", *directory, packed.Len()>>20, record.LargestParcel>>20)
	}
	there := filepath.Join(codeOf(d.id), hash)
	d.known[*directory], *directory = there, there
	return d.store.Deposit(d.ctx, d.id, there+packedCode, packed.Bytes())
}

// private hands a file over that only the worker can open; there may be none.
func (d deposit) private(file string) error {
	content, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	closed, err := sealWith(d.ring, content)
	if err != nil {
		return err
	}
	path := strings.TrimPrefix(strings.TrimPrefix(file, d.home), string(filepath.Separator))
	return d.store.Deposit(d.ctx, d.id, path+sealed, closed)
}
