package disk

import "unsafe"

// Mapping is the content of a file, mapped into memory or read.
type Mapping struct {
	Data []byte
	// Close releases the memory.
	Close func() error

	mapped bool
}

// inMemory returns a mapping of data that has been read.
func inMemory(data []byte) Mapping { return Mapping{Data: data, Close: func() error { return nil }} }

// Release marks a part of Data as not needed for now: its memory no longer counts as that of the process, and later
// reads of it come from the file. It does nothing if part is not in the mapping, or if the file was read into memory.
func (m *Mapping) Release(part []byte) {
	at := uintptr(unsafe.Pointer(unsafe.SliceData(part))) - uintptr(unsafe.Pointer(unsafe.SliceData(m.Data)))
	if !m.mapped || len(part) == 0 || at >= uintptr(len(m.Data)) {
		return
	}
	end := min((at+uintptr(len(part))+around-1)/around*around, uintptr(len(m.Data)))
	release(m.Data[at/around*around : end])
}

// around is the largest amount of memory that a system loads for one byte that is read. Linux maps the contiguous part
// of the page cache around it: up to 2 MiB, which begin in the file at a multiple of their size.
const around = 2 << 20
