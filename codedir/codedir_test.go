package codedir

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// write makes a tree: names ending in a slash are folders, contents starting
// with "-> " make links.
func write(t require.TestingT, dir string, files map[string]string) {
	require.NoError(t, os.MkdirAll(dir, 0o755))
	for name, content := range files {
		at := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(at), 0o755))
		target, isLink := strings.CutPrefix(content, "-> ")
		switch {
		case strings.HasSuffix(name, "/"):
			require.NoError(t, os.MkdirAll(at, 0o755))
		case isLink:
			require.NoError(t, os.Symlink(target, at))
		default:
			require.NoError(t, os.WriteFile(at, []byte(content), 0o644))
		}
	}
}

func sample(t *testing.T) string {
	dir := filepath.Join(t.TempDir(), "code")
	write(t, dir, map[string]string{
		"train.py": "print(1)\n", "lib/model.py": "x = 1\n", "lib/deep/data.bin": strings.Repeat("d", 100_000),
		"empty/": "", "run.sh": "#!/bin/sh\n", "latest": "-> lib/model.py", "lib/up": "-> ../train.py",
		"later": "-> lib/made-by-the-trial", "odd name \n\\\xff": "odd", "zero": "",
	})
	require.NoError(t, os.Chmod(filepath.Join(dir, "run.sh"), 0o755))
	return dir
}

func scanned(t require.TestingT, dir string) *Tree {
	tree, err := Scan(dir, Limits{})
	require.NoError(t, err)
	return tree
}

func hashOf(t require.TestingT, dir string) string {
	hash, err := scanned(t, dir).Hash()
	require.NoError(t, err)
	return hash
}

func packed(t require.TestingT, dir string) []byte {
	var archive bytes.Buffer
	require.NoError(t, scanned(t, dir).Pack(&archive))
	return archive.Bytes()
}

func paths(t *testing.T, dir string) []string {
	var all []string
	for _, e := range scanned(t, dir).entries {
		all = append(all, e.path)
	}
	return all
}

// beside lists what stands next to a folder, itself included.
func beside(t *testing.T, folder string) []string {
	listing, err := os.ReadDir(filepath.Dir(folder))
	require.NoError(t, err)
	var names []string
	for _, item := range listing {
		names = append(names, item.Name())
	}
	return names
}

func TestIgnoreFilesOfBothNamesApplyFromTheirOwnFolder(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{
		".nniignore": "*.log\n/data/\n", ".perennialignore": "!keep.log\n", ".gitignore": "*.py\n",
		"a.log": "", "keep.log": "", "data/x": "", "lib/data/x": "", "lib/.nniignore": "/own\n!a.log\n",
		"lib/a.log": "", "lib/own": "", "own": "", "a.py": "", ".git/config": "", "lib/.git": "gitdir: x",
	})
	require.Equal(t, []string{".gitignore", ".nniignore", ".perennialignore", "a.py", "data", "keep.log",
		"lib", "lib/.nniignore", "lib/a.log", "lib/data", "lib/data/x", "own"}, paths(t, dir))
}

func TestEveryByteIsInTheClassesThatGitPutsItIn(t *testing.T) {
	needGit(t)
	repository := t.TempDir()
	for class := range classes {
		write(t, filepath.Join(repository, class), map[string]string{".gitignore": "x[[:" + class + ":]]"})
		for c := 1; c < 256; c++ {
			if c != '/' {
				write(t, filepath.Join(repository, class), map[string]string{"x" + string([]byte{byte(c)}): ""})
			}
		}
	}
	for class, kept := range gitKeeps(t, repository) {
		require.Equal(t, kept, weKeep(t, filepath.Join(repository, class)), class)
	}
}

func TestPatternsThatMakeBacktrackersHangAreMatchedAtOnce(t *testing.T) {
	pattern := basenameGlob(strings.Repeat("*a", 40) + "b")
	done := make(chan bool)
	go func() { done <- pattern.match(strings.Repeat("a", 250)) }()
	select {
	case matched := <-done:
		require.False(t, matched)
	case <-time.After(20 * time.Second):
		t.Fatal("matching takes exponential time")
	}
}

