package service

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/platforms"
)

func answer(status int, headers ...string) *http.Response {
	recorded := httptest.NewRecorder()
	for i := 0; i < len(headers); i += 2 {
		recorded.Header().Set(headers[i], headers[i+1])
	}
	recorded.WriteHeader(status)
	told := recorded.Result()
	told.Request = httptest.NewRequest(http.MethodGet, "https://pai.example/jobs?password=hunter2", nil)
	return told
}

func TestAStatusSaysWhatToDo(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]platforms.Code{
		400: platforms.Invalid, 401: platforms.Denied, 403: platforms.Denied, 404: platforms.NotFound, 408: platforms.Transient,
		409: platforms.Transient, 422: platforms.Invalid, 429: platforms.Exhausted, 500: platforms.Transient, 503: platforms.Transient,
	} {
		err := Fault("submit", answer(status), "no", "the token")
		require.Equal(t, want, platforms.CodeOf(err), status)
		require.NotContains(t, err.Error(), "hunter2")
	}
	require.ErrorContains(t, Fault("poll", answer(401), "expired", "trainingService.token"), "expired; renew trainingService.token")
	require.NotContains(t, Fault("poll", answer(429, "Retry-After", "60"), "<html>Too many", "").Error(), "html")
}

func TestAServiceSaysWhenToComeAgain(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"": 0, "soon": 0, "-3": 0, "90": 90 * time.Second, "1e300": time.Hour, "Fri, 02 Jan 2026 03:05:05 GMT": time.Minute, "Fri, 02 Jan 1970 03:05:05 GMT": 0,
	} {
		require.Equal(t, want, After(http.Header{"Retry-After": {text}}, now), text)
	}
	require.Positive(t, platforms.AfterOf(Fault("poll", answer(429), "", "")), "a pause, also where the service names none")
}

func TestACallThatBroughtNoAnswerIsToldWithoutItsURL(t *testing.T) {
	t.Parallel()
	err := Unreachable("poll", &url.Error{Op: "Get", URL: "https://dlts.example/api?password=hunter2", Err: errors.New("connection refused")})
	require.Equal(t, platforms.Transient, platforms.CodeOf(err))
	require.Equal(t, "poll: cannot reach dlts.example: connection refused", err.Error())
}

func TestNoCallIsMadeThatALimitWouldRefuse(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	limit := &Limit{Calls: 2, Span: time.Hour, Of: "it takes 2 an hour", Now: func() time.Time { return now }}
	require.NoError(t, limit.Take("submit"))
	now = now.Add(10 * time.Minute)
	require.NoError(t, limit.Take("submit"))
	err := limit.Take("submit")
	require.True(t, platforms.NoRoom(err))
	require.Equal(t, 50*time.Minute, platforms.AfterOf(err))
	require.ErrorContains(t, err, "it takes 2 an hour; the next one at 04:00:00")
	now = now.Add(50 * time.Minute)
	require.NoError(t, limit.Take("submit"), "the first one is an hour ago")
	require.Error(t, limit.Take("submit"), "the second one is not")
	now = now.Add(time.Hour)
	limit.Refused(30 * time.Minute)
	require.Equal(t, 30*time.Minute, limit.Wait(), "the service counts what others did")
	now = now.Add(30 * time.Minute)
	require.NoError(t, limit.Take("submit"))
}

func TestALimitCountsOnAfterARestartAndNotWhatAnotherClockCounted(t *testing.T) {
	t.Parallel()
	now, file := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC), filepath.Join(t.TempDir(), "of", "ada.json")
	process := func() *Limit {
		return &Limit{Calls: 2, Span: time.Hour, Now: func() time.Time { return now }, File: file}
	}
	require.NoError(t, process().Take("submit"))
	now = now.Add(time.Minute)
	require.NoError(t, process().Take("submit"))
	require.Equal(t, 59*time.Minute, platforms.AfterOf(process().Take("submit")))
	process().Refused(time.Hour)
	require.Equal(t, time.Hour, process().Wait())
	now = now.Add(-24 * time.Hour)
	require.NoError(t, process().Take("submit"))
	require.NoError(t, os.WriteFile(file, []byte("{"), 0o600))
	require.Zero(t, process().Wait())
}
