//go:build !unix && !windows

package disk

import "os"

// Map is Read: there is no memory mapping here.
func Map(f *os.File, size int) (Mapping, error) { return Read(f, size) }

// release is never called: nothing is mapped.
func release([]byte) {}
