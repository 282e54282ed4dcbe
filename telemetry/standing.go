package telemetry

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/perennial-ml/perennial/record"
)

// readLimit bounds what a scrape may cost where the record does not answer.
const readLimit = 5 * time.Second

var (
	trials = prometheus.NewDesc("perennial_trials",
		"Trials of an unfinished experiment, by state.", []string{"experiment", "name", "state"}, nil)
	slots = prometheus.NewDesc("perennial_slots",
		"How many trials of an unfinished experiment may be under way at once.", []string{"experiment", "name"}, nil)
	best = prometheus.NewDesc("perennial_best",
		"The best result of an unfinished experiment so far.", []string{"experiment", "name"}, nil)
	waiting = prometheus.NewDesc("perennial_experiment_waiting",
		"1 while an unfinished experiment starts no trials for the reason of this code.", []string{"experiment", "name", "code"}, nil)
	attempts = prometheus.NewDesc("perennial_attempts_open",
		"Attempts that have not ended, by the platform they run on.", []string{"platform"}, nil)
)

// standing collects how unfinished experiments stand. Ended ones are left to the record:
// series of theirs would grow without bound.
type standing struct{ store *record.Store }

// Describe implements prometheus.Collector.
func (s standing) Describe(to chan<- *prometheus.Desc) {
	for _, one := range []*prometheus.Desc{trials, slots, best, waiting, attempts} {
		to <- one
	}
}

// Collect implements prometheus.Collector.
func (s standing) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), readLimit)
	defer cancel()
	if err := s.collect(ctx, to); err != nil {
		to <- prometheus.NewInvalidMetric(trials, err)
	}
}

func (s standing) collect(ctx context.Context, to chan<- prometheus.Metric) error {
	active, err := s.store.Active(ctx)
	if err != nil {
		return err
	}
	for _, id := range active {
		experiment, err := s.store.Experiment(ctx, id)
		if err != nil {
			return err
		}
		tell(experiment, to)
	}
	open, err := s.store.OpenByPlatform(ctx)
	for platform, count := range open {
		to <- gauge(attempts, float64(count), platform)
	}
	return err
}

func tell(e record.Experiment, to chan<- prometheus.Metric) {
	for state, count := range e.Counts {
		to <- gauge(trials, float64(count), e.ID, e.Name, string(state))
	}
	to <- gauge(slots, float64(e.Concurrency), e.ID, e.Name)
	if e.Best != nil {
		to <- gauge(best, e.Best.Value, e.ID, e.Name)
	}
	if code := waitsFor(e); code != "" {
		to <- gauge(waiting, 1, e.ID, e.Name, code)
	}
}

// waitsFor is the code of the reason that an experiment starts nothing, empty where it may.
func waitsFor(e record.Experiment) string {
	if e.Paused && e.Reason.Code == "" {
		return "paused"
	}
	return e.Reason.Code
}

func gauge(of *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(of, prometheus.GaugeValue, value, labels...)
}
