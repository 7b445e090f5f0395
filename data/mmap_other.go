//go:build !unix && !windows

package data

import (
	"io"
	"os"
)

// mapFile reads the first size bytes of f: there is no memory mapping here.
func mapFile(f *os.File, size int) ([]byte, error) {
	b := make([]byte, size)
	_, err := io.ReadFull(io.NewSectionReader(f, 0, int64(size)), b)
	return b, err
}

func unmap([]byte) error { return nil }

// syncDir does nothing: there is no portable way.
func syncDir(string) error { return nil }
