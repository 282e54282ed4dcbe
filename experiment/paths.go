package experiment

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"
)

// resolve makes a path absolute: ~ is the home directory, and what is relative
// starts at the experiment file. Links are followed as far as the path exists.
func (r *reader) resolve(written string) (string, error) {
	if written == "~" || strings.HasPrefix(written, "~/") {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", complaint{"names the home directory, which is not known", "set HOME, or write the path in full"}
		}
		written = home + written[1:]
	}
	if !filepath.IsAbs(written) {
		written = filepath.Join(r.directory, written)
	}
	if real, err := filepath.EvalSymlinks(written); err == nil {
		return real, nil
	}
	return filepath.Clean(written), nil
}

func readPath(r *reader, n *yaml.Node) (any, error) {
	written, err := readText(r, n)
	if err != nil {
		return nil, err
	}
	if written == "" || strings.ContainsRune(written.(string), 0) {
		return nil, complaint{"must be a path, not empty", ""}
	}
	absolute, err := r.resolve(written.(string))
	if err != nil {
		return nil, err
	}
	return absolute, nil
}

func readFile(r *reader, n *yaml.Node) (any, error) { return readExisting(r, n, "file") }

func readDirectory(r *reader, n *yaml.Node) (any, error) { return readExisting(r, n, "directory") }

func readExisting(r *reader, n *yaml.Node, wanted string) (any, error) {
	absolute, err := readPath(r, n)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(absolute.(string))
	hint := fmt.Sprintf("it was looked for at %s", absolute)
	switch {
	case os.IsNotExist(err):
		return nil, complaint{fmt.Sprintf("there is no %s %s", wanted, quoted(n.Value)), hint}
	case err != nil:
		return nil, complaint{fmt.Sprintf("cannot be looked at: %v", reason(err)), hint}
	case info.IsDir() != (wanted == "directory"):
		return nil, complaint{fmt.Sprintf("%s is not a %s", quoted(n.Value), wanted), hint}
	}
	return absolute, nil
}

// reason is the cause of a file system error without the path.
func reason(err error) error {
	if pathError, ok := err.(*os.PathError); ok {
		return pathError.Err
	}
	return err
}
