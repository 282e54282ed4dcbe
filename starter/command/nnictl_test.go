package command

import (
	"strings"
	"testing"

	"github.com/perennial-ml/perennial/trial"
	"github.com/stretchr/testify/require"
)

func TestNnictlsSpellingsAreUnderstoodAndToldInOurs(t *testing.T) {
	s := newStage(t)
	for theirs, ours := range map[string]string{
		"create --config e.yml --port 8080": "run --detach --port 8080 e.yml", "create -c=e.yml": "run --detach -c=e.yml", "create --config=e.yml --debug": "run --detach e.yml",
		"experiment export k3v --type csv --filename out.csv --intermediate": "export k3v --format csv --file out.csv --intermediate",
		"trial kill k3v --trial_id abcde":                                    "kill k3v abcde", "trial kill -T abcde k3v": "kill k3v abcde", "log trial k3v --trial_id abcde": "logs --trial-log k3v abcde", "create --config e.yml --foreground": "run --foreground e.yml",
		"experiment list --all": "ls", "trial ls k3v": "trials k3v", "webui url k3v": "show k3v", "stop k3v": "stop k3v", "trials": "trials", "": "",
	} {
		require.Equal(t, ours, strings.Join(s.World.understood(strings.Fields(theirs)), " "), theirs)
	}
	s.told(anID)
	require.Equal(t, ExitDone, s.run("trial", "kill", anID, "--trial_id", trial.ID(anID, 2)), s.err.String())
	require.Len(t, s.ended, 1)
	require.Equal(t, "nnictl trial kill k3v9x2ab --trial_id s8pst is: starter kill k3v9x2ab s8pst\n", s.err.String())
}
