// Package disk is what hippo needs from a file system beyond package os: atomic replacement of files, durable names and
// contents, memory-mapped files, bounded reading of small texts, and folders locked by one process.
package disk
