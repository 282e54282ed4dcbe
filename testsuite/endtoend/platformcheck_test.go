package endtoend

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAPlatformOfOnesOwnIsCheckedAndSaysWhatItBreaks has the page of Python break one
// rule, and print a secret where it does.
func TestAPlatformOfOnesOwnIsCheckedAndSaysWhatItBreaks(t *testing.T) {
	t.Parallel()
	h := NewHome(t)
	page := filepath.Join(Root(), "examples", "platforms", "own-ways", "own_ways.py")
	sound, code := h.examination(page)
	require.Zero(t, code, sound)
	require.NotContains(t, sound, "BROKEN")

	content, err := os.ReadFile(page)
	require.NoError(t, err)
	broken := filepath.Join(h.Work, "platform.py")
	text := strings.Replace(string(content), `    return {"text": read`, `    sys.exit(request["options"]["token"] + " is my token")`+"\n"+`    return {"text": read`, 1)
	writeProgram(t, broken, text)
	secret := "correct-horse-battery"
	found, code := h.With("QUEUE_TOKEN="+secret).examination(broken, "--options", h.Write("options.yml", "token: ${env:QUEUE_TOKEN}\n"), "--output", "json")
	require.Equal(t, 1, code, found)
	require.NotContains(t, found, secret)
	var rules []struct {
		Rule, Broken string
		Kept         bool
		Calls        []struct{ Verb, Sent, Failed string }
	}
	require.NoError(t, json.Unmarshal([]byte(found), &rules))
	for _, rule := range rules {
		require.Equal(t, !strings.HasPrefix(rule.Rule, "logs "), rule.Kept, rule.Rule)
		if !rule.Kept {
			require.Contains(t, rule.Broken, "is my token")
			require.Equal(t, "logs", rule.Calls[len(rule.Calls)-1].Verb)
		}
	}
	require.Equal(t, 2, h.Run("platform", "check", page, "--options", filepath.Join(h.Work, "missing.yml")).Code)
	for text, says := range map[string]string{"#!/bin/sh\nexit 1\n": "--options FILE", "#!/no/such/shell\n": "the interpreter that its first line names is not there"} {
		writeProgram(t, broken, text)
		told := h.Run("platform", "check", broken)
		require.Equal(t, 1, told.Code)
		require.Contains(t, told.Stdout+told.Stderr, says)
	}
	require.NoError(t, os.Chmod(broken, 0o644))
	told := h.Run("platform", "check", broken)
	require.Equal(t, 2, told.Code)
	require.Contains(t, told.Stderr, "chmod +x "+broken)
	told = h.Run("platform", "check", page, "--options", h.Write("whole.yml", "trainingService: {platform: executable}\n"))
	require.Equal(t, 2, told.Code)
	require.Contains(t, told.Stderr, "whole experiment's file")
}

// writeProgram writes one while nobody is started, who would hold it open.
func writeProgram(t *testing.T, path, text string) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	require.NoError(t, os.WriteFile(path, []byte(text), 0o755))
}

// examination is platform check, which waits for many trials and takes as long as they
// do.
func (h *Home) examination(args ...string) (printed string, code int) {
	command := h.Command(h.t.Context(), append([]string{"platform", "check"}, args...)...)
	out, err := command.Output()
	require.NotNil(h.t, command.ProcessState, err)
	return string(out), command.ProcessState.ExitCode()
}
