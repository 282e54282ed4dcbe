package aml

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/trial"
)

func TestAJournalThatNobodyAsksForIsForgotten(t *testing.T) {
	all, key := journals{of: map[trial.Key]*journal{}}, trial.Key{Experiment: "e", Sequence: 1}
	known := all.from(key, 0)
	all.forgetOld(time.Now())
	require.Same(t, known, all.from(key, 0))
	all.forgetOld(time.Now().Add(2 * unasked))
	require.Empty(t, all.of)
}
