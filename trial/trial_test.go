package trial

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTrialIDsOfOneExperimentNeverRepeat(t *testing.T) {
	form := regexp.MustCompile(`^[a-z][a-z0-9]{4}$`)
	seen := make(map[string]int, 200_000)
	for n := range 200_000 {
		id := ID("k3v9x2ab", n)
		require.True(t, form.MatchString(id), id)
		first, repeated := seen[id]
		require.False(t, repeated, "trials %d and %d are both %s", first, n, id)
		seen[id] = n
	}
}

func TestTrialIDsAreTheSameForEver(t *testing.T) {
	require.Equal(t, []string{"xlqz5", "byg07", "sqr6r"}, []string{ID("k3v9x2ab", 0), ID("k3v9x2ab", 1), ID("k3v9x2ab", idSpace-1)})
	require.NotEqual(t, ID("k3v9x2ab", 0), ID("k3v9x2ac", 0), "the experiment is the key")
}

func TestExperimentIDsAreEightLowerCaseLettersAndDigits(t *testing.T) {
	require.Regexp(t, `^[a-z0-9]{8}$`, NewExperimentID())
	require.NotEqual(t, NewExperimentID(), NewExperimentID())
}

func TestOnlyEndedTrialsAreTerminal(t *testing.T) {
	terminal := []State{}
	for _, state := range States() {
		if state.Terminal() {
			terminal = append(terminal, state)
		}
	}
	require.Equal(t, []State{Succeeded, Failed, UserCanceled, SysCanceled, EarlyStopped}, terminal)
}

func TestTheEnvironmentIsWhatNNIsSDKReads(t *testing.T) {
	key := Key{Experiment: "k3v9x2ab", Sequence: 7, Attempt: 2}
	got := Environment(key, "local", Directories{System: "/run", Output: "/out", Code: "/code"})
	require.Equal(t, map[string]string{
		"NNI_PLATFORM": "local", "NNI_EXP_ID": "k3v9x2ab", "NNI_TRIAL_JOB_ID": key.TrialID(), "NNI_TRIAL_SEQ_ID": "7",
		"NNI_SYS_DIR": "/run", "NNI_OUTPUT_DIR": "/out", "NNI_CODE_DIR": "/code", "MULTI_PHASE": "false", "REUSE_MODE": "false",
		"PERENNIAL_EXPERIMENT": "k3v9x2ab", "PERENNIAL_TRIAL": key.TrialID(), "PERENNIAL_SEQUENCE": "7",
		"PERENNIAL_ATTEMPT": "2", "PERENNIAL_PARAMETERS": "/run/parameters.json", "PERENNIAL_OUTPUT_DIR": "/out",
		"PERENNIAL_RUN": "k3v9x2ab-" + key.TrialID() + "-2",
	}, got)
}
