package door_test

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/door"
)

// exposed is a house with a made certificate, to which its browser was introduced.
func exposed(t *testing.T) (house, door.Tokens) {
	home := t.TempDir()
	certificate, err := door.MadeCertificate(home, "")
	require.NoError(t, err)
	tokens := door.TokensIn(home)
	inside := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "inside") })
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := &http.Server{TLSConfig: certificate.Config(),
		Handler: door.New(door.Options{Tokens: tokens, Port: 7, Certificate: certificate, Inside: inside})}
	go server.ServeTLS(listener, "", "") //nolint:errcheck // it ends with the test
	t.Cleanup(func() { server.Close() })
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	content, err := os.ReadFile(filepath.Join(home, "certificate.pem"))
	require.NoError(t, err)
	trusted := x509.NewCertPool()
	require.True(t, trusted.AppendCertsFromPEM(content))
	client := &http.Client{Jar: jar, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted}}}
	t.Cleanup(client.CloseIdleConnections)
	return house{t, "https://" + listener.Addr().String(), client}, tokens
}

func TestBeyondLoopbackAnAccessTokenOpensAndTheEmptyOneOpensNothing(t *testing.T) {
	h, tokens := exposed(t)
	given, _ := created(t, tokens, door.Access{})
	code, body := h.ask("GET", "/", "Authorization", "Bearer "+given)
	require.Equal(t, http.StatusOK, code, body)
	for _, header := range []string{"", "Bearer ", "Bearer"} {
		code, body = h.ask("GET", "/", "Authorization", header)
		require.Equal(t, http.StatusUnauthorized, code)
		require.Contains(t, body, "starter token create")
	}
	code, _ = h.ask("GET", door.Link("", "", "/"))
	require.Equal(t, http.StatusUnauthorized, code, "links are made with the token of the state directory")
	answer, err := h.browser.PostForm(h.address+"/enter", map[string][]string{"token": {given}})
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Len(t, answer.Cookies(), 1)
	require.True(t, answer.Cookies()[0].Secure)
	code, _ = h.ask("POST", "/", "Origin", h.address)
	require.Equal(t, http.StatusOK, code)
	code, _ = h.ask("POST", "/", "Origin", "https://evil.example")
	require.Equal(t, http.StatusForbidden, code)
	for name, want := range map[string]int{"evil.example": http.StatusMisdirectedRequest, "127.0.0.1.evil.example": http.StatusMisdirectedRequest, "localhost:9": http.StatusOK} {
		code, _ = h.ask("GET", "/", "Authorization", "Bearer "+given, "Host", name)
		require.Equal(t, want, code, name)
	}
}

func TestWhoseTokensAreRefusedAgainAndAgainHasToWait(t *testing.T) {
	h, tokens := exposed(t)
	given, made := created(t, tokens, door.Access{})
	require.NoError(t, tokens.Revoke(made.ID))
	refused := 0
	for range 100 {
		code, body := h.ask("GET", "/", "Authorization", "Bearer "+given)
		if code == http.StatusTooManyRequests {
			require.Contains(t, body, "try again later")
			require.GreaterOrEqual(t, refused, 10)
			return
		}
		require.Equal(t, http.StatusUnauthorized, code)
		refused++
	}
	t.Fatal("a hundred tokens could be tried")
}

func TestTheMadeCertificateStaysAndARenewedOneIsShownAtOnce(t *testing.T) {
	home := t.TempDir()
	first, err := door.MadeCertificate(home, "")
	require.NoError(t, err)
	again, err := door.MadeCertificate(home, "localhost")
	require.NoError(t, err)
	require.Equal(t, first.Fingerprint(), again.Fingerprint())
	require.Len(t, strings.Split(first.Fingerprint(), ":"), 32)
	info, err := os.Stat(filepath.Join(home, "certificate.pem"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	require.False(t, first.Covers("train.example.org:8443"))
	other, err := door.MadeCertificate(home, "train.example.org")
	require.NoError(t, err)
	require.True(t, other.Covers("train.example.org:8443"))
	require.True(t, other.Covers("[::1]:8443"))
	require.Equal(t, other.Fingerprint(), first.Fingerprint(), "it reads the files")
	require.NoError(t, os.WriteFile(filepath.Join(home, "certificate.pem"), []byte("half"), 0o600))
	require.True(t, other.Covers("train.example.org"), "it goes on with what it has")
	_, err = door.OpenCertificate(filepath.Join(home, "certificate.pem"), filepath.Join(home, "certificate.pem"))
	require.ErrorContains(t, err, "certificate.pem")
}
