package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTheDashboardOfTheNextHostIsWhereThatOfTheLastOneWas(t *testing.T) {
	file := filepath.Join(t.TempDir(), "dashboard")
	first, one, err := listen(file)
	require.NoError(t, err)
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
	require.NoError(t, first.Close())
	second, two, err := listen(file)
	require.NoError(t, err)
	defer second.Close()
	require.Equal(t, one, two)
}

func TestWhereSomebodyElseHasThePlaceTheKeyOfCookiesIsGivenUpToo(t *testing.T) {
	file := filepath.Join(t.TempDir(), "dashboard")
	somebody, one, err := listen(file)
	require.NoError(t, err)
	defer somebody.Close()
	other, two, err := listen(file)
	require.NoError(t, err)
	defer other.Close()
	require.NotEqual(t, one.Port, two.Port)
	require.NotEqual(t, one.Sessions, two.Sessions)
	require.NoError(t, other.Close())
	third, three, err := listen(file)
	require.NoError(t, err)
	defer third.Close()
	require.Equal(t, two, three)
}

func TestAPageThatIsMerelyOpenIsNotLookedAtForEver(t *testing.T) {
	var d dashboardServer
	inside := d.count(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	ask := func(path string) {
		request := httptest.NewRequest(http.MethodGet, path, nil)
		request.Header.Set("Sec-Fetch-Site", "same-origin") // as browsers say
		inside.ServeHTTP(httptest.NewRecorder(), request)
	}
	require.False(t, d.visited())
	ask("/api/v1/experiments/k3v9x2ab/events?after=-1")
	require.True(t, d.visited())
	d.meant.Store(time.Now().Add(-2 * attention).UnixNano())
	ask("/api/v1/experiments/k3v9x2ab")
	ask("/api/v1/gpus")
	require.False(t, d.visited(), "what a page asks by itself")
	ask("/e/k3v9x2ab")
	require.True(t, d.visited())
	d.meant.Store(0)
	inside.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/api/v1/gpus", nil))
	require.True(t, d.visited(), "what a program asks")
}
