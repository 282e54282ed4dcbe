package runner

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
)

// fingerprintBytes is how much of what was read last is compared before reading
// on, to notice a file that was truncated and has grown beyond that place since.
const fingerprintBytes = 64

// tail reads a file that others append to. NNI 1.9 truncates its file whenever
// another process of the trial imports it: then reading begins anew.
type tail struct {
	path   string
	file   *os.File
	pinned bool // file is read whatever becomes of path
	offset int64
	last   []byte // what stands before offset
}

// next fills buffer with what follows, none where there is nothing new. Anew
// tells that the file was truncated or replaced and data is from its beginning.
func (t *tail) next(buffer []byte) (data []byte, anew bool, err error) {
	size, replaced, err := t.look()
	if err != nil || t.file == nil {
		return nil, false, err
	}
	if size == t.offset && !replaced {
		return nil, false, nil
	}
	if replaced || size < t.offset || t.changed() {
		anew, t.offset, t.last = t.offset > 0, 0, nil
	}
	n, err := t.file.ReadAt(buffer, t.offset)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	t.advance(buffer[:n])
	return buffer[:n], anew, err
}

// look opens the file if need be and returns its size. One that was removed is read
// on, and one that was replaced to its end: who has it open may still write to it.
func (t *tail) look() (size int64, replaced bool, err error) {
	named, err := os.Stat(t.path)
	missing := errors.Is(err, fs.ErrNotExist)
	if err != nil && !missing {
		return 0, false, err
	}
	if t.file != nil {
		opened, err := t.file.Stat()
		if err != nil {
			return 0, false, err
		}
		if missing || t.pinned || os.SameFile(named, opened) || opened.Size() > t.offset {
			return opened.Size(), false, nil
		}
		t.file.Close()
		replaced = true
	}
	if missing {
		return t.offset, false, nil
	}
	t.file, err = os.Open(t.path)
	return named.Size(), replaced, err
}

func (t *tail) changed() bool {
	found := make([]byte, len(t.last))
	_, err := t.file.ReadAt(found, t.offset-int64(len(found)))
	return err == nil && !bytes.Equal(found, t.last)
}

// needed is from where on the file must stay as it is for reading to go on.
func (t *tail) needed() int64 { return t.offset - int64(len(t.last)) }

func (t *tail) advance(data []byte) {
	t.offset += int64(len(data))
	data = data[max(0, len(data)-fingerprintBytes):]
	t.last = append(t.last[max(0, len(t.last)+len(data)-fingerprintBytes):], data...)
}
