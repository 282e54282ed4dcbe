package codec

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
)

// sealedWith is the metadata of an encrypted payload as protobuf writes it: the
// name, then the id as field 2 with a length of 17 bytes.
var sealedWith = regexp.MustCompile(metadataID + "\x12\x11([0-9]{8}-[a-z0-9]{8})")

const (
	window  = 1 << 20
	overlap = 64 // more than what sealedWith matches
)

// idsIn returns the ids of the keys that payloads in a Temporal database's
// directory are encrypted with, the oldest first. The files are searched as bytes:
// a database stores payloads as they are.
func idsIn(directory string) ([]string, error) {
	found := map[string]bool{}
	for _, name := range []string{"temporal.db", "temporal.db-wal"} {
		err := search(filepath.Join(directory, name), found)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return slices.Sorted(maps.Keys(found)), nil
}

func search(path string, found map[string]bool) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	reader := bufio.NewReaderSize(file, window)
	for {
		part, err := reader.Peek(window)
		for _, match := range sealedWith.FindAllSubmatch(part, -1) {
			found[string(match[1])] = true
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if _, err := reader.Discard(window - overlap); err != nil {
			return err
		}
	}
}
