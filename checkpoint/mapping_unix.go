//go:build unix

package checkpoint

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// mapFile maps size bytes of f, or reads them where its file system cannot map.
func mapFile(f *os.File, size int) (*mapping, error) {
	data, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
	if err == nil {
		return &mapping{data, func() error { return unix.Munmap(data) }}, nil
	}
	m, readErr := readMapping(f, size)
	if readErr != nil {
		return nil, fmt.Errorf("mapping failed (%w), and so did reading (%w)", err, readErr)
	}
	return m, nil
}
