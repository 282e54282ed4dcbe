package embedded

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

func Test_a_port_taken_meanwhile_is_an_error_and_not_the_end_of_the_process(t *testing.T) {
	options, err := withDefaults(Options{Directory: t.TempDir(), Token: "t"})
	require.NoError(t, err)
	require.NoError(t, prepareDatabase(t.Context(), options.Directory))
	require.NoError(t, createNamespace(options))
	taken, err := net.Listen("tcp", net.JoinHostPort(loopback, "0"))
	require.NoError(t, err)
	defer taken.Close()
	p, err := freePorts()
	require.NoError(t, err)
	p[frontend] = taken.Addr().(*net.TCPAddr).Port

	_, err = launch(p, options)
	require.ErrorIs(t, err, errListen)
}
