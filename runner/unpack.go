package runner

import (
	"errors"
	"io"
	"os"

	"github.com/perennial-ml/perennial/codedir"
)

// Unpack puts the code of that hash at a directory, out of the parts of its archive.
// One that is there already is left as it is.
func Unpack(directory, hash string, parts []string) (failed error) {
	var readers []io.Reader
	for _, path := range parts {
		part, err := os.Open(path)
		if err != nil {
			return err
		}
		defer func() { failed = errors.Join(failed, part.Close()) }()
		readers = append(readers, part)
	}
	return codedir.Unpack(io.MultiReader(readers...), directory, hash)
}
