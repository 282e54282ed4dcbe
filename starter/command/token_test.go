package command

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestATokenIsPrintedOnceListedAndRevokedByItsName(t *testing.T) {
	s := newStage(t)
	require.Equal(t, ExitDone, s.run("token", "list", "--output", "json"), s.err)
	require.Equal(t, "[]\n", s.out.String())
	require.Equal(t, ExitDone, s.run("token", "create", "--read-only", "--expires", "30d", "--name", "grafana"), s.err)
	token := strings.TrimSpace(s.out.String())
	require.NotContains(t, s.err.String(), token)
	require.Contains(t, s.err.String(), "may only read, until ")
	require.Equal(t, ExitDone, s.run("token", "create", "--output", "json"), s.err)
	var other tokenView
	require.NoError(t, json.Unmarshal([]byte(s.out.String()), &other))
	require.NotEmpty(t, other.Token)
	require.Nil(t, other.Expires)

	require.Equal(t, ExitDone, s.run("token", "list"), s.err)
	require.Contains(t, s.out.String(), "grafana")
	require.NotContains(t, s.out.String(), token)
	require.Equal(t, ExitBadInput, s.run("token", "create", "--name", "grafana"))
	require.Contains(t, s.err.String(), "is called grafana already")
	require.Equal(t, ExitBadInput, s.run("token", "revoke", token))
	require.NotContains(t, s.out.String()+s.err.String(), token)
	require.Equal(t, ExitDone, s.run("token", "revoke", "grafana", other.ID), s.err)
	require.Equal(t, ExitDone, s.run("token", "list", "--output", "json"), s.err)
	require.Equal(t, "[]\n", s.out.String())
}

func TestATokenWithoutUseIsNotMade(t *testing.T) {
	s := newStage(t)
	for _, flags := range [][]string{{"--expires", "0"}, {"--expires", "soon"}, {"--name", "two\nlines"}} {
		require.Equal(t, ExitBadInput, s.run(append([]string{"token", "create"}, flags...)...), flags)
		require.Empty(t, s.out.String())
	}
}
