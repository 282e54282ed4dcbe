package activities

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/perennial-ml/perennial/activities/poller"
	"github.com/perennial-ml/perennial/experiment"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/record"
)

// Secrets tells what the references of a section mean. What it returns goes to the
// platform and nowhere else. Nil functions know nothing.
type Secrets struct {
	// Resolve replaces the references in a section by what they refer to now.
	Resolve func(experiment string, options json.RawMessage) (json.RawMessage, error)
	// Environment returns the variables of whoever ran an experiment, NAME=value.
	Environment func(experiment string) []string
}

// SectionsOf reads the sections of experiments from their configurations on record.
func SectionsOf(store *record.Store, secrets Secrets) poller.List {
	return func(ctx context.Context, id string) ([]platforms.Section, error) {
		row, err := store.Experiment(ctx, id)
		if err != nil {
			return nil, err
		}
		var config experiment.Experiment
		if err := json.Unmarshal(row.Config, &config); err != nil {
			return nil, fmt.Errorf("configuration of experiment %s: %w", id, err)
		}
		var all []platforms.Section
		for i, platform := range config.Platforms {
			section := secrets.Section(id, platform)
			section.Index = i
			all = append(all, section)
		}
		return all, nil
	}
}

// Section is the section that a platform is opened for, as it stands in an
// experiment's configuration; id is empty where that is not run yet.
func (s Secrets) Section(id string, config experiment.Platform) platforms.Section {
	section := platforms.Section{Platform: config.Name, Experiment: id, Written: config.Options}
	section.Resolve = func(context.Context) (json.RawMessage, error) {
		if s.Resolve == nil || len(config.Options) == 0 {
			return config.Options, nil
		}
		return s.Resolve(id, config.Options)
	}
	if s.Environment != nil {
		section.Environment = func() []string { return s.Environment(id) }
	}
	return section
}
