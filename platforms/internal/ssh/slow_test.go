package ssh

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/testsuite/sshlab"
)

func TestAConnectionThatIsBusySendingOverASlowLineIsNotTakenForCut(t *testing.T) {
	connection := dial(t, target(sshlab.One(t, sshlab.Spec{Rate: 150})))
	const size = 3 << 20 // of which a window's 2 MiB and more are on the way at a time
	output, err := connection.Run(t.Context(), "exec wc -c", bytes.NewReader(make([]byte, size)))
	require.NoError(t, err)
	require.Equal(t, "3145728\n", string(output))
}
