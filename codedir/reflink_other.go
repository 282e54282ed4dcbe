//go:build !linux

package codedir

import (
	"errors"
	"os"
)

func reflink(_, _ *os.File) error { return errors.ErrUnsupported }
