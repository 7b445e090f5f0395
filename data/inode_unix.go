//go:build unix

package data

import (
	"io/fs"
	"syscall"
)

// inode is the number of the file on its file system: another file renamed into its place has another.
func inode(info fs.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Ino)
	}
	return 0
}
