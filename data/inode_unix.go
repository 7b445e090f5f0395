//go:build unix

package data

import (
	"io/fs"
	"syscall"
)

// inode returns the inode number of the file. Another file that is renamed into its place has a different one.
func inode(info fs.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Ino)
	}
	return 0
}
