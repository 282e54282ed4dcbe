package command

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

//go:embed example
var example embed.FS

const initHelp = `init writes a small experiment that runs as it is: a commented experiment.yml, a
search_space.json, and trial.sh, a trial without Python. It overwrites nothing.`

func (w World) initCommand() *cobra.Command {
	return &cobra.Command{
		Use: "init [DIRECTORY]", Short: "Write an example experiment", Long: initHelp,
		Example: examples("starter init", "starter init my-experiment"),
		Args:    atMost(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return w.init(filepath.Clean(optional(args)))
		},
	}
}

func (w World) init(directory string) error {
	files, err := fs.ReadDir(example, "example")
	if err != nil {
		return err
	}
	if err := untouched(directory, files); err != nil {
		return err
	}
	if err := os.MkdirAll(directory, 0o777); err != nil {
		return badInput("", "make the directory: %w", err)
	}
	for _, file := range files {
		if err := w.copyExample(directory, file.Name()); err != nil {
			return badInput("", "write the example: %w", err)
		}
	}
	_, err = fmt.Fprintf(w.Out, "wrote an example; run it with\n  starter run %s\n", filepath.Join(directory, "experiment.yml"))
	return err
}

// untouched refuses a directory that already holds one of the files.
func untouched(directory string, files []fs.DirEntry) error {
	for _, file := range files {
		path := filepath.Join(directory, file.Name())
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			return badInput("name a directory: starter init my-experiment", "%s is there already; nothing was written", path)
		}
	}
	return nil
}

func (w World) copyExample(directory, name string) error {
	content, err := example.ReadFile("example/" + name)
	if err != nil {
		return err
	}
	content = bytes.ReplaceAll(content, []byte("${TUNERS}"), []byte(comment(w.Build.Tuners)))
	content = bytes.ReplaceAll(content, []byte("${ASSESSORS}"), []byte(comment(w.Build.Assessors)))
	file, err := os.OpenFile(filepath.Join(directory, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	return errors.Join(err, file.Close())
}

// comment is names in a comment, five on a line.
func comment(names []string) string {
	var lines []string
	for some := range slices.Chunk(names, 5) {
		lines = append(lines, strings.Join(some, ", "))
	}
	return strings.Join(lines, ",\n# ")
}
