package command

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/trial"
)

func TestTagSendsWhatChangesAndListsFindByIt(t *testing.T) {
	s := newStage(t).accepted(anID)
	require.Equal(t, ExitDone, s.run("tag", anID, "baseline", "dataset=a=b", "--remove", "old"), s.err)
	require.Equal(t, trial.SetTags, s.sent[0].Name)
	require.JSONEq(t, `{"baseline": "", "dataset": "a=b", "old": null}`, string(s.sent[0].Value))
	require.Equal(t, "experiment "+anID+" has the tags: baseline dataset=a=b\n", s.out.String())
	require.Equal(t, ExitDone, s.run("tag", anID, "--output", "json"), s.err)
	require.JSONEq(t, `{"baseline": "", "dataset": "a=b"}`, s.out.String())
	for tag, found := range map[string]bool{"baseline": true, "dataset": true, "dataset=a=b": true, "dataset=a": false, "other": false} {
		require.Equal(t, ExitDone, s.run("ls", "--tag", tag), s.err)
		require.Equal(t, found, strings.Contains(s.out.String(), anID), tag)
	}
	require.Equal(t, ExitDone, s.run("ls", "--tag", "baseline", "--tag", "other"), s.err)
	require.NotContains(t, s.out.String(), anID)
}

func TestWhatIsNoTagIsRefused(t *testing.T) {
	for _, args := range [][]string{{""}, {"=x"}, {" a"}, {"a\nb"}, {"a", "a=1"}, {"a", "--remove", "a"}} {
		s := newStage(t).accepted(anID)
		require.Equal(t, ExitBadInput, s.run(append([]string{"tag", anID}, args...)...), args)
		require.Empty(t, s.sent)
	}
}