func FuzzIgnoreFilesNeverPanic(f *testing.F) {
	f.Add("[[:alpha:]]**/x\n!a[b-\n", "a/b")
	f.Fuzz(func(_ *testing.T, text, name string) {
		(&rules{folder: ".", list: parseRules(text)}).exclude(candidate{path: name})
	})
}

func TestAnIgnoreFileThatIsALinkIsRefusedNotSkipped(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"rules": "secret", ".nniignore": "-> rules", "secret": ""})
	_, err := Scan(dir, Limits{})
	require.ErrorContains(t, err, `".nniignore" must be a regular file`)
}

func TestATreeOverItsLimitsNamesTheCountsTheTenLargestAndTheWayOut(t *testing.T) {
	dir := t.TempDir()
	files := map[string]string{"small": ""}
	for i := range 11 {
		files[strings.Repeat("f", i+1)] = strings.Repeat("x", 1024*(i+1))
	}
	write(t, dir, files)
	_, err := Scan(dir, Limits{Files: 11, Bytes: 50 << 10})
	require.ErrorIs(t, err, ErrTooLarge)
	require.ErrorContains(t, err, "12 files (limit 11), 66.0 KiB (limit 50.0 KiB)")
	require.ErrorContains(t, err, ".nniignore")
	require.ErrorContains(t, err, "raise the limits")
	require.ErrorContains(t, err, `11.0 KiB  "fffffffffff"`)
	require.ErrorContains(t, err, `2.0 KiB  "ff"`)
	require.NotContains(t, err.Error(), `"f"`)
}

func TestATreeOfTooManyFilesNamesTheFullestFolders(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"venv/a": "", "venv/lib/b": "", "venv/c": "", "lib/d": "", "e": ""})
	_, err := Scan(dir, Limits{Files: 4})
	require.ErrorContains(t, err, "3 files in \"venv/\"\n      1 files in \"lib/\"\n")
	require.ErrorContains(t, err, "(limit none)")
}

func TestAHugeWrongFolderIsNotCountedToTheEnd(t *testing.T) {
	dir := t.TempDir()
	for i := range 2 * hopelessFactor {
		write(t, dir, map[string]string{strconv.Itoa(i): ""})
	}
	_, err := Scan(dir, Limits{Files: 1})
	require.ErrorContains(t, err, "more than 99 files")
}

func TestATreeExactlyAtItsLimitsIsAccepted(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"a": "12345", "b": "12345", "folder/": ""})
	tree, err := Scan(dir, Limits{Files: 2, Bytes: 10})
	require.NoError(t, err)
	require.Equal(t, 2, tree.Files())
	require.EqualValues(t, 10, tree.Bytes())
}

func TestTheDefaultLimitsAreThoseOfNNI(t *testing.T) {
	require.Equal(t, Limits{Files: 2000, Bytes: 300 * 1024 * 1024}, DefaultLimits())
}

func TestIgnoredFilesDoNotCountAgainstLimits(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{".nniignore": "data/", "data/big": strings.Repeat("x", 10_000)})
	_, err := Scan(dir, Limits{Bytes: 100})
	require.NoError(t, err)
}

func TestALinkThatLeadsNowhereOutsideOrAroundItselfIsRefusedByName(t *testing.T) {
	for name, target := range map[string]string{
		"absolute": "/nowhere/passwd", "upwards": "../nowhere/etc", "through": "inner/../../nowhere", "itself": "..",
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, map[string]string{"inner/": "", "evil-link": "-> " + target})
			_, err := Scan(dir, Limits{})
			require.ErrorIs(t, err, ErrLinkLeaves)
			require.ErrorContains(t, err, `"evil-link" points to "`+target)
		})
	}
}

