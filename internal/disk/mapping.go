package disk

import "unsafe"

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
	end := min((at+uintptr(len(part))+around-1)/around*around, uintptr(len(m.Data)))
	release(m.Data[at/around*around : end])
}

// around is the most that a system brings into memory for one byte that is read. Linux maps the part of the page cache
// around it that lies together: up to 2 MiB, which begin in the file at a multiple of their size.
const around = 2 << 20
