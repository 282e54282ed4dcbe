package command

import (
	"errors"
	"fmt"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAPortForNNIsClientsIsOpenedOnceTheExperimentIsAcceptedAndRefusedBeforeIfItIsTaken(t *testing.T) {
	s := newStage(t)
	file := s.example()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	port := fmt.Sprint(taken.Addr().(*net.TCPAddr).Port)
	s.engine.running = false
	require.Equal(t, ExitBadInput, s.run("run", file, "--detach", "--port", port))
	require.Contains(t, s.err.String(), "port "+port)
	require.Empty(t, s.sent, "nothing was started")
	require.Equal(t, ExitBadInput, s.run("run", file, "--detach", "--nni-open"))
	for _, none := range []string{"70000", "-5"} {
		require.Equal(t, ExitBadInput, s.run("run", file, "--detach", "--port", none))
		require.Contains(t, s.err.String(), none+" is no port")
	}
	require.Empty(t, s.sent)
	require.NoError(t, taken.Close())
	s.engine.running = true // whoever has the port by now
	require.Equal(t, ExitDone, s.run("run", file, "--detach", "--port", port, "--nni-open"), s.err.String())
	require.Len(t, s.engine.nni, 1)
	require.True(t, s.engine.nni[0].Open)
	require.Contains(t, s.err.String(), "http://127.0.0.1:"+port)
	s.engine.refused = errors.New("somebody was faster")
	require.Equal(t, ExitDone, s.run("run", file, "--detach", "--port", port), "the experiment goes on")
	require.Contains(t, s.err.String(), "somebody was faster")
}
