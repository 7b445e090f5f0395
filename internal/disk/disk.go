// Package disk has the file system operations that hippo needs beyond package os: atomic replacement of files, durable
// names and contents, memory-mapped files, bounded reading of small texts, and folders locked by one process.
package disk
