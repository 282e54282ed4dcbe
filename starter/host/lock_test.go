package host

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func Test_a_directory_has_one_host(t *testing.T) {
	dir := opened(t)
	lock, err := Acquire(dir, "v1.0.0")
	require.NoError(t, err)
	_, err = Acquire(dir, "v1.0.0")
	var held *HeldError
	require.ErrorAs(t, err, &held)
	require.Equal(t, lock.Info().Nonce, held.Info.Nonce)
	require.NoError(t, lock.Release())

	next, err := Acquire(dir, "v1.0.0")
	require.NoError(t, err)
	require.NotEqual(t, lock.Info().Nonce, next.Info().Nonce)
	require.NoError(t, next.Release())
}

func Test_what_a_host_publishes_is_found_while_it_lives(t *testing.T) {
	dir := opened(t)
	_, alive, err := Find(dir)
	require.NoError(t, err)
	require.False(t, alive)

	lock, err := Acquire(dir, "v1.0.0")
	require.NoError(t, err)
	info, alive, err := Find(dir)
	require.NoError(t, err)
	require.True(t, alive)
	require.False(t, info.Ready())

	info.Address, info.WebUI = "127.0.0.1:7233", strings.Repeat("long", 100)
	require.NoError(t, lock.Publish(info))
	info.WebUI = "short"
	require.NoError(t, lock.Publish(info))
	found, alive, err := Find(dir)
	require.NoError(t, err)
	require.True(t, alive)
	require.Equal(t, lock.Info(), found)
	require.True(t, found.Ready())

	require.NoError(t, lock.Release())
	_, alive, err = Find(dir)
	require.NoError(t, err)
	require.False(t, alive)
}

func Test_a_process_that_the_host_started_does_not_keep_the_lock(t *testing.T) {
	dir := opened(t)
	lock, err := Acquire(dir, "v1.0.0")
	require.NoError(t, err)
	trial := exec.Command("sleep", "60")
	require.NoError(t, trial.Start())
	t.Cleanup(func() { _ = trial.Process.Kill(); _ = trial.Wait() })
	require.NoError(t, lock.file.Close())
	_, alive, err := Find(dir)
	require.NoError(t, err)
	require.False(t, alive)
}
