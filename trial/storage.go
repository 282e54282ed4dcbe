package trial

// SharedStorage is a file system that all machines of an experiment see, as one of
// them finds it. An attempt has a directory there, with its code and its output.
type SharedStorage struct {
	// MountPoint is a directory of that machine; a relative one begins at the home
	// directory of the user who runs trials.
	MountPoint string `json:"mountPoint"`
	// Source is what belongs there, as mount(8) takes it, such as "server:/export".
	Source string `json:"source"`
	// Type is NFS, or another for which mount(8) knows nothing.
	Type string `json:"type"`
	// Mount says that whoever starts a trial may mount it where it is not mounted,
	// as far as its user may.
	Mount bool `json:"mount,omitempty"`
}

// NFS is the Type of a SharedStorage that mount(8) can mount.
const NFS = "NFS"
