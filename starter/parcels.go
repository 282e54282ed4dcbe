package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	commonpb "go.temporal.io/api/common/v1"
	"google.golang.org/protobuf/proto"

	"github.com/perennial-ml/perennial/codedir"
	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/starter/command"
	"github.com/perennial-ml/perennial/workers/codec"
)

// sealed ends the path of a parcel that only the keys of a state directory open.
const sealed = ".sealed"

// keep puts into a record that other machines share what an experiment needs of this
// one's disk: packed code, and sealed the secrets and the environment of whoever ran it.
func (o *observation) keep(ctx context.Context, experiment string) error {
	if !o.store.Shared() {
		return nil
	}
	known, err := o.store.Parcels(ctx, experiment)
	if err != nil {
		return err
	}
	packed, err := filepath.Glob(filepath.Join(o.home, "platforms", "*", experiment, "code", "*.tar.gz"))
	if err != nil {
		return err
	}
	for _, file := range packed {
		if err := o.keepFile(ctx, experiment, file, "", known); err != nil {
			return err
		}
	}
	for _, file := range []string{command.SecretsFile(o.home, experiment), command.EnvironmentFile(o.home, experiment)} {
		if err := o.keepFile(ctx, experiment, file, sealed, known); err != nil {
			return err
		}
	}
	return nil
}

// keepFile keeps a file that is there and not kept yet; what is too large is told of and
// left out.
func (o *observation) keepFile(ctx context.Context, experiment, file, suffix string, known []string) error {
	path, err := filepath.Rel(o.home, file)
	if err != nil || slices.Contains(known, path+suffix) {
		return err
	}
	info, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && info.Size() > record.LargestParcel {
		o.log.Warn("too large for the record: on another machine the experiment could not go on", "file", file, "bytes", info.Size())
		return nil
	}
	content, err := os.ReadFile(file)
	if err == nil && suffix == sealed {
		content, err = o.seal(content)
	}
	if err != nil {
		return err
	}
	return o.store.KeepParcel(ctx, experiment, path+suffix, content)
}

func (o *observation) seal(content []byte) ([]byte, error) {
	ring, err := codec.Open(o.dir.Keys())
	if err != nil {
		return nil, err
	}
	return sealWith(ring, content)
}

func sealWith(ring *codec.Ring, content []byte) ([]byte, error) {
	closed, err := ring.Encode([]*commonpb.Payload{{Data: content}})
	if err != nil {
		return nil, err
	}
	return proto.Marshal(closed[0])
}

func (o *observation) unseal(content []byte) ([]byte, error) {
	ring, err := codec.Read(o.dir.Keys())
	if err != nil {
		return nil, err
	}
	var closed commonpb.Payload
	if err := proto.Unmarshal(content, &closed); err != nil {
		return nil, err
	}
	opened, err := ring.Decode([]*commonpb.Payload{&closed})
	if err != nil {
		return nil, err
	}
	return opened[0].GetData(), nil
}

// unpack writes what active experiments need, and another machine has kept, to this
// one's disk. What cannot be opened is told of, and missed by whoever needs it.
func (o *observation) unpack(ctx context.Context, log *slog.Logger) error {
	active, err := o.store.Active(ctx)
	for _, experiment := range active {
		if err == nil {
			err = o.unpackEach(ctx, experiment, func(path string, wrong error) {
				log.Warn("what another machine has kept cannot be used here", "file", path, "error", wrong)
			})
		}
	}
	return err
}

// fetch writes to this one's disk what was handed over with an experiment that is about to
// be accepted.
func (o *observation) fetch(ctx context.Context, experiment string) error {
	var failures []error
	err := o.unpackEach(ctx, experiment, func(path string, wrong error) {
		failures = append(failures, fmt.Errorf("%s: %w", path, wrong))
	})
	return errors.Join(append(failures, err)...)
}

func (o *observation) unpackEach(ctx context.Context, experiment string, failed func(path string, wrong error)) error {
	paths, err := o.store.Parcels(ctx, experiment)
	for _, path := range paths {
		wrong := o.unpackFile(ctx, experiment, path)
		if wrong == nil {
			wrong = o.unpackCode(experiment, path)
		}
		if wrong != nil {
			failed(path, wrong)
		}
	}
	return err
}

// unpackCode makes a directory of code that was handed over. A platform's own archives stay as they are.
func (o *observation) unpackCode(experiment, path string) error {
	directory, packed := strings.CutSuffix(path, packedCode)
	if !packed || filepath.Dir(directory) != codeOf(experiment) {
		return nil
	}
	file, err := os.Open(filepath.Join(o.home, path))
	if err != nil {
		return err
	}
	defer file.Close()
	return codedir.Unpack(file, filepath.Join(o.home, directory), filepath.Base(directory))
}

func (o *observation) unpackFile(ctx context.Context, experiment, path string) error {
	local := strings.TrimSuffix(path, sealed)
	if !filepath.IsLocal(local) {
		return errors.New("its path leads out of the state directory")
	}
	file := filepath.Join(o.home, local)
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	content, err := o.store.Parcel(ctx, experiment, path)
	if err == nil && local != path {
		if content, err = o.unseal(content); err != nil {
			return fmt.Errorf("%w: copy the directory keys of the other machine's state directory into %s", err, o.home)
		}
	}
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	return writeWhole(file, content)
}

// writeWhole writes a file of mode 0600 whole, or not at all.
func writeWhole(path string, content []byte) error {
	file, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	_, err = file.Write(content)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}
