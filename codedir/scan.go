package codedir

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
)

// ignoreFile is one that is looked for in every folder.
type ignoreFile struct {
	name  string
	parse func(text string) []rule
}

// ignoreFiles are read in this order: in one folder the later one wins.
var ignoreFiles = []ignoreFile{{".nniignore", nniRules}, {".perennialignore", parseRules}}

// maxIgnoreFile bounds what is parsed as rules, in bytes.
const maxIgnoreFile = 1 << 20

// Scan lists what belongs to the tree in dir.
//
// .nniignore and .perennialignore hold git's ignore patterns, in any folder,
// relative to their own; the nearer file wins, and nothing in an excluded
// folder can come back. As with NNI, in .nniignore upper and lower case are the
// same, and a folder that is excluded as "data/" stays as an empty one.
//
// Links that stay inside dir are kept as links and never followed. In the place of
// others stands what they point to, as with NNI 2.x; Followed lists them.
//
// It fails with ErrTooLarge beyond limits, naming the largest files, and with
// ErrLinkLeaves for a link out of dir to nothing, or to a folder around itself.
func Scan(dir string, limits Limits) (*Tree, error) {
	s := scanner{ignoreFiles: ignoreFiles, census: census{limits: limits}}
	return s.scan(dir)
}

type scanner struct {
	ignoreFiles []ignoreFile
	census      census
	entries     []entry
	followed    []string
}

// source is a folder that is being listed with all in it: the tree's own, or one
// that a link led to.
type source struct {
	root   *os.Root
	real   string // its path without links
	at     string // where it is in the tree; "." is the top
	within *source
}

// inner is the path in the source of what is called name in the tree.
func (s *source) inner(name string) string {
	inner, err := filepath.Rel(s.at, name)
	if err != nil {
		return name // cannot be: both are relative
	}
	return inner
}

// around reports whether the folder called real holds this source or one that
// it was come to from.
func (s *source) around(real string) bool {
	for ; s != nil; s = s.within {
		if within(real, s.real) {
			return true
		}
	}
	return false
}

func (s *scanner) scan(dir string) (*Tree, error) {
	real, err := filepath.EvalSymlinks(dir)
	if err == nil {
		real, err = filepath.Abs(real)
	}
	if err != nil {
		return nil, fmt.Errorf("code directory: %w", err)
	}
	if err := s.enter(&source{real: real, at: "."}, nil); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	if err := s.census.verdict(dir); err != nil {
		return nil, err
	}
	slices.SortFunc(s.entries, func(a, b entry) int { return cmp.Compare(a.path, b.path) })
	return &Tree{entries: s.entries, files: s.census.files, bytes: s.census.bytes, followed: s.followed}, nil
}

func (s *scanner) enter(from *source, outer *rules) error {
	root, err := os.OpenRoot(from.real)
	if err != nil {
		return err
	}
	defer root.Close()
	from.root = root
	return s.walk(from, from.at, outer)
}

func (s *scanner) walk(from *source, folder string, outer *rules) error {
	listing, err := list(from.root, from.inner(folder))
	if err != nil {
		return err
	}
	here, err := s.rulesIn(from, folder, listing)
	if err != nil {
		return err
	}
	here.outer = outer
	for _, item := range listing {
		if s.census.hopeless() {
			return nil
		}
		if err := s.visit(from, path.Join(folder, item.Name()), item, here); err != nil {
			return err
		}
	}
	return nil
}

// list reads a folder in the order of names.
func list(root *os.Root, folder string) ([]fs.DirEntry, error) {
	opened, err := root.Open(folder)
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	listing, err := opened.ReadDir(-1)
	slices.SortFunc(listing, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	return listing, err
}

func (s *scanner) rulesIn(from *source, folder string, listing []fs.DirEntry) (*rules, error) {
	here := &rules{folder: folder}
	for _, file := range s.ignoreFiles {
		if !slices.ContainsFunc(listing, func(d fs.DirEntry) bool { return d.Name() == file.name && !d.IsDir() }) {
			continue
		}
		text, err := readIgnoreFile(from.root, path.Join(from.inner(folder), file.name))
		if err != nil {
			return nil, err
		}
		here.list = append(here.list, file.parse(text)...)
	}
	return here, nil
}

// readIgnoreFile refuses what is no regular file: rules that silently do not
// apply would send what was to stay.
func readIgnoreFile(root *os.Root, name string) (string, error) {
	info, err := root.Lstat(name)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() || info.Size() > maxIgnoreFile {
		return "", fmt.Errorf("ignore file %q must be a regular file of at most 1 MiB", name)
	}
	text, err := root.ReadFile(name)
	return string(text), err
}

func (s *scanner) visit(from *source, name string, item fs.DirEntry, here *rules) error {
	if item.Name() == ".git" {
		return nil
	}
	info, err := from.root.Lstat(from.inner(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // gone since the folder was listed
	}
	if err != nil {
		return err
	}
	if info.IsDir() {
		return s.folder(from, name, info, here)
	}
	if here.exclude(candidate{path: name}) != nil {
		return nil
	}
	switch info.Mode().Type() {
	case fs.ModeSymlink:
		return s.link(from, name, info, here)
	case 0:
		s.keep(entry{path: name, origin: from.real, inner: from.inner(name), info: info})
	}
	return nil
}

func (s *scanner) folder(from *source, name string, info fs.FileInfo, here *rules) error {
	by := here.exclude(candidate{path: name, folder: true})
	if by == nil || here.empties(by, name) {
		s.entries = append(s.entries, entry{path: name, origin: from.real, inner: from.inner(name), info: info})
	}
	switch {
	case by != nil:
		return nil
	case from.at == name:
		s.census.count(sized{path: name}) // folders of links to folders can grow without end
		s.followed = append(s.followed, leads(name, from.real))
		return s.enter(from, here)
	}
	return s.walk(from, name, here)
}

func (s *scanner) link(from *source, name string, info fs.FileInfo, here *rules) error {
	inner := from.inner(name)
	target, err := from.root.Readlink(inner)
	if err != nil {
		return err
	}
	if leaves(from.root, inner, target) {
		return s.follow(from, name, target, here)
	}
	s.keep(entry{path: name, origin: from.real, inner: inner, info: info, target: target})
	return nil
}

// follow puts what a link points to in its place.
func (s *scanner) follow(from *source, name, target string, here *rules) error {
	real, err := filepath.EvalSymlinks(filepath.Join(from.real, from.inner(name)))
	if err != nil {
		return fmt.Errorf("%w, and cannot be copied: %q points to %q: %w; mend it, or exclude it in .nniignore",
			ErrLinkLeaves, name, target, err)
	}
	info, err := os.Stat(real)
	if err != nil {
		return err
	}
	if info.IsDir() && from.around(real) {
		return fmt.Errorf("%w, to a folder around itself: %q points to %q; exclude it in .nniignore", ErrLinkLeaves, name, target)
	}
	switch {
	case info.IsDir():
		return s.folder(&source{real: real, at: name, within: from}, name, info, here)
	case info.Mode().IsRegular():
		s.followed = append(s.followed, leads(name, real))
		s.keep(entry{path: name, origin: filepath.Dir(real), inner: filepath.Base(real), info: info})
	}
	return nil
}

func leads(name, real string) string { return fmt.Sprintf("%q leads to %s", name, real) }

// keep drops entries once the tree is refused anyway, so that scanning the
// wrong folder costs no memory.
func (s *scanner) keep(e entry) {
	s.census.count(sized{e.path, e.info.Size()})
	if s.census.within() {
		s.entries = append(s.entries, e)
	}
}
