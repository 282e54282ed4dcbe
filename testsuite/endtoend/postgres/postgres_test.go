// Package postgres tells stories of experiments whose record is in PostgreSQL, with
// the real program and Debian's real server.
package postgres

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/testsuite/endtoend"
	"github.com/perennial-ml/perennial/testsuite/postgreslab"
)

// plan is an experiment whose trials outlast a restart of everything but themselves.
var plan = endtoend.Plan{Trials: 6, Concurrency: 3, Steps: "16", Pause: "0.5"}

// recorded is a home whose record is in a database of its own.
func recorded(t *testing.T, server *postgreslab.Server, database string) *endtoend.Home {
	t.Helper()
	require.NoError(t, server.Create(database))
	return endtoend.NewHome(t).With("PERENNIAL_RECORD=" + server.URL(database))
}

func TestAnExperimentLosesNothingWhileItsRecordCrashesAndItsHostIsKilled(t *testing.T) {
	t.Parallel()
	server := postgreslab.New(t)
	h := recorded(t, server, "perennial")
	run := h.Follow(h.Experiment(plan))
	h.Await("trials that run", func() bool { return len(h.Ledger()) >= plan.Concurrency })

	require.NoError(t, server.Crash())
	refused := h.Run("ls")
	require.Equal(t, 4, refused.Code, refused.Stderr)
	require.Contains(t, refused.Stderr, "the record cannot be reached")
	h.Await("the host to say why nothing goes on", func() bool { return strings.Contains(h.LogTail(), "the record cannot be reached") })
	require.Contains(t, h.Run("doctor").Stdout, "the record cannot be reached")
	h.Await("the follower to say it", func() bool { return said(run, "record-unreachable") })
	require.NoError(t, server.Restart())
	h.Await("the follower to find it again", func() bool { return said(run, "record-back") })
	h.Await("an end on record", func() bool { return h.Show(run.ID()).Trials["SUCCEEDED"] > 0 })

	h.KillAndAwait(endtoend.Host)
	require.NoError(t, server.Crash())
	require.NoError(t, server.Restart())
	require.Equal(t, "DONE", run.Finished(endtoend.Patience).Status)
	h.RequireExactlyOnce(run.ID(), plan.Trials, nil)
	require.NoFileExists(t, filepath.Join(h.Dir, "record.sqlite"))
	requireUntold(t, h)
}

func said(run *endtoend.Following, code string) bool {
	return slices.ContainsFunc(run.Events(), func(event endtoend.Event) bool { return event.Code == code })
}

// requireUntold looks for the password in all that is left of a home, and in what its
// processes were started with.
func requireUntold(t *testing.T, h *endtoend.Home) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(h.Dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		require.NotContains(t, string(content), postgreslab.Password, path)
		return err
	}))
	for _, process := range h.Processes() {
		require.NotContains(t, strings.Join(process.Args, " "), postgreslab.Password)
	}
}

func TestAHomeKnowsWhereItsRecordIsAndTakesNoOther(t *testing.T) {
	t.Parallel()
	server := postgreslab.New(t)
	h := recorded(t, server, "one")
	h.Serve()
	h.Must("ls")
	require.NoError(t, server.Create("two"))
	for variable, complaint := range map[string]string{
		server.URL("two"): "two is meant",
		"":                "its password is not here",
		"mysql://host/db": "names no database",
		"${file:record}":  "give the whole path",
		"${env:NOWHERE}":  "that variable is not set",
	} {
		refused := h.With("PERENNIAL_RECORD=" + variable).Run("ls")
		require.Equal(t, 2, refused.Code, "%q: %s", variable, refused.Stderr)
		require.Contains(t, refused.Stderr, complaint, variable)
		require.NotContains(t, refused.Stderr, postgreslab.Password)
	}

	address := h.Write("address", server.URL("two")+"\n")
	other := endtoend.NewHome(t)
	other.With("PERENNIAL_RECORD=${file:" + address + "}").Serve()
	other.Must("serve", "--stop")
	other.Must("serve", "--detach") // it has kept where the address is, which needs no saying again
	require.NoFileExists(t, filepath.Join(other.Dir, "record.sqlite"))
	requireUntold(t, other)

	refused := endtoend.NewHome(t).With("PERENNIAL_RECORD="+server.URL("two")).Run("serve", "--detach")
	require.Contains(t, refused.Stderr, "works on this record")

	other.Must("serve", "--stop")
	server.Ask(t, "two", `INSERT INTO experiments (id, share, name, status, minimize, concurrency, max_trials, max_duration, created)
		VALUES ('another2', '2', '', 'RUNNING', 0, 1, 1, 0, 0)`)
	refused = other.Run("serve", "--detach")
	require.Contains(t, refused.Stderr, "experiments of several workers are under way")
}

func TestARecordThatIsMovedWhileTrialsRunGoesOnWhereItIs(t *testing.T) {
	t.Parallel()
	server := postgreslab.New(t)
	require.NoError(t, server.Create("moved"))
	h := endtoend.NewHome(t)
	there := "${file:" + h.Write("address", server.URL("moved")) + "}"
	run := h.Follow(h.Experiment(plan))
	h.Await("trials that run", func() bool { return len(h.Ledger()) >= plan.Concurrency })
	refused := h.Run("record", "move", "file", there)
	require.Equal(t, 2, refused.Code)
	require.Contains(t, refused.Stderr, "already serves")
	require.Contains(t, h.Run("record", "move", "file", server.URL("moved")).Stderr, "can read a password on a command line")

	run.Signal(syscall.SIGINT)
	run.Wait(endtoend.Patience)
	h.Must("serve", "--stop")
	h.Must("record", "move", "file", there)
	for _, part := range []string{"", "-wal", "-shm"} {
		require.NoFileExists(t, filepath.Join(h.Dir, "record.sqlite"+part))
	}
	h.Must("serve", "--detach")
	h.Await("an end on record", func() bool { return h.Show(run.ID()).Trials["SUCCEEDED"] > 0 })

	h.Must("serve", "--stop")
	h.Must("record", "move", there, "file")
	require.FileExists(t, filepath.Join(h.Dir, "record.sqlite"))
	h.Must("serve", "--detach")
	h.Await("the end", func() bool { return h.Show(run.ID()).Status == "DONE" })
	h.RequireExactlyOnce(run.ID(), plan.Trials, nil)
}