func TestInThePlaceOfALinkThatLeavesStandsWhatItPointsTo(t *testing.T) {
	top := t.TempDir()
	write(t, top, map[string]string{
		"shared/data/a.csv": "1,2", "shared/data/b.log": "b", "shared/data/deep/c": "c", "shared/data/again": "-> ../model.bin",
		"shared/data/inside": "-> deep/c", "shared/model.bin": "weights",
		"code/train.py": "", "code/data": "-> ../shared/data", "code/model.bin": "-> " + filepath.Join(top, "shared/model.bin"),
		"code/through": "-> data/deep/c", "code/.nniignore": "*.log\nbig/\n", "code/big": "-> ../shared",
	})
	dir := filepath.Join(top, "code")
	require.Equal(t, []string{".nniignore", "big", "data", "data/a.csv", "data/again", "data/deep", "data/deep/c", "data/inside",
		"model.bin", "through", "train.py"}, paths(t, dir))
	require.Equal(t, []string{
		`"data" leads to ` + filepath.Join(top, "shared/data"), `"data/again" leads to ` + filepath.Join(top, "shared/model.bin"),
		`"model.bin" leads to ` + filepath.Join(top, "shared/model.bin"), `"through" leads to ` + filepath.Join(top, "shared/data/deep/c"),
	}, scanned(t, dir).Followed())

	into := filepath.Join(t.TempDir(), "into")
	require.NoError(t, Unpack(bytes.NewReader(packed(t, dir)), into, hashOf(t, dir)))
	for name, content := range map[string]string{"data/a.csv": "1,2", "data/inside": "c", "data/again": "weights", "model.bin": "weights"} {
		found, err := os.ReadFile(filepath.Join(into, name))
		require.NoError(t, err)
		require.Equal(t, content, string(found))
	}
	target, err := os.Readlink(filepath.Join(into, "data/inside"))
	require.NoError(t, err)
	require.Equal(t, "deep/c", target)
}

func TestLinksToFoldersThatLinkToEachOtherAreNotFollowedForEver(t *testing.T) {
	top := t.TempDir()
	write(t, top, map[string]string{"code/a": "-> ../one", "one/two": "-> " + filepath.Join(top, "two"), "two/one": "-> " + filepath.Join(top, "one")})
	_, err := Scan(filepath.Join(top, "code"), Limits{})
	require.ErrorIs(t, err, ErrLinkLeaves)
	require.ErrorContains(t, err, `"a/two/one"`)

	for i := range 20 {
		next := filepath.Join(top, strconv.Itoa(i+1))
		write(t, filepath.Join(top, strconv.Itoa(i)), map[string]string{"x": "-> " + next, "y": "-> " + next})
	}
	write(t, top, map[string]string{"20/": ""})
	_, err = Scan(filepath.Join(top, "0"), Limits{Files: 10})
	require.ErrorIs(t, err, ErrTooLarge)
}

func TestACodeDirectoryMayBeALinkItself(t *testing.T) {
	top := t.TempDir()
	write(t, top, map[string]string{"code/train.py": "", "link": "-> code"})
	require.Equal(t, []string{"train.py"}, paths(t, filepath.Join(top, "link")))
}

func TestNNIsIgnoreFileKnowsNoCaseAndGitsDoes(t *testing.T) {
	files := map[string]string{"UPPER.TXT": "", "lower.txt": "", "Data/X/y": "", "É.É": "", "b1": "", "B2": "", "\xff": ""}
	for name, want := range map[string][]string{
		".nniignore":       {".nniignore", "\xff"},
		".perennialignore": {".perennialignore", "B2", "Data", "Data/X", "Data/X/y", "UPPER.TXT", "É.É", "\xff"},
	} {
		dir := t.TempDir()
		write(t, dir, files)
		write(t, dir, map[string]string{name: "*.txt\ndata/x\n/DATA\né.é\n[a-c][!d]\n"})
		require.Equal(t, want, paths(t, dir))
	}
}

func TestNNIsIgnoreFileLeavesTheFolderThatItEmpties(t *testing.T) {
	for name, want := range map[string][]string{
		".nniignore":       {".nniignore", "data", "lib", "lib/Data"},
		".perennialignore": {".perennialignore", "lib", "lib/Data", "lib/Data/x"},
	} {
		dir := t.TempDir()
		write(t, dir, map[string]string{name: "data/\nlogs\nlogs/\n", "data/sub/x": "", "lib/Data/x": "", "logs/x": ""})
		require.Equal(t, want, paths(t, dir))
	}
}

