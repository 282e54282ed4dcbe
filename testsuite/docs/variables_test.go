package docs

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// ours are names that are variables of ours or NNI's wherever they stand in the code, also
// at the beginning of NAME=value.
var ours = regexp.MustCompile(`^((?:PERENNIAL|NNI)_[A-Z_]*[A-Z])(?:=|$)`)

// variablesOfTheCode are those names, and whatever the code looks up in an environment by name.
func variablesOfTheCode(t *testing.T) (names []string) {
	for _, file := range sources(t) {
		ast.Inspect(file, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.BasicLit:
				if found := ours.FindStringSubmatch(literal(node)); found != nil {
					names = append(names, found[1])
				}
			case *ast.CallExpr:
				if called, is := node.Fun.(*ast.SelectorExpr); is && slices.Contains([]string{"Getenv", "LookupEnv"}, called.Sel.Name) && len(node.Args) == 1 {
					names = append(names, literal(node.Args[0]))
				}
			}
			return true
		})
	}
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool { return name == "" })
}

// literal is the text of a string in the code, else empty.
func literal(node ast.Expr) string {
	text, is := node.(*ast.BasicLit)
	if !is || text.Kind != token.STRING {
		return ""
	}
	value, err := strconv.Unquote(text.Value)
	if err != nil {
		return ""
	}
	return value
}

func TestEveryVariableThatTheCodeReadsIsExplainedAndNoOther(t *testing.T) {
	_, page, found := strings.Cut(read(t, root+"/docs/configuration.md"), "\n## Environment variables")
	require.True(t, found)
	page, _, _ = strings.Cut(page, "\n## ")
	explained := page + read(t, root+"/docs/trial-protocol.md")
	names := variablesOfTheCode(t)
	require.Greater(t, len(names), 30)
	for _, name := range names {
		require.Contains(t, explained, "`"+name+"`", "a variable without a word")
	}
	for _, row := range regexp.MustCompile("`(PERENNIAL_[A-Z_]+)`").FindAllStringSubmatch(page, -1) {
		require.Contains(t, names, row[1], "the page explains a variable that the code does not have")
	}
}
