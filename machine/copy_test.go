package machine

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// looked is a context that does something when it is looked at for the nth time:
// copying does so at every entry.
type looked struct {
	context.Context
	left *int
	then func()
}

func (l looked) Err() error {
	if *l.left--; *l.left == 0 {
		l.then()
	}
	return l.Context.Err()
}

func TestCodeThatIsRemovedWhileItIsCopiedIsNoCode(t *testing.T) {
	for after := 1; after <= 5; after++ {
		from, to := filepath.Join(t.TempDir(), "code"), filepath.Join(t.TempDir(), "copy")
		require.NoError(t, os.MkdirAll(filepath.Join(from, "below", "further"), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(from, "first"), nil, 0o644))
		require.NoError(t, os.WriteFile(filepath.Join(from, "below", "second"), nil, 0o644))
		require.NoError(t, os.WriteFile(filepath.Join(from, "below", "further", "third"), nil, 0o644))
		removed := func() {
			require.NoError(t, os.Rename(from, from+".gone"))
			// A folder is emptied before it goes itself: so far it has got.
			require.NoError(t, os.RemoveAll(filepath.Join(from+".gone", "below", "further", "third")))
		}
		left := after
		err := copyWhole(looked{t.Context(), &left, removed}, from, to)
		require.Error(t, err)
		require.NoDirExists(t, to)
	}
}
