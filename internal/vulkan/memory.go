//go:build gpu

package vulkan

import (
	"fmt"
	"unsafe"

	"github.com/ebitengine/purego"
)

// Memory is a piece of memory that kernels access by its address.
type Memory struct {
	Address uint64
	Size    uint64
	Host    []byte // the memory as mapped to the host; nil for OnDevice

	d      *Device
	buffer uint64
	memory uint64
}

// Where determines whether the host can access memory.
type Where int

// The places for memory.
const (
	OnDevice Where = iota // only kernels and copies access it
	ForWrite              // the host writes it
	ForRead               // the host reads it
)

// Allocate allocates memory. If there is too little, the error states the size of the device's memory.
func (d *Device) Allocate(size uint64, where Where) (*Memory, error) {
	m := &Memory{Size: size, d: d}
	info := bufferCreate{head: head{kind: typeBufferCreate}, size: size,
		usage: usageCopyFrom | usageCopyTo | usageStorage | usageAddress}
	if err := call(d.fn.createBuffer, d.handle, uintptr(unsafe.Pointer(&info)), 0,
		uintptr(unsafe.Pointer(&m.buffer))); err != nil {
		return nil, d.tooLittle(size, err)
	}
	if err := m.back(where); err != nil {
		m.Free()
		return nil, d.tooLittle(size, err)
	}
	d.memory[m] = true
	return m, nil
}

func (d *Device) tooLittle(size uint64, err error) error {
	return fmt.Errorf("the device %s does not give %d MiB more of its %d MiB: %w", d.Name, (size+1<<20-1)>>20,
		d.Memory>>20, err)
}

// flags returns the flags of suitable memory types, the best first.
func (w Where) flags() []uint32 {
	switch w {
	case ForWrite:
		return []uint32{hostVisible | hostCoherent}
	case ForRead:
		return []uint32{hostVisible | hostCoherent | hostCached, hostVisible | hostCoherent}
	}
	return []uint32{deviceLocal, 0}
}

// back allocates the buffer's memory, finds its address and, if the host may access it, maps it.
func (m *Memory) back(where Where) error {
	d := m.d
	var need memoryRequirements
	purego.SyscallN(d.fn.requirements, d.handle, uintptr(m.buffer), uintptr(unsafe.Pointer(&need)))
	err := error(Result(-2))
	for _, flags := range where.flags() {
		kind := d.p.memoryType(need.types, flags)
		if kind < 0 {
			continue
		}
		const byAddress = 2
		with := memoryFlags{head: head{kind: typeMemoryFlags}, flags: byAddress}
		info := memoryAllocate{head: head{typeMemoryAllocate, unsafe.Pointer(&with)}, size: need.size,
			kind: uint32(kind)}
		if err = call(d.fn.allocate, d.handle, uintptr(unsafe.Pointer(&info)), 0,
			uintptr(unsafe.Pointer(&m.memory))); err == nil {
			break
		}
	}
	if err != nil {
		return err
	}
	if err := call(d.fn.bind, d.handle, uintptr(m.buffer), uintptr(m.memory), 0); err != nil {
		return err
	}
	of := bufferAddress{head: head{kind: typeBufferAddress}, buffer: m.buffer}
	address, _, _ := purego.SyscallN(d.fn.address, d.handle, uintptr(unsafe.Pointer(&of)))
	m.Address = uint64(address)
	if where == OnDevice {
		return nil
	}
	var host unsafe.Pointer
	if err := call(d.fn.mapMemory, d.handle, uintptr(m.memory), 0, uintptr(m.Size), 0,
		uintptr(unsafe.Pointer(&host))); err != nil {
		return err
	}
	m.Host = unsafe.Slice((*byte)(host), m.Size)
	return nil
}

// Free frees the memory. No recorded work may use it any more.
func (m *Memory) Free() {
	d := m.d
	d.frees++
	if m.buffer != 0 {
		purego.SyscallN(d.fn.destroyBuffer, d.handle, uintptr(m.buffer), 0)
	}
	if m.memory != 0 {
		purego.SyscallN(d.fn.free, d.handle, uintptr(m.memory), 0)
	}
	m.buffer, m.memory, m.Host = 0, 0, nil
	delete(d.memory, m)
}
