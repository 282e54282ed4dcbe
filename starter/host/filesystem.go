package host

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// refuseNetwork looks at the nearest directory that exists, so that nothing is
// made where nothing may stay.
func refuseNetwork(path string, identify func(string) (string, error)) error {
	kind, err := identify(nearestExisting(path))
	if err != nil {
		return fmt.Errorf("file system of the state directory: %w", err)
	}
	if !isNetwork(kind) {
		return nil
	}
	return fmt.Errorf("state directory %s is on a network file system (%s), where SQLite and locks are not safe: "+
		"set PERENNIAL_HOME to a directory on a local disk, such as /var/tmp/$USER/perennial", path, kind)
}

func nearestExisting(path string) string {
	for {
		parent := filepath.Dir(path)
		if _, err := os.Stat(path); err == nil || parent == path {
			return path
		}
		path = parent
	}
}

// magic numbers of statfs(2), from linux/magic.h and the file systems' own
// sources.
var magic = map[int64]string{
	0x6969:     "nfs",
	0xff534d42: "cifs",
	0xfe534d42: "smb2",
	0x517b:     "smb",
	0x0bd00bd0: "lustre",
	0x00c36400: "ceph",
	0x47504653: "gpfs",
	0x5346414f: "afs",
	0x6b414653: "afs",
	0x73757245: "coda",
	0x01021997: "9p",
	0x19830326: "beegfs",
	0x20030528: "orangefs",
	0xaad7aaea: "panfs",
	0x013111a8: "ibrix",
	0x65735546: "fuse",
}

// networkFUSE are the network file systems among those of FUSE, as the kernel
// names them in mountinfo after "fuse.".
var networkFUSE = []string{
	"sshfs", "s3fs", "rclone", "gcsfuse", "glusterfs", "ceph", "juicefs", "blobfuse", "goofys", "mount-s3",
	"davfs", "curlftpfs", "moosefs", "mfs", "lizardfs", "seaweedfs", "weed", "beegfs", "cvmfs", "smbnetfs", "afp",
}

func isNetwork(kind string) bool {
	name, fuse := strings.CutPrefix(kind, "fuse.")
	if !fuse {
		return kind != ""
	}
	for _, network := range networkFUSE {
		if strings.HasPrefix(name, network) {
			return true
		}
	}
	return false
}

// filesystemOf names the file system if it is a network's or "fuse.<name>"; any
// other, a disk behind FUSE too, is the empty string.
func filesystemOf(path string) (string, error) {
	var info unix.Statfs_t
	if err := unix.Statfs(path, &info); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	kind := magic[int64(uint32(info.Type))]
	if kind != "fuse" {
		return kind, nil
	}
	kind, err := mountType(path)
	if !strings.HasPrefix(kind, "fuse.") {
		kind = ""
	}
	return kind, err
}

// mountType reads the type of the mount that holds the path from mountinfo;
// statfs calls all of FUSE alike.
func mountType(path string) (string, error) {
	var status unix.Stat_t
	if err := unix.Stat(path, &status); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	device := fmt.Sprintf("%d:%d", unix.Major(status.Dev), unix.Minor(status.Dev))
	file, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if kind, ok := typeOfMount(lines.Text(), device); ok {
			return kind, nil
		}
	}
	return "fuse", lines.Err()
}

// typeOfMount takes the type from a line such as
// "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw".
func typeOfMount(line, device string) (string, bool) {
	mount, filesystem, ok := strings.Cut(line, " - ")
	fields := strings.Fields(mount)
	if !ok || len(fields) < 3 || fields[2] != device {
		return "", false
	}
	kind, _, _ := strings.Cut(filesystem, " ")
	return kind, true
}
