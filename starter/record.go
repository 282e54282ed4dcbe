package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/starter/command"
	"github.com/perennial-ml/perennial/starter/host"
)

// inDirectory stands for the record of a state directory that has its own.
const inDirectory = "file"

// MoveRecord implements command.Engine. This process is the host meanwhile.
func (e *engine) MoveRecord(ctx context.Context, from, to string, tell func(table string, rows int)) error {
	dir, err := host.Open(e.home)
	if err != nil {
		return err
	}
	lock, err := host.Acquire(dir, command.Version)
	if err != nil {
		return err
	}
	return errors.Join(e.moveRecord(ctx, dir, from, to, tell), lock.Release())
}

func (e *engine) moveRecord(ctx context.Context, dir host.Dir, from, to string, tell func(string, int)) error {
	source, err := e.locate(from)
	if err != nil {
		return err
	}
	target, err := e.locate(to)
	if err != nil {
		return err
	}
	if err := e.mine(source, target); err != nil {
		return err
	}
	machine, err := os.Hostname()
	if err != nil {
		return err
	}
	if err := record.Move(ctx, source, target, record.Leader{Directory: dir.StateID(), Machine: machine}, tell); err != nil {
		return err
	}
	return e.settle(dir, from, to)
}

// mine refuses to move a record that is not that of the state directory.
func (e *engine) mine(source, target string) error {
	kept, err := host.KeptRecord(e.home, e.lookupRecord)
	if err != nil {
		return err
	}
	if kept != record.Redacted(source) && kept != record.Redacted(target) {
		return fmt.Errorf("the record of this state directory is %s: that is what can be moved from here", kept)
	}
	if source == target {
		return errors.New("both places are the same")
	}
	return nil
}

// settle has the state directory know where its record is now. What it had itself stays
// beside, under a name that nobody opens.
func (e *engine) settle(dir host.Dir, from, to string) error {
	given := to
	switch to {
	case inDirectory:
		given = ""
	case "${env:" + host.RecordVariable + "}":
		given = e.record.Given
	}
	if err := host.KeepRecord(dir, given); err != nil || from != inDirectory {
		return err
	}
	return putAside(host.RecordFile(e.home))
}

// putAside takes the log of a database away before the database: a log that stayed would
// be read into the next one in its place.
func putAside(database string) error {
	for _, part := range []string{"-shm", "-wal", ""} {
		if err := os.Rename(database+part, database+".moved"+part); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// locate makes a location of what a command was told.
func (e *engine) locate(place string) (string, error) {
	if place == inDirectory {
		return host.RecordFile(e.home), nil
	}
	return host.ResolveRecord(place, e.lookupRecord)
}

// lookupRecord finds variables, that of the record too, which nothing inherits.
func (e *engine) lookupRecord(name string) (string, bool) {
	if name == host.RecordVariable {
		return e.record.Given, e.record.Given != ""
	}
	return os.LookupEnv(name)
}
