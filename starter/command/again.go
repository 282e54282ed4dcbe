package command

import (
	"bytes"
	"context"
	"encoding/json"
	"path/filepath"

	"github.com/perennial-ml/perennial/experiment"
	"github.com/perennial-ml/perennial/record"
)

// given is an experiment file that is on no disk.
type given struct {
	name string
	text []byte
}

// again is the file that starts an experiment on record once more, with changes.
func (w World) again(ctx context.Context, name string, changes []string) (*given, error) {
	made := &given{}
	err := w.read(ctx, func(r reader) error {
		e, err := r.experiment(ctx, name)
		if err != nil {
			return err
		}
		made.name = "experiment " + e.ID
		made.text, err = fileOf(e)
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, change := range changes {
		if made.text, err = experiment.Set(made.text, change); err != nil {
			return nil, badInput("--set trialConcurrency=8 or --set tuner.name=TPE; starter show "+name+" --file shows all there is", "%w", err)
		}
	}
	return made, nil
}

// fileOf is an experiment as it was accepted, as a file.
func fileOf(e record.Experiment) ([]byte, error) {
	var config experiment.Experiment
	if err := json.Unmarshal(e.Config, &config); err != nil {
		return nil, err
	}
	for _, directory := range config.CodeDirectories() {
		if *directory != "" && !filepath.IsAbs(*directory) {
			return nil, badInput("run its file there again", "the code of experiment %s came from another machine", e.ID)
		}
	}
	if bytes.Contains(e.Config, []byte("${secret:")) {
		return nil, badInput("refer to them by ${env:NAME} or ${file:PATH}, and every run finds them", "experiment %s has secrets in its file, which are kept for it alone", e.ID)
	}
	return experiment.File(e.Config)
}
