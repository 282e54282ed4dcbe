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
	"github.com/perennial-ml/perennial/trial"
)

func TestWhatReferencesStandForIsStruckOutOfEverythingAnExecutableSays(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "platform")
	writeScript(t, path, `case $1 in
describe) cat >/dev/null; echo '{"protocol": 1}' ;;
poll) cat >/dev/null; echo '{"reports": [{"phase": "unknown", "reason": "token open sesame is refused"}]}' ;;
submit) cat >&2; exit 75 ;;
*) cat ;;
esac`)
	section := func(token string) json.RawMessage {
		text, err := json.Marshal(map[string]any{"executable": path, "options": map[string]any{"keys": []string{"plain", token}}})
		require.NoError(t, err)
		return text
	}
	platform := New(Options{StateDirectory: t.TempDir(), Environment: os.Environ()}).Open(platforms.Section{
		Platform: Name, Experiment: "abcdefgh", Written: section("${env:TOKEN}"),
		Resolve: func(context.Context) (json.RawMessage, error) { return section("open sesame"), nil },
	})
	s := &scripted{t: t, Platform: platform}
	s.key.Experiment, s.key.Sequence, s.key.Attempt = "abcdefgh", 1, 1
	err := s.submit()
	require.ErrorContains(t, err, "plain")
	require.NotContains(t, err.Error(), "open sesame")
	// A program that is just being started beside a submit holds its claim a moment longer.
	require.Eventually(t, func() bool { return s.poll("").Reason.Code != "starting" }, time.Minute, 10*time.Millisecond)
	require.Equal(t, "token ••• is refused", s.poll("").Reason.Text)
	err = platform.Cancel(t.Context(), platforms.Handle{Key: s.key}, trial.Intent{Cause: trial.CauseUser})
	if err != nil {
		require.NotContains(t, err.Error(), "open sesame")
	}
}
