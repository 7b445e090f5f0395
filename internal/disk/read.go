package disk

import (
	"fmt"
	"io"
	"os"
)

// Read reads the first size bytes of f into memory, with the results of Map, for files that cannot or must not be
// mapped.
func Read(f *os.File, size int) (Mapping, error) {
	data := make([]byte, size)
	if n, err := io.ReadFull(io.NewSectionReader(f, 0, int64(size)), data); err != nil {
		return Mapping{}, fmt.Errorf("read %d of %d bytes: %w", n, size, err)
	}
	return inMemory(data), nil
}