func TestAnIgnoredLinkMayLeave(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{".nniignore": "data", "data": "-> /mnt/data"})
	require.Equal(t, []string{".nniignore"}, paths(t, dir))
}

func TestLinksInsideAreKeptEvenInCircles(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"a/self": "-> ../a", "x": "-> y", "y": "-> x"})
	require.Equal(t, []string{"a", "a/self", "x", "y"}, paths(t, dir))
}

func TestPipesAndSocketsAreLeftOut(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	require.Empty(t, paths(t, dir))
}

func TestAMissingCodeDirectoryIsNamed(t *testing.T) {
	_, err := Scan(filepath.Join(t.TempDir(), "nowhere"), Limits{})
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, "nowhere")
}

func TestTheSameTreeElsewhereAndLaterGivesTheSameBytes(t *testing.T) {
	one, other := sample(t), sample(t)
	require.NoError(t, os.Chtimes(filepath.Join(other, "train.py"), time.Unix(1, 0), time.Unix(1, 0)))
	require.Equal(t, hashOf(t, one), hashOf(t, other))
	require.Equal(t, packed(t, one), packed(t, other))
}

func TestTheHashOfAKnownTreeNeverChanges(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"a/train.py": "print(1)\n", "link": "-> a/train.py"})
	require.NoError(t, os.Chmod(filepath.Join(dir, "a"), 0o755))
	require.NoError(t, os.Chmod(filepath.Join(dir, "a", "train.py"), 0o644))
	require.Equal(t, "9c3af749b2780c9d83025aeb2d5d9b7cf139d44d77607e67e632ab96deedbf63", hashOf(t, dir))
}

func TestTheHashTellsApartWhatRunsDifferently(t *testing.T) {
	changes := map[string]func(string) error{
		"content": func(d string) error { return os.WriteFile(filepath.Join(d, "train.py"), []byte("print(2)\n"), 0o644) },
		"mode":    func(d string) error { return os.Chmod(filepath.Join(d, "train.py"), 0o755) },
		"name":    func(d string) error { return os.Rename(filepath.Join(d, "zero"), filepath.Join(d, "zero2")) },
		"folder":  func(d string) error { return os.Remove(filepath.Join(d, "empty")) },
		"target": func(d string) error {
			os.Remove(filepath.Join(d, "latest"))
			return os.Symlink("train.py", filepath.Join(d, "latest"))
		},
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			dir := sample(t)
			before := hashOf(t, dir)
			require.NoError(t, change(dir))
			require.NotEqual(t, before, hashOf(t, dir))
		})
	}
}

func TestAFileThatChangesBetweenScanAndPackIsNamed(t *testing.T) {
	changes := map[string]func(string) error{
		"grown":    func(f string) error { return appendTo(f) },
		"cut":      func(f string) error { return os.Truncate(f, 1) },
		"replaced": func(f string) error { return errorsOf(os.Remove(f), os.WriteFile(f, []byte("print(1)\n"), 0o644)) },
		"a pipe":   func(f string) error { return errorsOf(os.Remove(f), unix.Mkfifo(f, 0o644)) },
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			dir := sample(t)
			tree := scanned(t, dir)
			require.NoError(t, change(filepath.Join(dir, "train.py")))
			err := tree.Pack(io.Discard)
			require.ErrorIs(t, err, ErrChanged)
			require.ErrorContains(t, err, `"train.py"`)
		})
	}
}

func appendTo(name string) error {
	f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString("more")
	return errorsOf(err, f.Close())
}

func errorsOf(all ...error) error {
	for _, err := range all {
		if err != nil {
			return err
		}
	}
	return nil
}

func TestAFileRewrittenUnderAnOldTimeBetweenHashAndPackIsNoticed(t *testing.T) {
	dir := sample(t)
	tree, name := scanned(t, dir), filepath.Join(dir, "train.py")
	_, err := tree.Hash()
	require.NoError(t, err)
	info, err := os.Stat(name)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(name, []byte("print(7)\n"), 0o644))
	require.NoError(t, os.Chtimes(name, info.ModTime(), info.ModTime()))
	var archive bytes.Buffer
	require.ErrorIs(t, tree.Pack(&archive), ErrChanged)
	require.Error(t, Unpack(&archive, filepath.Join(t.TempDir(), "into"), tree.hash))
}

