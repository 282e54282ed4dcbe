package executable

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/platforms"
)

// script makes an executable out of shell.
func script(t *testing.T, text string) *program {
	path := filepath.Join(t.TempDir(), "platform")
	writeScript(t, path, text)
	return newProgram(path, []string{"PATH=" + os.Getenv("PATH"), "GREETING=hello"}, 20*time.Second, 2)
}

// writeScript makes a program of shell. What is forked while the file is open for
// writing would keep it so, and nobody can execute it then.
func writeScript(t *testing.T, path, text string) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o700))
}

func TestACallIsJSONOnStandardInputAndOutputAndTheVerbAnArgument(t *testing.T) {
	t.Parallel()
	p := script(t, `read -r line; printf '{"verb":"%s","got":%s,"greeting":"%s","home":"%s"}' "$1" "$line" "$GREETING" "$HOME"`)
	var answer struct {
		Verb, Greeting, Home string
		Got                  map[string]int
	}
	require.NoError(t, p.call(t.Context(), "submit", map[string]int{"x": 7}, &answer))
	require.Equal(t, "submit", answer.Verb)
	require.Equal(t, map[string]int{"x": 7}, answer.Got)
	require.Equal(t, "hello", answer.Greeting)
	require.Empty(t, answer.Home, "it has the environment it was given and no other")
}

func TestAnExitCodeSaysWhoseFailureItIsAndStandardErrorWhy(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]platforms.Code{
		"65": platforms.Invalid, "66": platforms.NotFound, "69": platforms.Exhausted, "75": platforms.Transient,
		"77": platforms.Denied, "1": platforms.Transient, "139": platforms.Transient,
	} {
		err := script(t, `echo '{"retryAfter": 90}'; echo "the queue is
closed" >&2; exit `+code).call(t.Context(), "poll", nothing{}, &nothing{})
		require.Equal(t, want, platforms.CodeOf(err), code)
		require.ErrorContains(t, err, "the queue is closed", code)
		var told *platforms.Error
		require.ErrorAs(t, err, &told)
		require.Equal(t, 90*time.Second, told.After)
	}
}

func TestNobodyIsKeptWaitingForEverByATimeThatAnExecutableNames(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{"1e300": time.Hour, "-90": 0, "1.5": 1500 * time.Millisecond} {
		err := script(t, `echo '{"retryAfter": `+text+`}'; exit 69`).call(t.Context(), "submit", nothing{}, &nothing{})
		require.Equal(t, want, platforms.AfterOf(err), text)
		interval := (&described{description: description{PollInterval: 1e300}}).interval()
		require.Equal(t, time.Hour, interval)
	}
}

func TestACallThatTakesTooLongEndsWithEverythingItStarted(t *testing.T) {
	t.Parallel()
	p := script(t, `sleep 600 & echo $! > "$0.pid"; wait`)
	p.patience = 500 * time.Millisecond
	err := p.call(t.Context(), "poll", nothing{}, &nothing{})
	require.Equal(t, platforms.Transient, platforms.CodeOf(err))
	require.ErrorContains(t, err, "did not answer within 500ms")
	pid, err := os.ReadFile(p.path + ".pid")
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		state, err := os.ReadFile("/proc/" + strings.TrimSpace(string(pid)) + "/stat")
		return err != nil || strings.Contains(string(state), ") Z")
	}, 20*time.Second, 10*time.Millisecond, "what it started lives on")
}

func TestAnAnswerThatIsNoneIsShown(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`echo "Traceback: no module"`: "Traceback: no module",
		`:`:                           "printed no answer",
		`echo '{"reports": 7}'`:       "cannot unmarshal",
	} {
		err := script(t, text).call(t.Context(), "poll", nothing{}, &pollAnswer{})
		require.Equal(t, platforms.Transient, platforms.CodeOf(err))
		require.ErrorContains(t, err, want)
	}
}

func TestACallThatLeavesAProcessBehindWithItsStreamsOpenHasSucceeded(t *testing.T) {
	t.Parallel()
	p := script(t, `sleep 600 & echo $! > "$0.pid"; echo '{"data": 7}'`)
	t.Cleanup(func() { _ = exec.Command("sh", "-c", "kill $(cat "+p.path+".pid)").Run() })
	var answer submitAnswer
	require.NoError(t, p.call(t.Context(), "submit", nothing{}, &answer))
	require.Equal(t, "7", string(answer.Data))
}

func TestAnExecutableThatIsNotThereIsWaitedFor(t *testing.T) {
	t.Parallel()
	err := newProgram("/nowhere/platform", nil, time.Second, 1).call(t.Context(), "poll", nothing{}, &nothing{})
	require.Equal(t, platforms.Transient, platforms.CodeOf(err))
	require.ErrorContains(t, err, "/nowhere/platform")
}

func TestFloodsOnBothStreamsNeitherBlockNorFillTheMemory(t *testing.T) {
	t.Parallel()
	err := script(t, `head -c 3000000 /dev/zero | tr '\0' x >&2; echo the end >&2; exit 75`).call(t.Context(), "poll", nothing{}, &nothing{})
	require.ErrorContains(t, err, "the end")
	require.Less(t, len(err.Error()), 4*wordsLimit)
}

func TestNoMoreCallsAreUnderWayThanWasDeclared(t *testing.T) {
	t.Parallel()
	p := script(t, `mkdir "$0.$$"; set -- "$0".*; echo $# >> "$0-count"; sleep 0.2; rmdir "$1"; echo '{}'`)
	p.slots = make(chan struct{}, 1)
	done := make(chan error)
	for range 3 {
		go func() { done <- p.call(context.WithoutCancel(t.Context()), "poll", nothing{}, &nothing{}) }()
	}
	for range 3 {
		require.NoError(t, <-done)
	}
	content, err := os.ReadFile(p.path + "-count")
	require.NoError(t, err)
	require.Equal(t, "1\n1\n1\n", string(content))
}
