package main

import (
	"os"
	"path/filepath"
	"testing"

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
