package codedir

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
)

// ignoreFiles are read in this order: in one folder the later one wins.
var ignoreFiles = []string{".nniignore", ".perennialignore"}

// maxIgnoreFile bounds what is parsed as rules, in bytes.
const maxIgnoreFile = 1 << 20

// Scan lists what belongs to the tree in dir.
//
// .nniignore and .perennialignore hold git's ignore patterns, in any folder,
// relative to their own; the nearer file wins, and nothing in an excluded
// folder can come back. Links are kept as links and never followed.
//
// It fails with ErrTooLarge beyond limits, naming the largest files, and with
// ErrLinkLeaves for a link to anywhere outside dir.
func Scan(dir string, limits Limits) (*Tree, error) {
	s := scanner{ignoreFiles: ignoreFiles, census: census{limits: limits}}
	return s.scan(dir)
}

type scanner struct {
	root        *os.Root
	ignoreFiles []string
	census      census
	entries     []entry
}

func (s *scanner) scan(dir string) (*Tree, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("code directory: %w", err)
	}
	defer root.Close()
	s.root = root
	if err := s.walk(".", nil); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	if err := s.census.verdict(dir); err != nil {
		return nil, err
	}
	slices.SortFunc(s.entries, func(a, b entry) int { return cmp.Compare(a.path, b.path) })
	return &Tree{directory: dir, entries: s.entries, files: s.census.files, bytes: s.census.bytes}, nil
}

func (s *scanner) walk(folder string, outer *rules) error {
	listing, err := list(s.root, folder)
	if err != nil {
		return err
	}
	here, err := s.rulesIn(folder, listing)
	if err != nil {
		return err
	}
	here.outer = outer
	for _, item := range listing {
		if s.census.hopeless() {
			return nil
		}
		if err := s.visit(path.Join(folder, item.Name()), item, here); err != nil {
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

func (s *scanner) rulesIn(folder string, listing []fs.DirEntry) (*rules, error) {
	here := &rules{folder: folder}
	for _, name := range s.ignoreFiles {
		if !slices.ContainsFunc(listing, func(d fs.DirEntry) bool { return d.Name() == name && !d.IsDir() }) {
			continue
		}
		text, err := s.readIgnoreFile(path.Join(folder, name))
		if err != nil {
			return nil, err
		}
		here.list = append(here.list, parseRules(text)...)
	}
	return here, nil
}

// readIgnoreFile refuses what is no regular file: rules that silently do not
// apply would send what was to stay.
func (s *scanner) readIgnoreFile(name string) (string, error) {
	info, err := s.root.Lstat(name)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() || info.Size() > maxIgnoreFile {
		return "", fmt.Errorf("ignore file %q must be a regular file of at most 1 MiB", name)
	}
	text, err := s.root.ReadFile(name)
	return string(text), err
}

func (s *scanner) visit(name string, item fs.DirEntry, here *rules) error {
	if item.Name() == ".git" || here.exclude(candidate{path: name, folder: item.IsDir()}) {
		return nil
	}
	info, err := s.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // gone since the folder was listed
	}
	if err != nil {
		return err
	}
	switch info.Mode().Type() {
	case fs.ModeDir:
		s.entries = append(s.entries, entry{path: name, info: info})
		return s.walk(name, here)
	case fs.ModeSymlink:
		return s.link(name, info)
	case 0:
		s.keep(entry{path: name, info: info})
	}
	return nil
}

func (s *scanner) link(name string, info fs.FileInfo) error {
	target, err := s.root.Readlink(name)
	if err != nil {
		return err
	}
	if leaves(s.root, name, target) {
		return fmt.Errorf("%w: %q points to %q; make it relative and inside, put the files there, or exclude it in .nniignore",
			ErrLinkLeaves, name, target)
	}
	s.keep(entry{path: name, info: info, target: target})
	return nil
}

// keep drops entries once the tree is refused anyway, so that scanning the
// wrong folder costs no memory.
func (s *scanner) keep(e entry) {
	s.census.count(sized{e.path, e.info.Size()})
	if s.census.within() {
		s.entries = append(s.entries, e)
	}
}
