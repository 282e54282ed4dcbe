package experiment

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/perennial-ml/perennial/trial"
)

// sharedStorage gives every platform the shared storage as its trials find it.
func (r *reader) sharedStorage(v *values, platforms []Platform) {
	storage := trial.SharedStorage{Type: get[string](v, "storageType")}
	switch storage.Type {
	case trial.NFS:
		r.require(v, "nfsServer", "exportedDirectory")
		storage.Source = get[string](v, "nfsServer") + ":" + get[string](v, "exportedDirectory")
	case "AzureBlob":
		r.require(v, "storageAccountName", "containerName")
		storage.Source = get[string](v, "storageAccountName") + "/" + get[string](v, "containerName")
	}
	for i := range platforms {
		platforms[i].Storage = r.storageOn(&platforms[i], v, storage)
		platforms[i].Snapshot = platforms[i].Snapshot || platforms[i].Name == "local"
	}
}

// storageOn is the storage on the machines of a platform. Whether it is mounted on
// this one is for the user to say; on others NNI mounted it always.
func (r *reader) storageOn(p *Platform, v *values, storage trial.SharedStorage) *trial.SharedStorage {
	switch p.Name {
	case "local":
		r.checkMounted(v, storage)
		storage.MountPoint, storage.Mount = get[string](v, "localMountPoint"), get[string](v, "localMounted") == "nnimount"
	case "remote":
		storage.MountPoint, storage.Mount = get[string](v, "remoteMountPoint"), true
	case "": // a fault already
	default:
		r.fault(v.node, "does nothing on platform "+p.Name, "local and remote have it; elsewhere name the storage in the platform's own section")
	}
	return &storage
}

// checkMounted finds what cannot work where trials run on this machine. Those on
// others do not need the storage here.
func (r *reader) checkMounted(v *values, storage trial.SharedStorage) {
	how, point := get[string](v, "localMounted"), get[string](v, "localMountPoint")
	switch {
	case how == "nomount":
		r.fault(v.at("localMounted"), "trials of platform local need it mounted on this machine", "mount it yourself and write usermount")
	case how == "nnimount" && storage.Type != trial.NFS:
		r.fault(v.at("localMounted"), "storage of type "+storage.Type+" is not mounted by starter, which installs nothing and never calls sudo",
			fmt.Sprintf("mount it yourself (blobfuse2 mount %s --config-file=FILE) and write usermount", point))
	case how == "nnimount" && storage.Type == trial.NFS && os.Geteuid() != 0 && !inFstab(point):
		r.fault(v.at("localMounted"), "only root may mount "+storage.Source+", and starter never calls sudo",
			fmt.Sprintf("mount it yourself (sudo mount -t nfs %s %s) and write usermount, or give it a line with the option user in /etc/fstab", storage.Source, point))
	case how == "usermount" && point != "":
		if info, err := os.Stat(point); err != nil || !info.IsDir() {
			r.fault(v.at("localMountPoint"), "there is no such directory", "mount "+storage.Source+" there first, or write localMounted: nnimount")
		}
	}
}

// inFstab tells whether /etc/fstab names a mount point, so that its user may be
// allowed to mount it.
func inFstab(point string) bool {
	content, err := os.ReadFile("/etc/fstab")
	return err == nil && slices.ContainsFunc(strings.Split(string(content), "\n"), func(line string) bool {
		fields := strings.Fields(line)
		return len(fields) > 3 && fields[0][0] != '#' && fields[1] == filepath.Clean(point)
	})
}