func TestWhatIsUnpackedIsWhatWasPacked(t *testing.T) {
	dir := sample(t)
	into := filepath.Join(t.TempDir(), "code", "version")
	require.NoError(t, Unpack(bytes.NewReader(packed(t, dir)), into, hashOf(t, dir)))
	require.Equal(t, hashOf(t, dir), hashOf(t, into))
	require.Equal(t, []string{"version"}, beside(t, into))
}

func TestAnyTreeSurvivesPackingUnpackingAndCopying(t *testing.T) {
	name := rapid.StringMatching(`[a-c .é]{0,3}[a-c]`)
	rapid.Check(t, func(r *rapid.T) {
		top, err := os.MkdirTemp("", "codedir")
		require.NoError(r, err)
		defer os.RemoveAll(top)
		files := map[string]string{}
		for _, folder := range rapid.SliceOfNDistinct(name, 0, 4, rapid.ID).Draw(r, "folders") {
			for file, content := range rapid.MapOfN(name, rapid.String(), 0, 3).Draw(r, "files") {
				files[folder+".d/"+file] = content
			}
		}
		write(r, filepath.Join(top, "code"), files)
		hash := hashOf(r, filepath.Join(top, "code"))
		into := filepath.Join(top, "into")
		require.NoError(r, Unpack(bytes.NewReader(packed(r, filepath.Join(top, "code"))), into, hash))
		require.NoError(r, Copy(context.Background(), into, filepath.Join(top, "copy")))
		require.Equal(r, hash, hashOf(r, into))
		require.Equal(r, hash, hashOf(r, filepath.Join(top, "copy")))
	})
}

func TestASnapshotIsMadeOnceAndNamedByItsHash(t *testing.T) {
	dir, store := sample(t), filepath.Join(t.TempDir(), "code")
	first, err := scanned(t, dir).Snapshot(store)
	require.NoError(t, err)
	require.Equal(t, filepath.Join(store, hashOf(t, dir)), first)
	require.Equal(t, hashOf(t, dir), hashOf(t, first))
	before, err := os.Stat(first)
	require.NoError(t, err)
	_, err = scanned(t, dir).Snapshot(store)
	require.NoError(t, err)
	after, err := os.Stat(first)
	require.NoError(t, err)
	require.True(t, os.SameFile(before, after))
}

func TestAnArchiveWithAnotherHashLeavesNothing(t *testing.T) {
	into := filepath.Join(t.TempDir(), "into")
	err := Unpack(bytes.NewReader(packed(t, sample(t))), into, strings.Repeat("0", 64))
	require.ErrorIs(t, err, ErrDamaged)
	require.Empty(t, beside(t, into))
}

func TestAnArchiveCutAnywhereLeavesNothing(t *testing.T) {
	dir := sample(t)
	archive, hash := packed(t, dir), hashOf(t, dir)
	into := filepath.Join(t.TempDir(), "into")
	for cut := 0; cut < len(archive)-40; cut += 37 {
		require.ErrorIs(t, Unpack(bytes.NewReader(archive[:cut]), into, hash), ErrDamaged, "cut at %d", cut)
		require.Empty(t, beside(t, into))
	}
}

func TestAnArchiveWithAnyBitFlippedUnpacksRightOrNotAtAll(t *testing.T) {
	dir := sample(t)
	archive, hash := packed(t, dir), hashOf(t, dir)
	parent := t.TempDir()
	for at := 0; at < len(archive); at += 29 {
		flipped := bytes.Clone(archive)
		flipped[at] ^= 1 << (at % 8)
		into := filepath.Join(parent, "into")
		if Unpack(bytes.NewReader(flipped), into, hash) == nil {
			require.Equal(t, hash, hashOf(t, into))
			require.NoError(t, os.RemoveAll(into))
		}
		require.Empty(t, beside(t, into))
	}
}

