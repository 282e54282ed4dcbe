package command

import "golang.org/x/sys/unix"

// fullBelow is the free space, in bytes, with which the record and Temporal's
// database cannot be relied on to grow by another commit.
const fullBelow = 4 << 20

// minding says when the disk of the state directory becomes full, and when it is
// not any more: the record could not say so itself.
func (f *follower) minding() {
	var disk unix.Statfs_t
	if unix.Statfs(f.Home, &disk) != nil {
		return
	}
	cramped := disk.Bavail*uint64(disk.Bsize) < fullBelow
	switch {
	case cramped && !f.cramped:
		f.display.Say("disk-full", "the disk of "+f.Home+" is full: make room on it and everything goes on; what trials report until then waits with them")
	case f.cramped && !cramped:
		f.display.Say("disk-has-room", "there is room on the disk again")
	}
	f.cramped = cramped
}
