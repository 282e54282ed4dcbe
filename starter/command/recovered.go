package command

import (
	"fmt"

	"github.com/perennial-ml/perennial/trial"
)

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
