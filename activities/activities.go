// Package activities is what workflows can have done: prepare code, submit a
// trial, watch it, end it, ask an algorithm, write the record. It is the one place
// where a platform's errors become Temporal's, and none of it decides what
// happens next: that is for workflows.
package activities

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/perennial-ml/perennial/activities/poller"
	"github.com/perennial-ml/perennial/assessors"
	"github.com/perennial-ml/perennial/experiment"
	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
	"github.com/perennial-ml/perennial/tuners"
)

// TrialWorkflows reaches the workflows of trials.
type TrialWorkflows interface {
	// Start starts a trial's workflow, unless one is open. Nothing comes of the
	// workflow of a trial that has ended.
	Start(ctx context.Context, start Start) error
	// EarlyStop takes a decision to a trial's workflow. It returns nil where there is
	// no such workflow any more: the sweeper repeats what was missed.
	EarlyStop(ctx context.Context, key trial.Key, decision trial.Decision) error
}

// Start says of which trial the workflow shall run, and where.
type Start struct {
	Experiment string
	Sequence   int
	Platform   string // its name, for people
	Queue      string // the task queue of the platform
	Searchable bool   // search attributes may be used
}

// Activities holds what the activities work with. Its exported methods are the
// activities; workflows name them through a nil *Activities.
type Activities struct {
	Record      *record.Store
	Sections    *poller.Sections // of the same record; whoever made them stops them
	Tuners      func(tuners.Spec) (tuners.Tuner, error)
	Assessors   func(assessors.Spec) (assessors.Assessor, error)
	Workflows   TrialWorkflows
	Environment func(experiment string) string // the caller's environment file, "" if none
	Queue       func(platform string) string   // the task queue of a platform's activities
	Named       func(platform string)          // an experiment that begins needs it; may be nil
	Logger      *slog.Logger
	Sweep       func() // has the sweeper look at once; may be nil
	// StateDirectory is this host's, below which trials of platform local live.
	StateDirectory string
	// Searchable tells whether the Temporal server knows our search attributes;
	// nil means that it does not.
	Searchable func(context.Context) bool

	// Variables are those of whoever ran an experiment, NAME=value, for algorithms
	// that are processes.
	Variables func(experiment string) []string

	// Keep has what an experiment needs of this host's disk kept where other hosts find
	// it, before its first trial; nil where there are none.
	Keep func(ctx context.Context, experiment string) error
	// Fetch has what somebody on another machine has handed over with an experiment on
	// this host's disk, before the experiment is accepted; nil where nobody can.
	Fetch func(ctx context.Context, experiment string) error

	algorithms sync.Map // place → *algorithm
	waits      sync.Map // experiment id → waits
}

// Timings of long activities. A heartbeat is 1 ms of engine time, so it is far
// apart; a dead host's activities are failed by id at the next start.
const (
	HeartbeatEvery   = 15 * time.Second
	HeartbeatTimeout = 60 * time.Second
)

// config decodes the canonical configuration an experiment was accepted with.
func (a *Activities) config(row record.Experiment) (experiment.Experiment, error) {
	var config experiment.Experiment
	if err := json.Unmarshal(row.Config, &config); err != nil {
		return config, fmt.Errorf("configuration of experiment %s: %w", row.ID, err)
	}
	if len(config.Platforms) == 0 {
		return config, fmt.Errorf("configuration of experiment %s names no platform", row.ID)
	}
	for _, code := range config.CodeDirectories() {
		if *code != "" && !filepath.IsAbs(*code) {
			*code = filepath.Join(a.StateDirectory, *code)
		}
	}
	return config, nil
}

// placement is the platform that a trial runs on. Where an experiment lists
// several, trials take turns by their number, so a trial never moves.
func placement(config experiment.Experiment, sequence int) experiment.Platform {
	return config.Platforms[sequence%len(config.Platforms)]
}

// section is the opened section of the platform that an attempt runs on.
func (a *Activities) section(ctx context.Context, key trial.Key) (*poller.Section, error) {
	return a.Sections.Of(ctx, key.Experiment, key.Sequence)
}
