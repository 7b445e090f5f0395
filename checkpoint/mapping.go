package checkpoint

import (
	"fmt"
	"runtime"

	"github.com/hippo-ssm/hippo/internal/disk"
)

// mapping is the whole content of a file. It is mapped into memory if the system supports that, and read otherwise.
type mapping struct {
	data    []byte
	unmap   func() error
	release func(part []byte) // nil if all of data is kept
}

// openMapping maps the regular file at path. Its size is that at the time of opening.
func openMapping(path string) (*mapping, error) {
	f, info, err := disk.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() // a mapping outlives its descriptor
	if info.Size() == 0 {
		return nil, fmt.Errorf("%s: the file is empty", path)
	}
	open := disk.Map
	if runtime.GOOS == "windows" { // on Windows, a mapped file cannot be replaced by a new checkpoint
		open = disk.Read
	}
	m, err := open(f, int(info.Size()))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &mapping{m.Data, m.Close, m.Release}, nil
}
