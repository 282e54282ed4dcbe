package door_test

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/door"
)

// guarded is a house with access tokens, of which /stream stays open until the caller is shown out.
func guarded(t *testing.T) (house, door.Tokens) {
	home := t.TempDir()
	inside := http.NewServeMux()
	inside.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "inside "+r.Method) })
	inside.HandleFunc("/stream", func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	tokens := door.TokensIn(home)
	reads := func(r *http.Request) bool { return r.Method == http.MethodGet && r.URL.Path != "/away" }
	server := httptest.NewServer(door.New(door.Options{Token: token, Tokens: tokens, Reads: reads, Port: 7, Again: "starter dashboard", Inside: inside}))
	t.Cleanup(server.Close)
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	return house{t, server.URL, &http.Client{Jar: jar}}, tokens
}

func created(t *testing.T, tokens door.Tokens, wanted door.Access) (string, door.Access) {
	t.Helper()
	token, made, err := tokens.Create(wanted)
	require.NoError(t, err)
	return token, made
}

func TestAnAccessTokenDoesWhatItAllowsAndNothingElse(t *testing.T) {
	h, tokens := guarded(t)
	all, _ := created(t, tokens, door.Access{})
	reading, made := created(t, tokens, door.Access{ReadOnly: true, Expires: time.Now().Add(time.Hour)})
	for _, call := range []struct {
		code                int
		token, method, path string
	}{
		{200, all, "GET", "/x"}, {200, all, "POST", "/x"}, {200, all, "GET", "/away"},
		{200, reading, "GET", "/x"}, {403, reading, "POST", "/x"}, {403, reading, "DELETE", "/x"}, {403, reading, "GET", "/away"},
	} {
		code, body := h.ask(call.method, call.path, "Authorization", "Bearer "+call.token)
		require.Equal(t, call.code, code, "%s %s: %s", call.method, call.path, body)
		if code == http.StatusForbidden {
			require.JSONEq(t, `{"title":"Forbidden","status":403,"detail":"access token `+made.ID+` may only read"}`, body)
		}
	}
	code, _ := h.ask("GET", "/x", "Authorization", "Bearer "+all, "Host", "evil.example")
	require.Equal(t, http.StatusMisdirectedRequest, code)
}

func TestATokenThatIsRevokedExpiredOrMadeUpIsRefusedAndSaysWhy(t *testing.T) {
	h, tokens := guarded(t)
	revoked, made := created(t, tokens, door.Access{})
	expired, old := created(t, tokens, door.Access{Expires: time.Now().Add(-time.Second)})
	code, _ := h.ask("GET", "/x", "Authorization", "Bearer "+revoked)
	require.Equal(t, http.StatusOK, code)
	require.NoError(t, tokens.Revoke(made.ID))
	require.ErrorIs(t, tokens.Revoke(made.ID), door.ErrNoToken)
	require.ErrorIs(t, tokens.Revoke("../"+old.ID), door.ErrNoToken)
	almost := expired[:len(expired)-1] + map[bool]string{true: "B", false: "A"}[strings.HasSuffix(expired, "A")]
	for given, why := range map[string]string{
		revoked: "unknown or was revoked", almost: "unknown or was revoked", "prnl_../../token": "unknown or was revoked",
		expired: "access token " + old.ID + " expired at ",
	} {
		code, body := h.ask("GET", "/x", "Authorization", "Bearer "+given)
		require.Equal(t, http.StatusUnauthorized, code)
		require.Contains(t, body, why)
		require.NotContains(t, body, given)
	}
}

func TestAStreamEndsWithTheTokenThatOpenedIt(t *testing.T) {
	h, tokens := guarded(t)
	given, made := created(t, tokens, door.Access{ReadOnly: true})
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.address+"/stream", nil)
	require.NoError(t, err)
	request.Header.Set("Authorization", "Bearer "+given)
	answer, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer answer.Body.Close()
	require.Equal(t, http.StatusOK, answer.StatusCode)
	require.NoError(t, tokens.Revoke(made.ID))
	_, err = io.ReadAll(answer.Body) // which ends only with the stream
	require.NoError(t, err)
}

func TestAPersonTypesInATokenWhereThePageIsClosed(t *testing.T) {
	h, tokens := guarded(t)
	given, made := created(t, tokens, door.Access{ReadOnly: true})
	code, body := h.ask("GET", "/", "Accept", "text/html")
	require.Equal(t, http.StatusUnauthorized, code)
	require.Contains(t, body, `action="/enter"`)
	enter := func(token, origin string) int {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.address+"/enter", strings.NewReader(url.Values{"token": {token}}.Encode()))
		require.NoError(t, err)
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		request.Header.Set("Origin", origin)
		answer, err := h.browser.Do(request)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		return answer.StatusCode
	}
	require.Equal(t, http.StatusForbidden, enter(given, "http://evil.example"))
	require.Equal(t, http.StatusUnauthorized, enter("a guess", h.address))
	require.Equal(t, http.StatusOK, enter(given+" ", h.address))
	code, body = h.ask("GET", "/")
	require.Equal(t, http.StatusOK, code, body)
	code, _ = h.ask("POST", "/")
	require.Equal(t, http.StatusForbidden, code)
	require.NoError(t, tokens.Revoke(made.ID))
	code, _ = h.ask("GET", "/")
	require.Equal(t, http.StatusUnauthorized, code)
}

func TestTokensAreKeptAsHashesThatOnlyTheirOwnerCanRead(t *testing.T) {
	home := t.TempDir()
	tokens := door.TokensIn(home)
	none, err := tokens.List()
	require.NoError(t, err)
	require.Empty(t, none)
	given, made := created(t, tokens, door.Access{Name: "grafana", ReadOnly: true, Created: time.Now().UTC().Truncate(time.Second)})
	list, err := tokens.List()
	require.NoError(t, err)
	require.Equal(t, []door.Access{made}, list)
	files, err := filepath.Glob(filepath.Join(home, "tokens", "*"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	content, err := os.ReadFile(files[0])
	require.NoError(t, err)
	secret := given[strings.LastIndex(given, "_")+1:]
	require.NotContains(t, string(content), secret)
	info, err := os.Stat(files[0])
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}
