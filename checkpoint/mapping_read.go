package checkpoint

import (
	"fmt"
	"io"
	"os"
)

// readMapping reads size bytes of f into memory: what is used where mapping is not possible.
func readMapping(f *os.File, size int) (*mapping, error) {
	data := make([]byte, size)
	if n, err := io.ReadFull(f, data); err != nil {
		return nil, fmt.Errorf("read %d of %d bytes: %w", n, size, err)
	}
	return &mapping{data, func() error { return nil }}, nil
}
