package checkpoint

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/hippo-ssm/hippo/internal/disk"
)

// mapping is the whole content of a file, mapped into memory where the system can, read otherwise.
type mapping struct {
	data  []byte
	unmap func() error
}

// openMapping maps the regular file at path. Its size is that at the moment of opening.
func openMapping(path string) (*mapping, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() // a mapping outlives its descriptor
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("found a %s, want a regular file", info.Mode().Type())
	}
	if info.Size() == 0 {
		return nil, errors.New("the file is empty")
	}
	open := disk.Map
	if runtime.GOOS == "windows" { // where a mapped file cannot be replaced by a new checkpoint
		open = disk.Read
	}
	data, unmap, err := open(f, int(info.Size()))
	if err != nil {
		return nil, err
	}
	return &mapping{data, unmap}, nil
}

var errFault = errors.New("the file was cut short or closed while in use")

// guard runs f and returns errFault when f touches mapped memory that has gone, because another process cut the file
// short or because it was closed. Without it such a fault ends the process.
func guard(f func()) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		r := recover()
		if r == nil {
			return
		}
		// Only a fault at an address carries that address; every other panic is a mistake in this program.
		if e, ok := r.(runtime.Error); ok {
			if _, ok := e.(interface{ Addr() uintptr }); ok {
				err = errFault
				return
			}
		}
		panic(r)
	}()
	f()
	return nil
}
