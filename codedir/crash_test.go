package codedir

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// unpackVariable makes the test binary a process that unpacks its standard
// input to the place the variable names.
const unpackVariable = "CODEDIR_TEST_UNPACK"

func TestMain(m *testing.M) {
	into, hash, isChild := strings.Cut(os.Getenv(unpackVariable), "|")
	if !isChild {
		os.Exit(m.Run())
	}
	if err := Unpack(os.Stdin, into, hash); err != nil {
		os.Stderr.WriteString(err.Error())
		os.Exit(1)
	}
	os.Exit(0)
}

// halfUnpacked starts an unpacking process, feeds it half of the archive and
// returns once it has written something.
func halfUnpacked(t *testing.T, archive []byte, into, hash string) (*exec.Cmd, io.WriteCloser) {
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), unpackVariable+"="+into+"|"+hash)
	command.Stderr = os.Stderr
	in, err := command.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	_, err = in.Write(archive[:len(archive)/2])
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		written, _ := filepath.Glob(into + stagingMark + "*/*")
		return len(written) > 0
	}, 30*time.Second, 5*time.Millisecond)
	return command, in
}

// noise does not compress, so that half an archive holds whole files.
func noise(t *testing.T) string {
	dir := filepath.Join(t.TempDir(), "code")
	content := make([]byte, 200_000)
	for name := range strings.SplitSeq("a b c d e f g h", " ") {
		for i := range content {
			content[i] = byte(i*i>>3) ^ byte(i*7919>>5) ^ name[0]
		}
		write(t, dir, map[string]string{name: string(content)})
	}
	return dir
}

func TestAKilledUnpackerLeavesNothingInPlaceAndTheNextOneCleansUp(t *testing.T) {
	dir := noise(t)
	archive, hash := packed(t, dir), hashOf(t, dir)
	into := filepath.Join(t.TempDir(), hash)
	command, _ := halfUnpacked(t, archive, into, hash)
	require.NoError(t, command.Process.Kill())
	command.Wait()
	require.NoDirExists(t, into)
	require.Len(t, beside(t, into), 1, "the killed one's leftover")

	require.NoError(t, Unpack(bytes.NewReader(archive), into, hash))
	require.Equal(t, []string{hash}, beside(t, into))
	require.Equal(t, hash, hashOf(t, into))
}

func TestAnUnpackerKilledAtAnyMomentLeavesNothingOrAll(t *testing.T) {
	dir := noise(t)
	archive, hash := packed(t, dir), hashOf(t, dir)
	into := filepath.Join(t.TempDir(), hash)
	for round := range 24 {
		command := exec.Command(os.Args[0])
		command.Env = append(os.Environ(), unpackVariable+"="+into+"|"+hash)
		command.Stdin = bytes.NewReader(archive)
		require.NoError(t, command.Start())
		killing := time.AfterFunc(time.Duration(round)*2*time.Millisecond, func() { command.Process.Kill() })
		command.Wait()
		killing.Stop()
		if there, err := isFolder(into); there {
			require.NoError(t, err)
			require.Equal(t, hash, hashOf(t, into), "round %d", round)
			require.NoError(t, os.RemoveAll(into))
		}
	}
	require.NoError(t, Unpack(bytes.NewReader(archive), into, hash))
	require.Equal(t, []string{hash}, beside(t, into))
}

func TestALivingUnpackerIsNotSweptByAFasterOne(t *testing.T) {
	dir := noise(t)
	archive, hash := packed(t, dir), hashOf(t, dir)
	into := filepath.Join(t.TempDir(), hash)
	slow, in := halfUnpacked(t, archive, into, hash)
	require.NoError(t, Unpack(bytes.NewReader(archive), into, hash))
	require.Len(t, beside(t, into), 2, "the slow one's folder is still there")

	_, err := in.Write(archive[len(archive)/2:])
	require.NoError(t, err)
	require.NoError(t, in.Close())
	require.NoError(t, slow.Wait())
	require.Equal(t, []string{hash}, beside(t, into))
	require.Equal(t, hash, hashOf(t, into))
}

func TestManyUnpackersOfOneHashAllSucceed(t *testing.T) {
	dir := sample(t)
	archive, hash := packed(t, dir), hashOf(t, dir)
	into := filepath.Join(t.TempDir(), hash)
	failures := make([]error, 12)
	var all sync.WaitGroup
	for i := range failures {
		all.Go(func() { failures[i] = Unpack(bytes.NewReader(archive), into, hash) })
	}
	all.Wait()
	for _, err := range failures {
		require.NoError(t, err)
	}
	require.Equal(t, []string{hash}, beside(t, into))
	require.Equal(t, hash, hashOf(t, into))
}

func TestACopyHasModesTimesAndLinksAndIsItsOwn(t *testing.T) {
	from, to := sample(t), filepath.Join(t.TempDir(), "trial", "code")
	when := time.Unix(1_700_000_000, 0)
	require.NoError(t, os.Chtimes(filepath.Join(from, "train.py"), when, when))
	before := hashOf(t, from)
	require.NoError(t, Copy(context.Background(), from, to))
	require.Equal(t, before, hashOf(t, to))
	info, err := os.Stat(filepath.Join(to, "train.py"))
	require.NoError(t, err)
	require.True(t, when.Equal(info.ModTime()))
	require.NoError(t, os.WriteFile(filepath.Join(to, "train.py"), []byte("changed"), 0o644))
	require.Equal(t, before, hashOf(t, from))
}

func TestACancelledCopyLeavesNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	to := filepath.Join(t.TempDir(), "to")
	require.ErrorIs(t, Copy(ctx, sample(t), to), context.Canceled)
	require.Empty(t, beside(t, to))
}

func TestAFolderIsNotCopiedIntoItself(t *testing.T) {
	from := sample(t)
	require.ErrorContains(t, Copy(context.Background(), from, filepath.Join(from, "lib", "to")), "into itself")
}

func TestFoldersThatForbidWritingAreUnpackedCopiedAndSwept(t *testing.T) {
	dir := sample(t)
	require.NoError(t, os.Chmod(filepath.Join(dir, "lib"), 0o555))
	t.Cleanup(func() { os.Chmod(filepath.Join(dir, "lib"), 0o755) })
	into := filepath.Join(t.TempDir(), "into")
	require.NoError(t, Unpack(bytes.NewReader(packed(t, dir)), into, hashOf(t, dir)))
	t.Cleanup(func() { os.Chmod(filepath.Join(into, "lib"), 0o755) })
	require.Equal(t, hashOf(t, dir), hashOf(t, into))

	leftover := into + stagingMark + "killed"
	require.NoError(t, os.Rename(into, leftover))
	require.NoError(t, Unpack(bytes.NewReader(packed(t, dir)), into, hashOf(t, dir)))
	require.Equal(t, []string{"into"}, beside(t, into))
}
