package docs

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/experiment"
)

var update = flag.Bool("update", false, "write the generated parts")

const (
	root   = "../.."
	schema = root + "/schema/experiment.schema.json"
)

func TestGeneratedPartsOfPagesAreUpToDate(t *testing.T) {
	found := 0
	for _, path := range pages(t) {
		page := read(t, path)
		want, err := fill(page)
		require.NoError(t, err, path)
		found += strings.Count(page, "<!-- generated: ")
		keep(t, path, page, want)
	}
	require.Equal(t, len(parts), found, "every part stands in one page")
}

func TestTheSchemaForEditorsIsUpToDate(t *testing.T) {
	want, err := experiment.Schema()
	require.NoError(t, err)
	have, _ := os.ReadFile(schema)
	keep(t, schema, string(have), string(want)+"\n")
}

func TestEveryLinkBetweenPagesLeadsSomewhere(t *testing.T) {
	links := regexp.MustCompile(`\]\(([^)#\s]+)(#[^)]*)?\)|src(?:set)?="([^"]+)"`)
	for _, path := range pages(t) {
		for _, link := range links.FindAllStringSubmatch(read(t, path), -1) {
			target := link[1] + link[3]
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			_, err := os.Stat(filepath.Join(filepath.Dir(path), target))
			require.NoError(t, err, "a link of %s", path)
		}
	}
}

func TestTheReadmeNamesEveryCommand(t *testing.T) {
	_, row, found := strings.Cut(read(t, root+"/README.md"), "\n| Commands |")
	require.True(t, found)
	row, _, _ = strings.Cut(row, "\n")
	words := strings.FieldsFunc(row, func(r rune) bool { return r == ' ' || r == '`' })
	names := commandNames(help())
	require.NotEmpty(t, names)
	for _, name := range names {
		require.Contains(t, words, name)
	}
}

func keep(t *testing.T, path, have, want string) {
	t.Helper()
	if *update && have != want {
		require.NoError(t, os.WriteFile(path, []byte(want), 0o644))
		return
	}
	require.True(t, have == want, "%s is not up to date: run make docs", path)
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(content)
}

func pages(t *testing.T) []string {
	t.Helper()
	inside, err := filepath.Glob(root + "/docs/*.md")
	require.NoError(t, err)
	outside, err := filepath.Glob(root + "/*.md")
	require.NoError(t, err)
	require.NotEmpty(t, inside)
	platforms, err := filepath.Glob(root + "/docs/platforms/*.md")
	require.NoError(t, err)
	return append(append(inside, outside...), platforms...)
}
