package kube

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

func TestOfAnOutputTheFirstHalfOfItsLimitIsKeptAndTheLast(t *testing.T) {
	for printed, kept := range map[string]string{
		"":                       "",
		"12345":                  "12345",
		"1234567890":             "1234567890",
		"1234567890a":            "12345\n[perennial: 1 bytes left out]\n7890a",
		"1234567890abcde":        "12345\n[perennial: 5 bytes left out]\nabcde",
		"1234567890abcdefghijkl": "12345\n[perennial: 12 bytes left out]\nhijkl",
	} {
		t.Run(fmt.Sprint(len(printed)), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "output", "one")
			require.NoError(t, save(path, iotest.OneByteReader(strings.NewReader(printed)), 10))
			content, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, kept, string(content))
			left, err := os.ReadDir(filepath.Dir(path))
			require.NoError(t, err)
			require.Len(t, left, 1, "nothing but the output")
		})
	}
}
