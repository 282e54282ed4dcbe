package uaitrain

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	ufile "github.com/ufilesdk-dev/ufile-gosdk"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/internal/service"
	"github.com/perennial-ml/perennial/runner/rundir"
)

// object is a file in a bucket.
type object struct {
	key  string
	size int64
}

// objects is how many a list brings.
const objects = 1000

// bucket is the section's bucket of UFile.
type bucket struct{ *client }

// call does something with the bucket. What is refused is told by its HTTP status.
func (b bucket) call(ctx context.Context, verb string, do func(*ufile.UFileRequest) error) error {
	request, err := ufile.NewFileRequest(&ufile.Config{
		PublicKey: b.PublicKey, PrivateKey: b.PrivateKey, BucketName: b.bucketName(), FileHost: b.bucketHost(), Endpoint: b.bucketAddress(),
	}, b.http)
	if err != nil {
		return platforms.Errorf(platforms.Invalid, verb, "ufilePath of the section: %w", err)
	}
	request.Context = ctx
	if err = do(request); err == nil {
		return nil
	}
	var local *os.PathError
	if errors.As(err, &local) {
		return platforms.Errorf(platforms.Transient, verb, "%w", err)
	}
	if status := request.LastResponseStatus; status >= 300 {
		at := &http.Request{URL: &url.URL{Host: b.bucketHost()}}
		answer := &http.Response{StatusCode: status, Status: fmt.Sprintf("%d %s", status, http.StatusText(status)), Header: request.LastResponseHeader, Request: at}
		return service.Fault(verb, answer, b.clean(string(request.LastResponseBody)), renew)
	}
	return service.Unreachable(verb, err)
}

// put brings a file into the bucket, unless one of that name and size is there: names
// are those of contents.
func (b bucket) put(ctx context.Context, path, key string) error {
	info, err := os.Stat(path)
	if err != nil {
		return platforms.Errorf(platforms.Transient, "prepare", "%w", err)
	}
	there, err := b.list(ctx, "prepare", key)
	if err != nil || len(there) > 0 && there[0] == (object{key, info.Size()}) {
		return err
	}
	return b.call(ctx, "prepare", func(r *ufile.UFileRequest) error { return r.PutFile(path, key, "application/octet-stream") })
}

// list returns the objects whose names begin so.
func (b bucket) list(ctx context.Context, verb, prefix string) (all []object, err error) {
	for marker := ""; ; {
		var told ufile.FileListResponse
		err := b.call(ctx, verb, func(r *ufile.UFileRequest) (err error) {
			told, err = r.PrefixFileList(prefix, marker, objects)
			return err
		})
		if err != nil {
			return nil, err
		}
		for _, one := range told.DataSet {
			all = append(all, object{one.FileName, int64(one.Size)})
		}
		if marker = told.NextMarker; marker == "" || len(told.DataSet) == 0 {
			return all, nil
		}
	}
}

// get brings an object into a file, as a whole; count is told of its bytes as they come.
func (b bucket) get(ctx context.Context, from object, path string, count func(int)) error {
	if err := rundir.MakeDirectory(filepath.Dir(path)); err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	err = b.call(ctx, "poll", func(r *ufile.UFileRequest) error {
		return r.DownloadFile(counted{file, count}, from.key)
	})
	err = errors.Join(err, file.Sync(), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		os.Remove(file.Name())
	}
	return err
}

// counted tells of what is written.
type counted struct {
	io.Writer
	count func(int)
}

func (c counted) Write(data []byte) (int, error) {
	n, err := c.Writer.Write(data)
	c.count(n)
	return n, err
}

// clear removes all objects whose names begin so.
func (b bucket) clear(ctx context.Context, verb, prefix string) error {
	all, err := b.list(ctx, verb, prefix)
	if err != nil {
		return err
	}
	for _, one := range all {
		gone := b.call(ctx, verb, func(r *ufile.UFileRequest) error { return r.DeleteFile(one.key) })
		if platforms.CodeOf(gone) != platforms.NotFound {
			err = errors.Join(err, gone)
		}
	}
	return err
}

// below is the path in a directory of an object whose name begins so; empty where it
// would lead out of it.
func below(directory, prefix, key string) string {
	rest := strings.TrimPrefix(key, prefix)
	if rest == "" || strings.HasSuffix(rest, "/") || !filepath.IsLocal(rest) {
		return ""
	}
	return filepath.Join(directory, rest)
}
