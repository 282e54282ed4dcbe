package kube

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/trial"
)

const (
	// longestPull is how long an image may fail to be pulled where the section says nothing.
	longestPull = 30 * time.Minute
	// causeUnpulled ends a run whose image was not pulled in time. It is between us and
	// the cluster: outside, such a run has failed.
	causeUnpulled trial.Cause = "image-pull-limit"
	// neverRan is the exit code of a run whose container was never made.
	neverRan = 125
)

func (s Section) pullLimit() time.Duration { return cmp.Or(s.PullLimit, longestPull) }

// giveUpPull ends a run whose image has not been pulled for too long. The end is
// durable before it is told: an image that comes after all is too late.
func (s *site) giveUpPull(ctx context.Context, key trial.Key, run sight) error {
	if run.intent != nil || !slices.ContainsFunc(s.podsThere(key), func(pod *podState) bool {
		return pod.unpulled && !pod.placed.IsZero() && time.Since(pod.placed) >= s.section.pullLimit()
	}) {
		return nil
	}
	return s.end(ctx, key, trial.Intent{Cause: causeUnpulled})
}

// tellUnpulled makes a failure of a run that giveUpPull has ended.
func (s *site) tellUnpulled(report *platforms.Report) {
	if report.Intent == nil || report.Intent.Cause != causeUnpulled {
		return
	}
	report.Intent = nil
	if report.Exit != nil {
		report.Exit = &trial.Exit{Code: neverRan, Text: fmt.Sprintf("its image could not be pulled for %s (imagePullLimit)", s.section.pullLimit())}
	}
}
