// Package codedir turns a folder of code into a snapshot that is named by its
// content: it decides which files belong to it, keeps it within limits, packs
// it into an archive that is the same bytes every time, and unpacks that
// archive so that a folder is either whole or not there at all.
//
// What belongs to a tree: regular files, folders and links; never anything called
// .git, and neither sockets, pipes nor devices. A link whose target stays inside is
// kept as one; in the place of any other stands what it points to. Ignore files
// follow NNI's rules (.nniignore) and git's (.perennialignore); see Scan.
//
// The runner unpacks and copies with it on hosts far away, so it needs nothing but
// the standard library and golang.org/x/sys.
package codedir

import (
	"errors"
	"io/fs"
)

// What can be wrong, for errors.Is. The texts around them name the file and
// the way out.
var (
	// ErrTooLarge means more files or bytes than the limits allow.
	ErrTooLarge = errors.New("code directory is too large")
	// ErrLinkLeaves means a link whose target is not inside the tree, and cannot
	// be copied into it either.
	ErrLinkLeaves = errors.New("link leaves the code directory")
	// ErrChanged means that a file was written while it was read; trying again
	// when nothing writes there helps.
	ErrChanged = errors.New("code directory changed while it was read")
	// ErrDamaged means an archive that is not what its hash says, or that no
	// Pack could have written.
	ErrDamaged = errors.New("code archive is damaged")
)

// Limits bounds a tree. A zero field sets no limit.
type Limits struct {
	Files int   // files and links; folders do not count
	Bytes int64 // sizes of the files, a link counted as the length of its target
}

// DefaultLimits are NNI's: 2,000 files and 300 MiB.
func DefaultLimits() Limits {
	return Limits{Files: 2000, Bytes: 300 << 20}
}

// Tree is what Scan found. It remembers names, sizes and times; contents are
// read when they are needed. It must not be used by two goroutines at once.
type Tree struct {
	entries  []entry // sorted by path, byte by byte
	files    int
	bytes    int64
	followed []string
	hash     string // empty until Hash has read everything
}

// Files is how many files and links the tree holds.
func (t *Tree) Files() int { return t.files }

// Bytes is the sum that Limits.Bytes bounds.
func (t *Tree) Bytes() int64 { return t.bytes }

// Followed lists the links that lead out of the tree, in the order of their names,
// each with where it leads to. What stands there is in the tree in their place.
func (t *Tree) Followed() []string { return t.followed }

type entry struct {
	path   string      // relative, with slashes
	origin string      // the folder it is read from: the tree's own, or one that a link led to
	inner  string      // its path in there
	info   fs.FileInfo // as Scan found it
	target string      // of a link
	sum    string      // SHA-256 of a file's content, in hex, once it was read
}

func (e *entry) isFile() bool { return e.info.Mode().IsRegular() }
