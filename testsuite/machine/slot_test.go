package machine

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLaboratoriesWithTemporaryDirectoriesOfTheirOwnHaveNumbersOfTheirOwn(t *testing.T) {
	one, err := TakeSlot("slot-test")
	require.NoError(t, err)
	defer one.Release()
	t.Setenv("TMPDIR", t.TempDir())
	other, err := TakeSlot("slot-test")
	require.NoError(t, err)
	defer other.Release()
	require.NotEqual(t, one.Number, other.Number)
}
