package command

import (
	"context"
	"fmt"

	"github.com/perennial-ml/perennial/trial"
)

// recovered is all that was learned about an experiment since its record came from a
// backup; nil where it did not.
func (r reader) recovered(ctx context.Context, id string) (*trial.Recovered, error) {
	all, err := r.Recovered(ctx, id)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	sum := &trial.Recovered{}
	for _, learned := range all {
		sum.TakenIn += learned.TakenIn
		sum.Freed += learned.Freed
		sum.Missing += learned.Missing
		sum.Ended = append(sum.Ended, learned.Ended...)
		sum.Unread = learned.Unread
		sum.Behind = sum.Behind || learned.Behind
	}
	return sum, nil
}

// recoveredRows say it to people.
func recoveredRows(learned *trial.Recovered) [][]string {
	if learned == nil {
		return nil
	}
	rows := [][]string{{"restored", fmt.Sprintf("the record came from a backup: %d trials that it did not know were taken in from their directories, "+
		"and %d had left nothing there; commands given after the backup are forgotten", learned.TakenIn, learned.Missing)}}
	for _, ended := range learned.Ended {
		rows = append(rows, []string{"", "ended, since nothing tells what it ran with: " + ended})
	}
	for _, unread := range learned.Unread {
		rows = append(rows, []string{"", "not taken in yet: " + unread})
	}
	return rows
}
