package activities

import (
	"context"
	"strings"

	"github.com/perennial-ml/perennial/metrics"
	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
)

// shownValue is how much of a value a reason cites.
const shownValue = 80

// withoutResult is why a trial that succeeded has no result that algorithms could
// use: it reported none, or something else than a number.
func (a *Activities) withoutResult(ctx context.Context, key trial.Key, final record.Metric) (trial.Reason, error) {
	if final.Value != "" {
		return noResult("its final result has no default number: " + final.Value), nil
	}
	all, err := a.Record.Metrics(ctx, key.Experiment, key.Sequence, key.Attempt)
	text := "it reported no final result"
	for _, metric := range all {
		value, final := strings.CutPrefix(metric.Value, trial.FinalPrefix)
		switch {
		case metric.Kind != string(metrics.Unreadable):
		case final:
			return noResult("it printed a final that is no number: " + value), err
		default:
			text = "it reported no final result, and something that is no metric: " + metric.Value
		}
	}
	return noResult(text), err
}

func noResult(text string) trial.Reason {
	const longest = shownValue + len("it reported no final result, and something that is no metric: ")
	if len(text) > longest && !strings.HasSuffix(text, ")") {
		text = strings.ToValidUTF8(text[:longest], "") + "…"
	}
	return trial.Reason{Code: "no-result", Text: text}
}
