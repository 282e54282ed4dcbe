package codedir

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var oracleSeed = flag.Uint64("oracle-seed", 1, "which random trees are compared with git")

// batchSize is how many trees one call of git decides.
const batchSize = 500

// grammar is one class of patterns: what names and patterns are made of.
type grammar struct {
	name    string
	pieces  []string
	line    func(*rand.Rand, string) string
	nesting bool
}

var (
	vocabulary = []string{"a", "b", "ab", "abc", "x", "foo", "foo.o", "bar.c", "1", "A", ".h", "a b", "x ", "b\t",
		"#x", "!x", "a[b", "a]b", "a-b", `a\b`, "a*", "b?", "é", "x\r"}
	literals = []string{"a", "b", "ab", "abc", "x", "foo", "foo.o", "bar.c", "1", "A", ".h", "a-b", "é"}
	wild     = []string{"*", "a*", "*b", "?", "a?", "??", "*.o", "f*o*", "*.?", "x*", "*a*b*"}
	deepOnes = []string{"**", "a**", "**b", "***", "a**b", "**", "**"}
	escaped  = []string{`\#x`, `\!x`, `a\b`, `a\\b`, `a\*`, `b\?`, `a\[b`, `\a`, `foo\`, `x\ `, `\**`, `a\/b`, `**\/b`}
	sets     = []string{"[a-c]", "[!a]", "[^a]", "[]a]", "[]-a]", "[!]a]", "[a-]", "[-a]", "[[:digit:]]", "[[:alpha:]]*",
		"[![:digit:]]", "[[:upper:][:digit:]]", "[[:foo:]]", "[[:alpha]", "[[:]", "[::]", "[a", "a[b", "[", "[]", "[!]",
		`[\]]`, `[a\-c]`, `a[\[]b`, "[a-c-x]", "[c-a]", "*[a-z]", "[a-[:digit:]]", "[[-a]*", "a[*]", "[/]", "a[/]b", "[!b]*", "[a-c]**"}
	spaced = []string{"x ", "x  ", `x\ `, `a b`, "a ", "b\t", "b\t ", " a", "x\r", `a\ b `, ` `, `\ `, "a \r", `x \`}
)

var grammars = []grammar{
	{name: "plain", pieces: concat(literals, wild), line: basename},
	{name: "negation", pieces: concat(literals, wild), line: maybeNegated},
	{name: "double stars", pieces: concat(literals, wild, deepOnes, deepOnes), line: maybeNegatedPath},
	{name: "folders only", pieces: concat(literals, wild), line: folderOnly},
	{name: "anchored", pieces: concat(literals, wild), line: anchored},
	{name: "escapes", pieces: concat(literals, escaped, escaped), line: maybeNegatedPath},
	{name: "sets", pieces: concat(literals, sets, sets), line: maybeNegatedPath},
	{name: "trailing spaces", pieces: concat(literals, spaced, spaced), line: trailing},
	{name: "nested files", pieces: concat(literals, wild), line: anything, nesting: true},
	{name: "everything", pieces: concat(literals, wild, deepOnes, escaped, sets, spaced), line: anything, nesting: true},
}

func concat(lists ...[]string) []string { return slices.Concat(lists...) }

func basename(_ *rand.Rand, path string) string { return strings.ReplaceAll(path, "/", "") }

func maybeNegated(r *rand.Rand, path string) string {
	return pick(r, []string{"", "", "!"}) + basename(r, path)
}

func maybeNegatedPath(r *rand.Rand, path string) string { return pick(r, []string{"", "", "!"}) + path }

func folderOnly(r *rand.Rand, path string) string { return maybeNegatedPath(r, path) + "/" }

func anchored(r *rand.Rand, path string) string {
	return pick(r, []string{"", "!"}) + pick(r, []string{"/", "/", "//", ""}) + path
}

func trailing(r *rand.Rand, path string) string {
	return maybeNegatedPath(r, path) + pick(r, []string{" ", "  ", `\ `, "\t", "\r", " \r", ""})
}

func anything(r *rand.Rand, path string) string {
	if r.IntN(12) == 0 {
		return pick(r, []string{"", "#comment", "!", "/", "//", "!/", "*", "/*", "!*/", "**", "/**", "**/", "!a/"})
	}
	line := pick(r, []string{anchored(r, path), maybeNegatedPath(r, path), maybeNegated(r, path)})
	return line + pick(r, []string{"", "", "", "/", "/", "/**", "/*", " ", "\r"})
}

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

func TestIgnoreRulesAgreeWithGitOnRandomTrees(t *testing.T) {
	needGit(t)
	trees := 10_000
	if testing.Short() {
		trees = 1_000
	}
	for batch := range trees / batchSize {
		compareBatch(t, batch)
	}
}

// needGit skips where there is no git, but never where the project is judged.
func needGit(t *testing.T) {
	if _, err := exec.LookPath("git"); err == nil {
		return
	}
	if os.Getenv("CI") != "" {
		t.Fatal("git is not installed, and without it the ignore rules are not tested; install git")
	}
	t.Skip("WARNING: git is not installed, the ignore rules were NOT tested against it")
}

func compareBatch(t *testing.T, batch int) {
	repository := quickFolder(t)
	r := rand.New(rand.NewPCG(*oracleSeed, uint64(batch)))
	for i := range batchSize {
		plant(t, filepath.Join(repository, treeName(i)), r, grammars[i%len(grammars)])
	}
	kept := gitKeeps(t, repository)
	for i := range batchSize {
		tree := filepath.Join(repository, treeName(i))
		require.Equal(t, kept[treeName(i)], weKeep(t, tree), "seed %d, batch %d, tree %d (%s)\n%s",
			*oracleSeed, batch, i, grammars[i%len(grammars)].name, describe(tree))
	}
	require.NoError(t, os.RemoveAll(repository))
}

// quickFolder is in memory where there is such a file system: making 150,000
// files is what takes the time.
func quickFolder(t *testing.T) string {
	folder, err := os.MkdirTemp("/dev/shm", "codedir")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	return folder
}

func treeName(i int) string { return fmt.Sprintf("tree%d", i) }

// plant makes a tree of about twelve files and one or more ignore files.
func plant(t *testing.T, top string, r *rand.Rand, g grammar) {
	folders := []string{top}
	for range 12 {
		folder := pick(r, folders)
		name := filepath.Join(folder, pick(r, vocabulary))
		if r.IntN(3) == 0 && os.MkdirAll(name, 0o755) == nil {
			folders = append(folders, name)
		}
		os.MkdirAll(folder, 0o755)
		os.WriteFile(name, nil, 0o644) // a folder may have the name already
	}
	plantRules(t, top, r, g)
	for g.nesting && r.IntN(3) > 0 {
		plantRules(t, pick(r, folders), r, g)
	}
}

func plantRules(t *testing.T, folder string, r *rand.Rand, g grammar) {
	text := pick(r, []string{"", "", "", "\ufeff"})
	for range 1 + r.IntN(4) {
		text += g.line(r, randomPath(r, g)) + "\n"
	}
	if r.IntN(4) == 0 {
		text = strings.TrimSuffix(text, "\n")
	}
	require.NoError(t, os.MkdirAll(folder, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(folder, ".gitignore"), []byte(text), 0o644))
}

func randomPath(r *rand.Rand, g grammar) string {
	pieces := []string{pick(r, g.pieces)}
	for r.IntN(2) == 0 && len(pieces) < 4 {
		pieces = append(pieces, pick(r, g.pieces))
	}
	return strings.Join(pieces, "/")
}

func gitKeeps(t *testing.T, repository string) map[string][]string {
	git(t, repository, "init", "--quiet")
	kept := map[string][]string{}
	listing := git(t, repository, "ls-files", "-z", "-o", "--exclude-per-directory=.gitignore")
	for name := range strings.SplitSeq(strings.TrimSuffix(listing, "\x00"), "\x00") {
		tree, path, _ := strings.Cut(name, "/")
		kept[tree] = append(kept[tree], path)
	}
	for _, paths := range kept {
		slices.Sort(paths)
	}
	return kept
}

func git(t *testing.T, directory string, args ...string) string {
	command := exec.Command("git", args...)
	command.Dir = directory
	command.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_DIR="+filepath.Join(directory, ".git"))
	var complaint bytes.Buffer
	command.Stderr = &complaint
	out, err := command.Output()
	require.NoError(t, err, complaint.String())
	return string(out)
}

func weKeep(t *testing.T, dir string) []string {
	s := scanner{ignoreFiles: []ignoreFile{{".gitignore", parseRules}}}
	tree, err := s.scan(dir)
	require.NoError(t, err)
	var kept []string
	for _, e := range tree.entries {
		if !e.info.IsDir() {
			kept = append(kept, e.path)
		}
	}
	return kept
}

// describe shows a tree's ignore files, for the message of a mismatch.
func describe(tree string) string {
	var text strings.Builder
	filepath.WalkDir(tree, func(path string, _ os.DirEntry, _ error) error {
		if filepath.Base(path) == ".gitignore" {
			content, _ := os.ReadFile(path)
			fmt.Fprintf(&text, "%s: %q\n", strings.TrimPrefix(path, tree), content)
		}
		return nil
	})
	return text.String()
}
