// Package disk is what hippo needs of a file system beyond package os: files that are replaced as a whole or not at all, names
// and contents that are certain to be on disk, and files mapped into memory. It imports the standard library and
// golang.org/x/sys.
package disk