// evilTar is an archive that Pack would not write.
func evilTar(t *testing.T, headers ...tar.Header) io.Reader {
	var archive bytes.Buffer
	compressed := gzip.NewWriter(&archive)
	w := tar.NewWriter(compressed)
	for _, h := range headers {
		h.Mode = 0o644
		require.NoError(t, w.WriteHeader(&h))
		_, err := w.Write(bytes.Repeat([]byte("x"), int(h.Size)))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	require.NoError(t, compressed.Close())
	return &archive
}

func TestHostileArchivesWriteNothingAnywhere(t *testing.T) {
	file := func(name string) tar.Header { return tar.Header{Name: name, Typeflag: tar.TypeReg, Size: 1} }
	link := func(name, target string) tar.Header {
		return tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: target}
	}
	folder := func(name string) tar.Header { return tar.Header{Name: name, Typeflag: tar.TypeDir} }
	for name, headers := range map[string][]tar.Header{
		"absolute name":     {file("/evil")},
		"upwards":           {file("../evil")},
		"hidden upwards":    {folder("a/"), file("a/../../evil")},
		"the top itself":    {folder("./")},
		"absolute link":     {link("evil", "/etc/passwd")},
		"link upwards":      {link("evil", "../..")},
		"write through":     {folder("a/"), link("b", "a"), file("b/evil")},
		"link by link":      {folder("a/"), link("a/top", ".."), link("out", "a/top/../x")},
		"twice":             {file("a"), file("a")},
		"unsorted":          {file("b"), file("a")},
		"file as folder":    {file("a"), file("a/evil")},
		"hard link":         {file("a"), {Name: "b", Typeflag: tar.TypeLink, Linkname: "/etc/passwd"}},
		"device":            {{Name: "evil", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3}},
		"pipe":              {{Name: "evil", Typeflag: tar.TypeFifo}},
		"folder not listed": {file("a/evil")},
	} {
		t.Run(name, func(t *testing.T) {
			into := filepath.Join(t.TempDir(), "deep", "into")
			require.Error(t, Unpack(evilTar(t, headers...), into, ""))
			require.Empty(t, beside(t, into))
			require.Equal(t, []string{"deep"}, beside(t, filepath.Dir(into)))
		})
	}
}

func TestAHostileLinkIsRefusedEvenWithTheRightHash(t *testing.T) {
	d := newDigest()
	d.link("evil", "../..")
	into := filepath.Join(t.TempDir(), "into")
	archive := evilTar(t, tar.Header{Name: "evil", Typeflag: tar.TypeSymlink, Linkname: "../.."})
	require.ErrorIs(t, Unpack(archive, into, d.text()), ErrLinkLeaves)
	require.Empty(t, beside(t, into))
}

func TestAnArchiveStopsAtTheLimits(t *testing.T) {
	big := func(name string) tar.Header { return tar.Header{Name: name, Typeflag: tar.TypeReg, Size: 1 << 20} }
	into := filepath.Join(t.TempDir(), "into")
	err := Limits{Bytes: 1<<20 + 1}.Unpack(evilTar(t, big("a"), big("b")), into, "")
	require.ErrorIs(t, err, ErrTooLarge)
	err = Limits{Files: 1}.Unpack(evilTar(t, big("a"), big("b")), into, "")
	require.ErrorIs(t, err, ErrTooLarge)
	require.Empty(t, beside(t, into))
}

func TestAFolderThatStandsThereIsLeftAlone(t *testing.T) {
	into := filepath.Join(t.TempDir(), "into")
	write(t, into, map[string]string{"mine": "x"})
	require.NoError(t, Unpack(strings.NewReader("not read"), into, "any"))
	require.NoError(t, Copy(context.Background(), sample(t), into))
	require.Equal(t, []string{"mine"}, paths(t, into))
}

func TestAFileInTheWayIsNamed(t *testing.T) {
	into := filepath.Join(t.TempDir(), "into")
	require.NoError(t, os.WriteFile(into, nil, 0o600))
	require.ErrorContains(t, Unpack(strings.NewReader(""), into, ""), "in the way")
}
