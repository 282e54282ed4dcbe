package rundir

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/trial"
)

// place is an entry as packages that use registers have them.
type place struct {
	Format int    `json:"format"`
	Name   string `json:"name"`
}

func (p place) Sound() bool { return p.Name != "" }

func newRegister(t *testing.T) Register[place] {
	return Register[place]{Directory: t.TempDir(), Suffix: ".place", Format: 1}
}

func attemptOf(sequence int) trial.Key {
	return trial.Key{Experiment: "abcdefgh", Sequence: sequence, Attempt: 1}
}

func TestTheFirstToEnterAnAttemptWins(t *testing.T) {
	r := newRegister(t)
	_, err := r.Find(attemptOf(1))
	require.ErrorIs(t, err, os.ErrNotExist)
	for _, name := range []string{"first", "second"} {
		known, err := r.Add(attemptOf(1), place{1, name})
		require.NoError(t, err)
		require.Equal(t, "first", known.Name)
	}
}

func TestAnExperimentsEntriesAreListedAndOtherFilesLeftAlone(t *testing.T) {
	r := newRegister(t)
	all, err := r.List("abcdefgh")
	require.NoError(t, err)
	require.Empty(t, all)
	for sequence := range 3 {
		_, err := r.Add(attemptOf(sequence), place{1, "here"})
		require.NoError(t, err)
	}
	require.NoError(t, os.WriteFile(filepath.Join(r.Folder("abcdefgh"), "other.claim"), nil, 0o600))
	all, err = r.List("abcdefgh")
	require.NoError(t, err)
	require.Equal(t, []place{{1, "here"}, {1, "here"}, {1, "here"}}, all)
}

func TestOfAttemptsThatAreNamedNoOtherFileIsRead(t *testing.T) {
	r := newRegister(t)
	_, err := r.Add(attemptOf(1), place{1, "here"})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(r.Folder("abcdefgh"), attemptOf(2).String()+".place"), nil, 0o600))
	some, err := r.List("abcdefgh", attemptOf(1), attemptOf(3))
	require.NoError(t, err, "the other one is damaged")
	require.Equal(t, []place{{1, "here"}}, some)
}

func TestAnEntryThatCannotBeReadSaysWhatToDo(t *testing.T) {
	for content, words := range map[string]string{
		"":                            "is damaged: remove it if the attempt has ended",
		`{"format":1}`:                "is damaged: remove it if the attempt has ended",
		`{"format":2,"elsewhere":""}`: "has format 2: use the newer starter that wrote it",
	} {
		r := newRegister(t)
		require.NoError(t, os.Mkdir(r.Folder("abcdefgh"), 0o700))
		path := filepath.Join(r.Folder("abcdefgh"), attemptOf(1).String()+".place")
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		_, err := r.Find(attemptOf(1))
		require.ErrorContains(t, err, path+" "+words)
		_, err = r.List("abcdefgh")
		require.ErrorContains(t, err, words)
	}
}

func TestOfAttemptsThatWereSupersededNoOtherFileIsRead(t *testing.T) {
	r := newRegister(t)
	none, err := r.Superseded("abcdefgh")
	require.NoError(t, err)
	require.Empty(t, none)
	for sequence, attempts := range []int{1, 12, 2} {
		for attempt := 1; attempt <= attempts; attempt++ {
			key := trial.Key{Experiment: "abcdefgh", Sequence: sequence, Attempt: attempt}
			_, err := r.Add(key, place{1, key.String()})
			require.NoError(t, err)
		}
	}
	newest := filepath.Join(r.Folder("abcdefgh"), trial.Key{Experiment: "abcdefgh", Sequence: 1, Attempt: 12}.String()+".place")
	require.NoError(t, os.WriteFile(newest, nil, 0o600)) // would be an error
	all, err := r.Superseded("abcdefgh")
	require.NoError(t, err)
	require.Len(t, all, 11+1)
	for _, entry := range all {
		require.NotEqual(t, "-12", entry.Name[len(entry.Name)-3:])
	}
}

func TestAnEntryIsReplacedWhereSomebodyKnowsThatNobodyActsByIt(t *testing.T) {
	r := newRegister(t)
	_, err := r.Add(attemptOf(1), place{1, "first"})
	require.NoError(t, err)
	require.NoError(t, r.Replace(attemptOf(1), place{1, "second"}))
	known, err := r.Find(attemptOf(1))
	require.NoError(t, err)
	require.Equal(t, "second", known.Name)
}
