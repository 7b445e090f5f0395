//go:build unix

package disk

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Map maps the first size > 0 bytes of f into memory, read-only, or reads them if its file system cannot map. The
// mapping outlives f.
func Map(f *os.File, size int) (Mapping, error) {
	data, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
	if err == nil {
		return Mapping{data, func() error { return unix.Munmap(data) }, true}, nil
	}
	m, readErr := Read(f, size)
	if readErr != nil {
		return m, fmt.Errorf("mapping failed (%w), and so did reading (%w)", err, readErr)
	}
	return m, nil
}

// release drops whole pages of a mapping that nobody has written to. It is only advice.
func release(pages []byte) { _ = unix.Madvise(pages, unix.MADV_DONTNEED) }
