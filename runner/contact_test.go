package runner_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/trial"
)

func TestARunNobodyAsksAboutAnyMoreEndsItself(t *testing.T) {
	a := newAttempt(t, "sleep 3600")
	a.spec.LostAfter = 400 * time.Millisecond
	require.NoError(t, a.ExpectContact())
	exit := a.begin().end()
	require.Equal(t, &trial.Intent{Cause: trial.CauseHostLost}, exit.Intent)
	require.NotZero(t, exit.Exit.Code)
}

func TestARunThatSomebodyAsksAboutGoesOn(t *testing.T) {
	a := newAttempt(t, "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do sleep 0.1; done; echo done >done")
	a.spec.LostAfter = time.Second
	require.NoError(t, a.ExpectContact())
	a.begin()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-a.exited:
			exit, err := a.ReadExit()
			require.NoError(t, err)
			require.NotNil(t, exit)
			require.Nil(t, exit.Intent)
			require.Equal(t, "done", a.waitFor("done"))
			return
		case <-ticker.C:
			a.Contact()
		}
	}
}

func TestARunWithoutAFileToTouchExpectsNobody(t *testing.T) {
	a := newAttempt(t, "sleep 1")
	a.spec.LostAfter = 300 * time.Millisecond
	require.Nil(t, a.begin().end().Intent)
}

func TestNoStartUpFileOfBashComesBeforeTheDirectoryInFrontOfThePath(t *testing.T) {
	home := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(home, ".bashrc"), []byte("PATH=/from/bashrc:$PATH\n"), 0o600))
	a := newAttempt(t, `echo "$PATH" >path`)
	a.spec.PathPrefix = "/opt/venv/bin"
	a.begin("PATH=/usr/bin:/bin", "HOME="+home, "SHLVL=0", "SSH_CLIENT=10.0.0.1 4000 22", "SSH2_CLIENT=x").end()
	require.Equal(t, "/opt/venv/bin:/usr/bin:/bin", a.waitFor("path"))
}

func TestADirectoryIsPutInFrontOfThePath(t *testing.T) {
	a := newAttempt(t, `echo "$PATH" >path`)
	a.spec.PathPrefix = "/opt/venv/bin"
	a.begin("PATH=/usr/bin:/bin").end()
	require.Equal(t, "/opt/venv/bin:/usr/bin:/bin", a.waitFor("path"))
}
