package embedded_test

import (
	"context"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/embedded"
)

const namespacePage = "/namespaces/perennial/workflows"

const namespacesCall = "/api/v1/namespaces"

func get(t *testing.T, c *http.Client, address string) (int, string) {
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	require.NoError(t, err)
	answer, err := c.Do(request)
	require.NoError(t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return answer.StatusCode, string(body)
}

func browser(t *testing.T) *http.Client {
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	return &http.Client{Jar: jar}
}

func Test_the_web_ui_is_closed_without_the_cookie(t *testing.T) {
	server := running(t)
	for _, path := range []string{"/", namespacePage, namespacesCall, "/healthz", "/_app/version.json", "/codec/decode", "/?t=guess"} {
		code, body := get(t, http.DefaultClient, server.WebUI()+path)
		require.Equal(t, http.StatusUnauthorized, code, path)
		require.Contains(t, body, "open a fresh link")
	}
}

func Test_a_link_lets_one_browser_in_once(t *testing.T) {
	server := running(t)
	link := embedded.Link(server.WebUI(), token, namespacePage)
	mine := browser(t)

	code, body := get(t, mine, link)
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, body, `url=`+namespacePage+`"`)
	code, body = get(t, mine, server.WebUI()+namespacePage)
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, body, "/_app/")
	code, body = get(t, mine, server.WebUI()+namespacesCall)
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, body, embedded.Namespace)

	code, _ = get(t, browser(t), link)
	require.Equal(t, http.StatusUnauthorized, code)
}

func Test_a_link_to_an_experiment_fits_a_line_and_leads_to_its_page_also_when_used_again(t *testing.T) {
	server := running(t)
	page := namespacePage + "/experiment-k3v9x2ab"
	link := embedded.Link(server.WebUI(), token, page)
	require.LessOrEqual(t, len("experiment  "+link), 80)
	mine := browser(t)
	code, body := get(t, mine, link)
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, body, `url=`+page+`"`)
	mine.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	answer, err := mine.Get(link)
	require.NoError(t, err)
	defer answer.Body.Close()
	require.Equal(t, page, answer.Header.Get("Location"))
}

func Test_a_link_made_with_another_token_stays_closed(t *testing.T) {
	server := running(t)
	code, _ := get(t, browser(t), embedded.Link(server.WebUI(), "a guess", "/"))
	require.Equal(t, http.StatusUnauthorized, code)
}

func Test_the_cookie_is_kept_from_scripts_and_other_sites(t *testing.T) {
	server := running(t)
	answer, err := http.Get(embedded.Link(server.WebUI(), token, "/"))
	require.NoError(t, err)
	defer answer.Body.Close()
	require.Len(t, answer.Cookies(), 1)
	require.True(t, answer.Cookies()[0].HttpOnly)
	require.Equal(t, http.SameSiteStrictMode, answer.Cookies()[0].SameSite)
}

func Test_a_page_on_another_port_cannot_act_with_the_cookie(t *testing.T) {
	server := running(t)
	mine := browser(t)
	get(t, mine, embedded.Link(server.WebUI(), token, "/"))
	for site, want := range map[string]int{"same-site": http.StatusForbidden, "same-origin": http.StatusNotFound} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
			server.WebUI()+namespacesCall+"/perennial/workflows/none/terminate", strings.NewReader("{}"))
		require.NoError(t, err)
		request.Header.Set("Sec-Fetch-Site", site)
		require.Equal(t, want, status(t, mine, request), site)
	}
}

func Test_history_can_be_downloaded_from_the_web_ui(t *testing.T) {
	server := running(t)
	run := startGreeting(t, connect(t, server.Address()))
	mine := browser(t)
	get(t, mine, embedded.Link(server.WebUI(), token, "/"))
	code, body := get(t, mine, server.WebUI()+namespacesCall+"/perennial/workflows/greeting/run/"+
		url.PathEscape(run.GetRunID())+"/history.json")
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, body, "WorkflowExecutionStartedEventAttributes")
}

func Test_the_codec_is_behind_the_same_door(t *testing.T) {
	codec := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.URL.Path) })
	server, err := embedded.Start(context.Background(), embedded.Options{Directory: t.TempDir(), Token: token, Codec: codec})
	require.NoError(t, err)
	t.Cleanup(func() { _ = server.Stop() })

	code, _ := get(t, http.DefaultClient, server.WebUI()+"/codec/decode")
	require.Equal(t, http.StatusUnauthorized, code)
	mine := browser(t)
	get(t, mine, embedded.Link(server.WebUI(), token, "/"))
	_, body := get(t, mine, server.WebUI()+"/codec/decode")
	require.Equal(t, "/decode", body)
	_, body = get(t, mine, server.WebUI()+"/api/v1/settings")
	require.Contains(t, body, server.WebUI()+"/codec")
}
