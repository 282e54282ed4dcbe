package host

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func Test_the_state_directory_is_where_the_environment_says(t *testing.T) {
	for want, environment := range map[string]map[string]string{
		"/a":                               {"PERENNIAL_HOME": "/a", "XDG_STATE_HOME": "/b", "HOME": "/c"},
		"/b/perennial":                     {"XDG_STATE_HOME": "/b", "HOME": "/c"},
		"/c/.local/state/perennial":        {"HOME": "/c"},
		"/home/ada/.local/state/perennial": {"XDG_STATE_HOME": "relative is ignored", "HOME": "/home/ada"},
	} {
		got, err := Directory(func(name string) string { return environment[name] })
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err := Directory(func(string) string { return "" })
	require.ErrorContains(t, err, "neither PERENNIAL_HOME nor HOME is set")
}

func opened(t *testing.T) Dir {
	dir, err := Open(filepath.Join(t.TempDir(), "state"))
	require.NoError(t, err)
	t.Cleanup(func() { awaitNobodyIn(t, dir) })
	return dir
}

// awaitNobodyIn waits for hosts that were killed, or lost a race, to be gone.
func awaitNobodyIn(t *testing.T, dir Dir) {
	require.Eventually(t, func() bool {
		places, err := filepath.Glob("/proc/[0-9]*/cwd")
		require.NoError(t, err)
		for _, place := range places {
			if at, err := os.Readlink(place); err == nil && at == dir.Path() {
				return false
			}
		}
		return true
	}, 10*time.Second, 5*time.Millisecond)
}

func Test_everything_in_the_state_directory_is_private(t *testing.T) {
	dir := opened(t)
	_, err := dir.Token()
	require.NoError(t, err)
	require.NoError(t, filepath.WalkDir(dir.Path(), func(path string, entry os.DirEntry, err error) error {
		require.NoError(t, err)
		info, err := entry.Info()
		require.NoError(t, err)
		require.Zero(t, info.Mode().Perm()&0o077, path)
		return nil
	}))
}

func Test_a_network_file_system_is_refused_before_anything_is_made(t *testing.T) {
	for _, kind := range []string{"nfs", "cifs", "smb", "smb2", "lustre", "ceph", "gpfs", "9p", "fuse.sshfs", "fuse.glusterfs", "fuse.ceph-fuse"} {
		parent := t.TempDir()
		_, err := open(filepath.Join(parent, "state", "perennial"), func(path string) (string, error) {
			require.Equal(t, parent, path, "the nearest directory that exists decides")
			return kind, nil
		})
		require.ErrorContains(t, err, "network file system ("+kind+")")
		require.ErrorContains(t, err, "set PERENNIAL_HOME to a directory on a local disk")
		require.NoDirExists(t, filepath.Join(parent, "state"))
	}
}

func Test_local_file_systems_are_accepted(t *testing.T) {
	for _, kind := range []string{"", "fuse.mergerfs", "fuse.fuse-overlayfs"} {
		_, err := open(filepath.Join(t.TempDir(), "state"), func(string) (string, error) { return kind, nil })
		require.NoError(t, err, kind)
	}
}

func Test_the_type_of_a_mount_is_read_from_mountinfo(t *testing.T) {
	kind, ok := typeOfMount("41 23 0:37 / /home/ada/far rw,nosuid,nodev shared:21 - fuse.sshfs ada@far: rw,user_id=0", "0:37")
	require.True(t, ok)
	require.Equal(t, "fuse.sshfs", kind)
	_, ok = typeOfMount("41 23 0:37 / /home/ada/far rw - fuse.sshfs ada@far: rw", "0:38")
	require.False(t, ok)
}

func Test_a_directory_that_cannot_be_written_says_the_way_out(t *testing.T) {
	parent := t.TempDir()
	require.NoError(t, os.Chmod(parent, 0o555))
	asNobody(func() {
		_, err := Open(filepath.Join(parent, "state"))
		require.ErrorContains(t, err, "permission denied")
		require.ErrorContains(t, err, "set PERENNIAL_HOME to a directory that is")
	})
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := Open(file)
	require.ErrorContains(t, err, "not a directory")
}

// asNobody runs the function on a thread whose file accesses are not root's. The
// thread ends with its goroutine.
func asNobody(act func()) {
	var done sync.WaitGroup
	done.Go(func() {
		runtime.LockOSThread()
		const nobody = 65534
		_ = unix.Setfsuid(nobody)
		act()
	})
	done.Wait()
}

func Test_a_state_directory_of_a_newer_starter_is_refused(t *testing.T) {
	dir := opened(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir.Path(), "format"), []byte(`{"format":2}`), 0o600))
	_, err := Open(dir.Path())
	require.ErrorContains(t, err, "written by a newer starter (format 2, this one reads up to 1)")
	require.ErrorContains(t, err, "update starter")
}

func Test_a_broken_format_file_is_shown(t *testing.T) {
	dir := opened(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir.Path(), "format"), []byte("?"), 0o600))
	_, err := Open(dir.Path())
	require.ErrorContains(t, err, `its format file says "?"`)
}

func Test_the_state_id_is_eight_letters_and_stays(t *testing.T) {
	dir := opened(t)
	require.Regexp(t, `^[a-z]{8}$`, dir.StateID())
	again, err := Open(dir.Path())
	require.NoError(t, err)
	require.Equal(t, dir.StateID(), again.StateID())
	require.NotEqual(t, dir.StateID(), opened(t).StateID())
}

func Test_all_who_open_a_new_directory_at_once_see_one_id_and_one_token(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	seen := make(chan string, 16)
	var all sync.WaitGroup
	for range cap(seen) {
		all.Go(func() {
			dir, err := Open(path)
			token, tokenErr := dir.Token()
			if err == nil && tokenErr == nil {
				seen <- dir.StateID() + " " + token
			}
		})
	}
	all.Wait()
	require.Len(t, seen, cap(seen))
	first := <-seen
	for range cap(seen) - 1 {
		require.Equal(t, first, <-seen)
	}
}

func Test_a_state_directory_that_others_may_look_into_is_closed_to_them(t *testing.T) {
	for _, used := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "state")
		if used {
			_, err := Open(path)
			require.NoError(t, err)
		} else {
			require.NoError(t, os.Mkdir(path, 0o755))
		}
		require.NoError(t, os.Chmod(path, 0o755))
		_, err := Open(path)
		require.NoError(t, err)
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, fs.FileMode(0o700), info.Mode().Perm())
	}
}

func Test_a_directory_of_other_things_that_others_may_look_into_is_refused_and_left_alone(t *testing.T) {
	path := t.TempDir()
	require.NoError(t, os.Chmod(path, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(path, "thesis.tex"), nil, 0o644))
	_, err := Open(path)
	require.ErrorContains(t, err, "is open to others (mode 0755) and holds other things: set PERENNIAL_HOME to a directory of its own")
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o755), info.Mode().Perm())
	entries, err := os.ReadDir(path)
	require.NoError(t, err)
	require.Len(t, entries, 1)
}
