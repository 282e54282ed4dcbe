package agent

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/perennial-ml/perennial/codedir"
	"github.com/perennial-ml/perennial/machine"
	"github.com/perennial-ml/perennial/runner/rundir"
	"github.com/perennial-ml/perennial/trial"
)

// site is our directory on a machine, and what is done in it.
type site struct {
	directory string
	known     string // the directory's name, as the client was told
	machine   *machine.Machine
	ended     func(trial.Key)
}

func newSite(hello Hello) *site {
	s := &site{directory: hello.Directory, ended: func(trial.Key) {}}
	runner, _ := os.Executable() // ownSum says what is wrong
	s.machine = machine.New(machine.Options{
		Runner: runner, Index: filepath.Join(hello.Directory, "runs"), Claims: claims(hello.Directory),
		Experiments: filepath.Join(hello.Directory, "experiments"), NNIPlatform: hello.NNIPlatform,
		Ended: func(key trial.Key) { s.ended(key) },
	})
	return s
}

// networkFileSystems are those whose locks other machines may break or not see.
var networkFileSystems = []int64{
	unix.NFS_SUPER_MAGIC, unix.SMB_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC, unix.CODA_SUPER_MAGIC,
	unix.AFS_SUPER_MAGIC, unix.AFS_FS_MAGIC, unix.V9FS_MAGIC, unix.CEPH_SUPER_MAGIC, unix.FUSE_SUPER_MAGIC,
	0x0BD00BD0 /* Lustre */, 0x47504653 /* GPFS */, 0x19830326 /* BeeGFS */, 0xAAD7AAEA, /* Panasas */
}

// claims is where locks lie: "" for our directory itself, or a place on this
// machine's own disk where that is on a network.
func claims(directory string) string {
	if !onNetwork(directory) {
		return ""
	}
	return "/var/tmp/perennial-" + strconv.Itoa(os.Geteuid())
}

// onNetwork asks about the nearest folder that exists.
func onNetwork(directory string) bool {
	var disk unix.Statfs_t
	for unix.Statfs(directory, &disk) != nil {
		if parent := filepath.Dir(directory); parent != directory {
			directory = parent
			continue
		}
		return false
	}
	return slices.Contains(networkFileSystems, int64(disk.Type))
}

// prepare makes our directory and finds out whether it is of use.
func (s *site) prepare() error {
	if !filepath.IsAbs(s.directory) {
		return machine.Errorf(machine.Invalid, "connect", "the directory %q is not absolute", s.directory)
	}
	if err := rundir.MakeDirectory(s.directory); err != nil {
		return machine.Fault("connect", err)
	}
	if s.machine.Claims == s.machine.Index {
		return nil
	}
	return machine.Fault("connect", ownFolder(s.machine.Claims))
}

const siteFile = "site"

// name is the directory's own: another of the same path, such as that below a
// file system that is not mounted, has another.
func (s *site) name() (string, error) {
	path := filepath.Join(s.directory, siteFile)
	err := rundir.CreateFile(path, []byte(strings.ToLower(rand.Text())+"\n"), 0o600)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	content, err := os.ReadFile(path)
	return strings.TrimSpace(string(content)), err
}

// moved is an error where the directory is not the one of which the client was told,
// since a file system was mounted meanwhile or is not any more: nothing of what the
// client knows is true here then.
func (s *site) moved() error {
	content, err := os.ReadFile(filepath.Join(s.directory, siteFile))
	if err != nil {
		return err
	}
	if strings.TrimSpace(string(content)) != s.known {
		return fmt.Errorf("%s is another directory than when this agent was started", s.directory)
	}
	return nil
}

// boot names the life of this machine, or of the container that it is.
func boot() (string, error) {
	process, err := rundir.ThisProcess()
	return process.BootID + " " + process.PIDNamespace, err
}

