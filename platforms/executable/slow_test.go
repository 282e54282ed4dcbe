package executable

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/platforms"
)

// openScript opens a platform that is a shell script, with a timeout in seconds.
func openScript(t *testing.T, timeout float64, text string) (opened *platform, path string) {
	path = filepath.Join(t.TempDir(), "platform")
	writeScript(t, path, text)
	section := platforms.Section{Platform: Name, Experiment: "abcdefgh", Resolve: func(context.Context) (json.RawMessage, error) {
		return json.Marshal(map[string]any{"executable": path, "timeout": timeout})
	}}
	return New(Options{StateDirectory: t.TempDir(), Environment: os.Environ()}).Open(section).(*platform), path
}

func TestWhoNeedNotWaitForASlowDescriptionDoesNotAndItIsAskedForOnce(t *testing.T) {
	t.Parallel()
	opened, path := openScript(t, 120, `echo x >>"$0.asked"; until [ -e "$0.go" ]; do sleep 0.05; done; echo '{"protocol": 1}'`)
	patient := make(chan error, 2)
	for range 2 {
		go func() {
			_, err := opened.open(t.Context(), "poll")
			patient <- err
		}()
	}
	require.Eventually(t, func() bool { _, err := os.Stat(path + ".asked"); return err == nil }, time.Minute, 10*time.Millisecond)
	hurried := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := opened.open(ctx, "poll")
		hurried <- err
	}()
	select {
	case err := <-hurried:
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, platforms.Transient, platforms.CodeOf(err))
	case <-time.After(time.Minute):
		require.Fail(t, "it waits for a call of others")
	}
	require.NoError(t, os.WriteFile(path+".go", nil, 0o600))
	require.NoError(t, <-patient)
	require.NoError(t, <-patient)
	_, err := opened.open(t.Context(), "poll")
	require.NoError(t, err)
	asked, err := os.ReadFile(path + ".asked")
	require.NoError(t, err)
	require.Equal(t, "x\n", string(asked))
}
