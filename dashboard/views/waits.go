package views

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
)

// Reasons for a wait that no platform gave: there is always one.
var (
	paused     = trial.Reason{Code: "paused", Text: "its experiment is paused"}
	stopped    = trial.Reason{Code: "stopped", Text: "its experiment is stopped; resume runs it"}
	submitting = trial.Reason{Code: "submitting", Text: "it is being submitted"}
)

// waitsForCode is the reason's code of a trial whose code is not ready; codeNotReady
// begins that of the experiment, which knows why.
const (
	waitsForCode = "preparing"
	codeNotReady = "prepare-"
)

// ExplainWaits gives trials that wait a reason where the record has none, or has
// one that says less than is known. open are the numbers, in order, of all trials of
// the experiment that are not over; idle is why nobody works on it, if nobody does.
func ExplainWaits(rows []record.Trial, e record.Experiment, idle trial.Reason, open []int) {
	for i, row := range rows {
		if row.State == trial.Waiting {
			before, _ := slices.BinarySearch(open, row.Sequence)
			rows[i].Reason = explainWait(row.Reason, e, waitReason(e, idle, before+1))
		}
	}
}

// explainWait is the reason on record, with why the code it waits for is not ready;
// otherwise where there is none.
func explainWait(onRecord trial.Reason, e record.Experiment, otherwise trial.Reason) trial.Reason {
	if onRecord.Zero() {
		return otherwise
	}
	if onRecord.Code == waitsForCode && strings.HasPrefix(e.Reason.Code, codeNotReady) {
		onRecord.Text += ": " + e.Reason.Text
	}
	return onRecord
}

// waitReason is why the trial that is the nth of those not over waits at present.
func waitReason(e record.Experiment, idle trial.Reason, nth int) trial.Reason {
	switch {
	case e.Status == record.Stopped:
		return stopped
	case !idle.Zero():
		return idle
	case e.Paused:
		return paused
	case nth > e.Concurrency:
		return trial.Reason{Code: "concurrency", Text: fmt.Sprintf("it waits for a slot: %d at a time", e.Concurrency)}
	}
	return submitting
}

// PlatformsOf names the platforms of an experiment.
func PlatformsOf(e record.Experiment) []string {
	var config struct {
		Platforms []struct {
			Name string `json:"platform"`
		} `json:"trainingService"`
	}
	if json.Unmarshal(e.Config, &config) != nil {
		return nil
	}
	var names []string
	for _, platform := range config.Platforms {
		names = append(names, platform.Name)
	}
	return names
}
