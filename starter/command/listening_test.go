package command

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestServeListensBeyondLoopbackOnlyWithACertificateAndAToken(t *testing.T) {
	s := newStage(t)
	pem := filepath.Join(t.TempDir(), "broken.pem")
	require.NoError(t, os.WriteFile(pem, []byte("no certificate"), 0o600))
	for said, flags := range map[string][]string{
		"there is no access token":                   {"--listen", ":8443"},
		`"8443" is no address to listen at`:          {"--listen", "8443"},
		"a certificate and its key are given tog":    {"--listen", ":8443", "--tls-cert", pem},
		"broken.pem with key":                        {"--listen", ":8443", "--tls-cert", pem, "--tls-key", pem},
		"--listen :8443 or --listen train.example":   {"--tls-cert", pem, "--tls-key", pem},
		"if any flags in the group [stop detach pri": {"--listen", ":8443", "--detach"},
	} {
		require.Equal(t, ExitBadInput, s.run(append([]string{"serve"}, flags...)...), flags)
		require.Contains(t, s.err.String(), said)
	}
	require.Equal(t, ExitDone, s.run("token", "create"), s.err)
	require.NoError(t, s.checkListening(Listening{Address: ":8443"}))
	require.FileExists(t, filepath.Join(s.Home, "certificate.pem"))
}

func TestTheEnvironmentSaysWhereToListenWhereNoFlagDoes(t *testing.T) {
	s := newStage(t)
	s.Env = []string{"PERENNIAL_LISTEN=:8443", "PERENNIAL_TLS_CERT=a.pem", "PERENNIAL_TLS_KEY=b.pem"}
	require.Equal(t, Listening{Address: ":8443", Certificate: "a.pem", Key: "b.pem"}, s.listening(Listening{}))
	require.Equal(t, Listening{Address: ":1", Certificate: "a.pem", Key: "b.pem"}, s.listening(Listening{Address: ":1"}))
}
