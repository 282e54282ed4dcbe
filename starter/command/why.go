package command

import (
	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
)

// Reasons for a wait that no platform gave: there is always one.
var (
	noHost     = trial.Reason{Code: "no-host", Text: "no host process is running; starter serve --detach starts one"}
	paused     = trial.Reason{Code: "paused", Text: "its experiment is paused"}
	submitting = trial.Reason{Code: "submitting", Text: "it is being submitted"}
)

// explainWait gives a trial that waits a reason where the record has none.
func explainWait(row record.Trial, otherwise trial.Reason) record.Trial {
	if row.State == trial.Waiting && row.Reason.Zero() {
		row.Reason = otherwise
	}
	return row
}

// waitReason is why a trial of the experiment would wait at present.
func waitReason(e record.Experiment, hostErr error) trial.Reason {
	switch {
	case hostErr != nil:
		return noHost
	case e.Paused:
		return paused
	}
	return submitting
}
