package ssh

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/testsuite/sshlab"
)

func TestAMachineThatAnswersIsReachedThoughItWaitsBehindSilentOnes(t *testing.T) {
	lab := sshlab.One(t, sshlab.Spec{})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	silent := Target{Host: "127.0.0.1", Port: listener.Addr().(*net.TCPAddr).Port, KeyFile: lab.KeyFile(sshlab.Key), ConfigFile: "/dev/null"}
	d := dialer{make(chan struct{}, 1), 3 * time.Second}
	refused := make(chan error, 1)
	go func() {
		_, err := d.dial(t.Context(), silent)
		refused <- err
	}()
	connection, err := listener.Accept()
	require.NoError(t, err)
	defer connection.Close()
	reached, err := d.dial(t.Context(), target(lab))
	require.NoError(t, err)
	defer reached.Close()
	require.ErrorContains(t, <-refused, "does not answer")
}
