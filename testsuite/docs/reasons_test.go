package docs

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/starter/command"
)

const errorsPage = root + "/docs/errors.md"

var platformCodes = []platforms.Code{platforms.Invalid, platforms.Denied, platforms.NotFound, platforms.Exhausted, platforms.Transient}

func TestEveryReasonOfTheCodeIsExplainedAndNoOther(t *testing.T) {
	page := read(t, errorsPage)
	codes := reasonCodes(t)
	require.Greater(t, len(codes), 20)
	require.Empty(t, unexplained(page, codes), "reasons without a row in the page")
	_, table, found := strings.Cut(page, "## Reasons")
	require.True(t, found)
	table, _, _ = strings.Cut(table, "\n## ")
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(table, -1) {
		require.Contains(t, codes, row[1], "the page explains a reason that the code does not have")
	}
}

// unexplained returns the codes without a row of a table in the page.
func unexplained(page string, codes []string) []string {
	return slices.DeleteFunc(slices.Clone(codes), func(code string) bool { return strings.Contains(page, "| `"+code+"` |") })
}

func TestEveryCodeOfPlatformErrorsAndExitCodeIsExplained(t *testing.T) {
	page := read(t, errorsPage)
	var codes []string
	for _, code := range platformCodes {
		codes = append(codes, string(code))
	}
	require.Empty(t, unexplained(page, codes), "codes without a row in the page")
	for _, code := range []int{command.ExitDone, command.ExitNoSuccess, command.ExitBadInput, command.ExitStopped,
		command.ExitUnreachable, command.ExitStuck, command.ExitDetached} {
		require.True(t, strings.Contains(page, fmt.Sprintf("\n| %d |", code)), "exit code %d has no row in the page", code)
	}
}

// sources are the product's parsed files.
func sources(t *testing.T) (files []*ast.File) {
	t.Helper()
	set := token.NewFileSet()
	require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (entry.Name() == "testsuite" || path != root && strings.HasPrefix(entry.Name(), ".") && entry.Name() != "..") {
			return filepath.SkipDir
		}
		if strings.HasSuffix(path, "_test.go") || !strings.HasSuffix(path, ".go") {
			return nil
		}
		file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		files = append(files, file)
		return err
	}))
	return files
}

// reasonCodes finds the code of every trial.Reason that the product makes.
func reasonCodes(t *testing.T) (codes []string) {
	t.Helper()
	files := sources(t)
	constants := stringConstants(files)
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			if value := codeOf(n); value != nil {
				made := spell(value, constants)
				require.NotEmpty(t, made, "a reason's code is a constant, or one with a platform's code behind it")
				codes = append(codes, made...)
			}
			return true
		})
	}
	slices.Sort(codes)
	return slices.Compact(codes)
}

// codeOf returns the Code in a literal of trial.Reason, nil for all else.
func codeOf(n ast.Node) ast.Expr {
	literal, ok := n.(*ast.CompositeLit)
	if !ok {
		return nil
	}
	if kind, ok := literal.Type.(*ast.SelectorExpr); !ok || kind.Sel.Name != "Reason" {
		return nil
	}
	for _, element := range literal.Elts {
		if pair, ok := element.(*ast.KeyValueExpr); ok && pair.Key.(*ast.Ident).Name == "Code" {
			return pair.Value
		}
	}
	return nil
}

func spell(value ast.Expr, constants map[string]string) []string {
	switch e := value.(type) {
	case *ast.BasicLit:
		text, _ := strconv.Unquote(e.Value)
		return []string{text}
	case *ast.Ident:
		return nonEmpty(constants[e.Name])
	case *ast.SelectorExpr:
		return nonEmpty(constants[e.Sel.Name])
	case *ast.BinaryExpr:
		var list []string
		for _, code := range platformCodes {
			list = append(list, spell(e.X, constants)[0]+string(code))
		}
		return list
	}
	return nil
}

func nonEmpty(text string) []string {
	if text == "" {
		return nil
	}
	return []string{text}
}

func stringConstants(files []*ast.File) map[string]string {
	constants := map[string]string{}
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.ValueSpec); ok {
				noteConstants(spec, constants)
			}
			return true
		})
	}
	return constants
}

func noteConstants(spec *ast.ValueSpec, constants map[string]string) {
	for i, value := range spec.Values {
		if literal, ok := value.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			constants[spec.Names[i].Name], _ = strconv.Unquote(literal.Value)
		}
	}
}
