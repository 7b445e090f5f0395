//go:build darwin || dragonfly || freebsd || linux

package disk

import (
	"os"

	"golang.org/x/sys/unix"
)

// Space returns the number of bytes that are free, for this user, on the disk of the folder dir.
func Space(dir string) (free int64, err error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return int64(s.Bavail) * int64(s.Bsize), nil
}
