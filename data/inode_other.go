//go:build !unix

package data

import "io/fs"

// inode is not to be had from a FileInfo here; size and modification time must do.
func inode(fs.FileInfo) uint64 { return 0 }
