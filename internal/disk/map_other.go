//go:build !unix && !windows

package disk

import "os"

// Map is Read: there is no memory mapping here.
func Map(f *os.File, size int) (data []byte, unmap func() error, err error) { return Read(f, size) }
