package door_test

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/door"
)

const token = "the token"

// house is a server behind a door, and a browser with cookies of its own.
type house struct {
	*testing.T
	address string
	browser *http.Client
}

func build(t *testing.T, sessions []byte) house {
	inside := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		require.Empty(t, r.Header.Get("Cookie"), "what opened the door stays outside")
		require.Empty(t, r.Header.Get("Authorization"))
		io.WriteString(w, "inside "+r.URL.RequestURI())
	})
	server := httptest.NewServer(door.New(door.Options{Token: token, Port: 7, Sessions: sessions, Again: "starter dashboard", Inside: inside}))
	t.Cleanup(server.Close)
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	return house{t, server.URL, &http.Client{Jar: jar}}
}

// ask sends a request with headers, given as names and values in turn; Host is one.
func (h house) ask(method, path string, headers ...string) (int, string) {
	h.Helper()
	request, err := http.NewRequestWithContext(h.Context(), method, h.address+path, nil)
	require.NoError(h, err)
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
		if headers[i] == "Host" {
			request.Host = headers[i+1]
		}
	}
	answer, err := h.browser.Do(request)
	require.NoError(h, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	require.NoError(h, err)
	return answer.StatusCode, string(body)
}

func (h house) enter() {
	h.Helper()
	code, body := h.ask(http.MethodGet, door.Link("", token, "/e/k3v9x2ab"))
	require.Equal(h, http.StatusOK, code)
	require.Contains(h, body, `url=/e/k3v9x2ab"`)
}

func TestALinkOpensTheDoorOnceAndTheCookieFromThenOn(t *testing.T) {
	h := build(t, nil)
	code, body := h.ask(http.MethodGet, "/")
	require.Equal(t, http.StatusUnauthorized, code)
	require.Contains(t, body, `printed by starter dashboard`)
	link := door.Link("", token, "/x")
	code, _ = h.ask(http.MethodGet, link)
	require.Equal(t, http.StatusOK, code)
	code, body = h.ask(http.MethodGet, "/x?y=1")
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, "inside /x?y=1", body)
	h.browser.Jar, _ = cookiejar.New(nil)
	code, _ = h.ask(http.MethodGet, link)
	require.Equal(t, http.StatusUnauthorized, code)
	code, _ = h.ask(http.MethodGet, door.Link("", "another token", "/x"))
	require.Equal(t, http.StatusUnauthorized, code)
}

func TestACookieHoldsForAsLongAsItsKeyAndNoLonger(t *testing.T) {
	key := door.NewSessions()
	first := build(t, key)
	first.enter()
	address, err := url.Parse(first.address)
	require.NoError(t, err)
	cookies := first.browser.Jar.Cookies(address)
	require.Len(t, cookies, 1)
	for _, again := range []struct {
		key  []byte
		code int
	}{{key, http.StatusOK}, {door.NewSessions(), http.StatusUnauthorized}, {nil, http.StatusUnauthorized}} {
		next := build(t, again.key)
		address, err := url.Parse(next.address)
		require.NoError(t, err)
		next.browser.Jar.SetCookies(address, cookies)
		code, _ := next.ask(http.MethodGet, "/")
		require.Equal(t, again.code, code)
	}
}

func TestThePagesOfOthersAreRefusedWithTheCookieToo(t *testing.T) {
	h := build(t, nil)
	h.enter()
	for _, refused := range []struct {
		code    int
		method  string
		headers []string
	}{
		{http.StatusMisdirectedRequest, http.MethodGet, []string{"Host", "evil.example:7"}},
		{http.StatusMisdirectedRequest, http.MethodGet, []string{"Host", "127.0.0.1.evil.example"}},
		{http.StatusForbidden, http.MethodPost, []string{"Origin", "http://evil.example"}},
		{http.StatusForbidden, http.MethodPost, []string{"Origin", "http://127.0.0.1:9"}},
		{http.StatusForbidden, http.MethodPost, []string{"Origin", "null"}},
		{http.StatusForbidden, http.MethodPost, []string{"Sec-Fetch-Site", "same-site"}},
		{http.StatusForbidden, http.MethodGet, []string{"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "cors", "Sec-Fetch-Dest", "empty"}},
		{http.StatusForbidden, http.MethodGet, []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"}},
		{http.StatusOK, http.MethodGet, []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}},
		{http.StatusOK, http.MethodPost, []string{"Sec-Fetch-Site", "same-origin"}},
		{http.StatusOK, http.MethodGet, []string{"Host", "127.0.0.1:9000"}},
	} {
		code, body := h.ask(refused.method, "/", refused.headers...)
		require.Equal(t, refused.code, code, "%v: %s", refused.headers, body)
	}
}

func TestACallerWithTheTokenNeedsNoCookie(t *testing.T) {
	h := build(t, nil)
	code, _ := h.ask(http.MethodPost, "/", "Authorization", "Bearer "+token)
	require.Equal(t, http.StatusOK, code)
	code, _ = h.ask(http.MethodPost, "/", "Authorization", "Bearer "+token+"x")
	require.Equal(t, http.StatusUnauthorized, code)
	code, _ = h.ask(http.MethodPost, "/", "Authorization", "Bearer "+token, "Host", "evil.example")
	require.Equal(t, http.StatusMisdirectedRequest, code)
}
