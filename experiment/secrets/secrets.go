// Package secrets keeps the secrets of an experiment in one file of its user's,
// and references to them everywhere else.
//
// Externalize runs before an experiment is stored or sent, Resolve in the worker
// just before a platform is called. Between them there are only references.
// Secrets are what stands below the secret keys (experiment.SecretKey) of a
// training service or of the shared storage.
package secrets

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/perennial-ml/perennial/experiment"
)

// Format numbers the layout of a secret file.
const Format = 1

// Redacted stands for a secret where people look.
const Redacted = "***"

const maxFile = 1 << 20

// vault is the content of a secret file: values by their place in the experiment.
type vault struct {
	Format int                        `json:"format"`
	Values map[string]json.RawMessage `json:"values"`
}

// Externalize moves the inline secrets of an experiment into a file of mode 0600
// and leaves references in their place. What is a reference already stays. The
// file is durable when Externalize returns; without secrets there is none.
func Externalize(e *experiment.Experiment, into string) error {
	kept := vault{Format: Format, Values: map[string]json.RawMessage{}}
	err := replace(e, func(place string, value json.RawMessage) any {
		kept.Values[place] = value
		return experiment.Reference{Kind: experiment.SecretReference, Name: place}.String()
	})
	if err != nil || len(kept.Values) == 0 {
		return err
	}
	content, err := json.Marshal(kept)
	if err == nil {
		err = write(into, append(content, '\n'))
	}
	if err != nil {
		return fmt.Errorf("keep the experiment's secrets: %w", err)
	}
	return nil
}

// Redact replaces the inline secrets of an experiment, for showing it.
func Redact(e *experiment.Experiment) error {
	return replace(e, func(string, json.RawMessage) any { return Redacted })
}

// replace changes every inline secret of an experiment.
func replace(e *experiment.Experiment, by func(place string, value json.RawMessage) any) error {
	change := func(s scalar) (json.RawMessage, error) {
		if !s.secret || !s.inline() {
			return s.value, nil
		}
		return json.Marshal(by(s.place, s.value))
	}
	var err error
	for i := range e.Platforms {
		platform := &e.Platforms[i]
		platform.Options, err = rewrite(scalar{place: "trainingService/" + strconv.Itoa(i), value: platform.Options}, change)
		if err != nil {
			return fmt.Errorf("section of platform %s: %w", platform.Name, err)
		}
	}
	e.SharedStorage, err = rewrite(scalar{place: "sharedStorage", value: e.SharedStorage}, change)
	return err
}

// Sources are where references lead.
type Sources struct {
	// File is the experiment's secret file; it need not exist.
	File string
	// LookupEnv finds variables of whoever ran the experiment.
	LookupEnv func(name string) (string, bool)
}

// Resolve replaces every reference by what it refers to. The result is secret: it
// is for a platform's hands only. Errors name the reference and never a value.
func Resolve(options json.RawMessage, from Sources) (json.RawMessage, error) {
	if !bytes.Contains(options, []byte("${")) {
		return options, nil
	}
	return rewrite(scalar{value: options}, func(s scalar) (json.RawMessage, error) {
		reference, ok := s.reference()
		if !ok {
			return s.value, nil
		}
		value, err := from.resolve(reference)
		if err != nil {
			return nil, fmt.Errorf("%s, named by %s: %w", reference, strings.TrimPrefix(s.place, "/"), err)
		}
		return value, nil
	})
}

func (s Sources) resolve(reference experiment.Reference) (json.RawMessage, error) {
	switch reference.Kind {
	case experiment.SecretReference:
		return s.kept(reference.Name)
	case experiment.FileReference:
		content, err := read(reference.Name)
		if err != nil {
			return nil, err
		}
		return json.Marshal(strings.TrimRight(string(content), "\r\n"))
	case experiment.EnvironmentReference:
		value, set := s.LookupEnv(reference.Name)
		if !set {
			return nil, errors.New("that variable was not set where the experiment was run")
		}
		return json.Marshal(value)
	}
	return nil, errors.New("no such kind of reference: update starter")
}

func (s Sources) kept(place string) (json.RawMessage, error) {
	content, err := read(s.File)
	if err != nil {
		return nil, err
	}
	var kept vault
	if err := json.Unmarshal(content, &kept); err != nil || kept.Format < 1 {
		return nil, fmt.Errorf("the secret file %s is damaged: put it back from a backup", s.File)
	}
	if kept.Format > Format {
		return nil, fmt.Errorf("the secret file %s was written by a newer starter (format %d): update starter", s.File, kept.Format)
	}
	value, found := kept.Values[place]
	if !found {
		return nil, fmt.Errorf("the secret file %s does not hold it: put it back from a backup", s.File)
	}
	return value, nil
}

func read(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err == nil && len(content) > maxFile {
		err = fmt.Errorf("%s is larger than 1 MiB, which no secret is", path)
	}
	return content, err
}

// write makes a file of mode 0600 appear, whole and durable.
func write(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	_, err = file.Write(content)
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	if err := os.Rename(file.Name(), path); err != nil {
		return err
	}
	directory, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(directory.Sync(), directory.Close())
}