// ownFolder makes a folder in a place where others may have been first.
func ownFolder(path string) error {
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	var info unix.Stat_t
	if err := unix.Lstat(path, &info); err != nil {
		return err
	}
	if info.Mode&unix.S_IFMT != unix.S_IFDIR || int(info.Uid) != os.Geteuid() || info.Mode&0o022 != 0 {
		return fmt.Errorf("%s must be a directory of this user's that nobody else can write: have its owner remove it", path)
	}
	return nil
}

func (s *site) submit(ctx context.Context, submission Submission) (machine.Ref, error) {
	workspace := &submission.Job.Workspace
	if workspace.Directory == "" {
		workspace.Directory = s.code(workspace.Hash)
		if err := s.use(workspace.Hash, submission.Job.Key.Experiment); err != nil {
			return machine.Ref{}, err
		}
	}
	return s.machine.Submit(ctx, submission.Job, submission.Terms)
}

// code is where the tree of a hash is kept.
func (s *site) code(hash string) string {
	return filepath.Join(s.directory, "code", filepath.Base(hash))
}

func (s *site) users(hash string) string { return s.code(hash) + ".users" }

// use notes that an experiment uses a tree, ErrNoCode if there is none.
func (s *site) use(hash, experiment string) error {
	if _, err := os.Stat(s.code(hash)); errors.Is(err, fs.ErrNotExist) {
		return ErrNoCode
	} else if err != nil {
		return machine.Fault("submit", err)
	}
	return machine.Fault("submit", s.note(hash, experiment))
}

func (s *site) note(hash, experiment string) error {
	if err := os.MkdirAll(s.users(hash), 0o700); err != nil {
		return err
	}
	file, err := os.OpenFile(filepath.Join(s.users(hash), filepath.Base(experiment)), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return file.Close()
}

// unpack puts what the client sends into the store.
func (s *site) unpack(input *bufio.Reader, hello Hello) error {
	if err := machine.Fault("upload", s.note(hello.Code, hello.Experiment)); err != nil {
		return err
	}
	err := codedir.Unpack(input, s.code(hello.Code), hello.Code)
	if err == nil {
		// Where the tree was there already nothing was read.
		_, err = io.Copy(io.Discard, input)
	}
	return machine.Fault("upload", err)
}

// goneSuffix marks a tree that is being removed.
const goneSuffix = ".gone"

// cleanUp forgets that an experiment uses any code, and removes what nobody uses. A
// tree loses its name before it loses anything else: whoever copies it meanwhile
// looks for the name once more when he is done.
func (s *site) cleanUp(experiment string) error {
	used, err := filepath.Glob(filepath.Join(s.directory, "code", "*.users", filepath.Base(experiment)))
	if err != nil {
		return err
	}
	var faults []error
	for _, note := range used {
		users := filepath.Dir(note)
		os.Remove(note)
		if os.Remove(users) != nil {
			continue // others use it
		}
		tree := strings.TrimSuffix(users, ".users")
		err := os.Rename(tree, tree+"."+strings.ToLower(rand.Text())+goneSuffix)
		if !errors.Is(err, fs.ErrNotExist) {
			faults = append(faults, err)
		}
	}
	return machine.Fault("clean up", errors.Join(append(faults, s.removeGone())...))
}

// removeGone removes what this or an interrupted clean-up gave up.
func (s *site) removeGone() error {
	gone, err := filepath.Glob(filepath.Join(s.directory, "code", "*"+goneSuffix))
	faults := []error{err}
	for _, tree := range gone {
		faults = append(faults, rundir.RemoveTree(tree))
	}
	return errors.Join(faults...)
}

func (s *site) sendLogs(w *writer, hello Hello) error {
	if hello.Ref == nil {
		return errors.New("no run was named")
	}
	stream, err := s.machine.Logs(*hello.Ref, hello.Stream, hello.Offset)
	if err := w.write(answer{Fault: faultOf("logs", err)}); err != nil {
		return err
	}
	if err != nil {
		return nil
	}
	defer stream.Close()
	_, err = io.Copy(w.out, stream)
	return err
}
