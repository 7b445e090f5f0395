//go:build !unix && !windows

package disk

import "os"

// Map is Read, because this system has no memory mapping.
func Map(f *os.File, size int) (Mapping, error) { return Read(f, size) }

// release is never called, because nothing is mapped.
func release([]byte) {}
