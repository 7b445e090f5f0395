package disk

import (
	"os"
	"unsafe"
)

// Mapping is the content of a file, mapped into memory or read.
type Mapping struct {
	Data []byte
	// Close gives the memory back.
	Close func() error

	mapped bool
}

// inMemory is a mapping of what has been read.
func inMemory(data []byte) Mapping { return Mapping{Data: data, Close: func() error { return nil }} }

// Release says that part of Data is not needed for now: its memory no longer counts as that of the process, and what is
// read of it again comes from the file. It does nothing with memory that is not of the mapping, or was read.
func (m *Mapping) Release(part []byte) {
	at := uintptr(unsafe.Pointer(unsafe.SliceData(part))) - uintptr(unsafe.Pointer(unsafe.SliceData(m.Data)))
	if !m.mapped || len(part) == 0 || at >= uintptr(len(m.Data)) {
		return
	}
	page := uintptr(os.Getpagesize())
	first := at / page * page // the start of Data is that of a page
	release(m.Data[first:min(uintptr(len(m.Data)), (at+uintptr(len(part))+page-1)/page*page)])
}
