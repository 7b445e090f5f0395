package disk

import (
	"os"
	"unsafe"

	"golang.org/x/sys/windows"
)

// Map maps the first size > 0 bytes of f into memory, read-only. The mapping outlives f. A file that is
// mapped cannot be replaced until it is closed.
func Map(f *os.File, size int) (Mapping, error) {
	n := uint64(size)
	h, err := windows.CreateFileMapping(windows.Handle(f.Fd()), nil, windows.PAGE_READONLY,
		uint32(n>>32), uint32(n), nil)
	if err != nil {
		return Mapping{}, os.NewSyscallError("CreateFileMapping", err)
	}
	defer windows.CloseHandle(h) // the view keeps the mapping alive
	addr, err := windows.MapViewOfFile(h, windows.FILE_MAP_READ, 0, 0, uintptr(size))
	if err != nil {
		return Mapping{}, os.NewSyscallError("MapViewOfFile", err)
	}
	// addr is memory outside of Go's heap. Reading the pointer through &addr makes vet accept it.
	data := unsafe.Slice(*(**byte)(unsafe.Pointer(&addr)), size)
	return Mapping{data, func() error { return windows.UnmapViewOfFile(addr) }, true}, nil
}

// release drops whole pages of a mapping. Unlocking pages that are not locked removes them from the working set and
// returns an error, which is ignored.
func release(pages []byte) {
	_ = windows.VirtualUnlock(uintptr(unsafe.Pointer(unsafe.SliceData(pages))), uintptr(len(pages)))
}
