//go:build gpu

package vulkan

import (
	"unsafe"

	"github.com/ebitengine/purego"
)

// commands is a command buffer, with the memory of the host whose contents it copies in.
type commands struct {
	handle  uintptr
	value   uint64 // of the semaphore when it has run
	memory  []*Memory
	at      int    // the piece of memory in use
	used    uint64 // bytes of it
	bound   *Kernel
	written bool // something was recorded
}

// inFlight is the number of command buffers: how many submissions the host may be ahead of the device.
const inFlight = 4

// recording returns the command buffer that is being recorded, nil after an error.
func (d *Device) recording() *commands {
	if d.err != nil {
		return nil
	}
	if d.now != nil {
		return d.now
	}
	if len(d.commands) < inFlight {
		info := commandBufferAllocate{head: head{kind: typeCommandBufferAllocate}, pool: d.pool, count: 1}
		c := &commands{}
		if err := call(d.fn.allocateCommands, d.handle, uintptr(unsafe.Pointer(&info)),
			uintptr(unsafe.Pointer(&c.handle))); err != nil {
			d.fail("a command buffer", err)
			return nil
		}
		d.commands = append(d.commands, c)
		d.now = c
	} else {
		d.now = d.commands[int(d.sent)%inFlight]
	}
	c := d.now
	if !d.waitFor(c.value) {
		d.now = nil
		return nil
	}
	c.at, c.used, c.bound, c.written = 0, 0, nil, false
	const once = 1
	info := commandBufferBegin{head: head{kind: typeCommandBufferBegin}, flags: once}
	if err := call(d.fn.begin, c.handle, uintptr(unsafe.Pointer(&info))); err != nil {
		d.fail("a command buffer", err)
		d.now = nil
	}
	return d.now
}

// order makes what is recorded next wait for all that was recorded before, and see it.
func (d *Device) order(c *commands) {
	if !c.written {
		c.written = true
		// What earlier submissions wrote, and what the host wrote.
		d.barrier(c, stageCompute|stageTransfer|stageHost, stageCompute|stageTransfer,
			accessWrite|accessCopyTo|accessHostWrite, accessRead|accessWrite|accessCopyFrom|accessCopyTo)
		return
	}
	d.barrier(c, stageCompute|stageTransfer, stageCompute|stageTransfer, accessWrite|accessCopyTo,
		accessRead|accessWrite|accessCopyFrom|accessCopyTo)
}

func (d *Device) barrier(c *commands, from, to, wrote, sees uint32) {
	b := memoryBarrier{head: head{kind: typeMemoryBarrier}, from: wrote, to: sees}
	purego.SyscallN(d.fn.barrier, c.handle, uintptr(from), uintptr(to), 0, 1, uintptr(unsafe.Pointer(&b)), 0, 0, 0, 0)
}

// Launch records a launch of groups workgroups with arguments of at most PushBytes.
func (d *Device) Launch(k *Kernel, args []byte, groups [3]uint32) {
	c := d.recording()
	if c == nil || k == nil {
		return
	}
	d.order(c)
	if c.bound != k {
		const compute = 1
		purego.SyscallN(d.fn.bindPipeline, c.handle, compute, uintptr(k.pipeline))
		c.bound = k
	}
	purego.SyscallN(d.fn.push, c.handle, uintptr(d.layout), computeStage, 0, uintptr(len(args)),
		uintptr(unsafe.Pointer(unsafe.SliceData(args))))
	purego.SyscallN(d.fn.dispatch, c.handle, uintptr(groups[0]), uintptr(groups[1]), uintptr(groups[2]))
}

// Copy records a copy of size bytes between memory of the device. The ranges must not overlap.
func (d *Device) Copy(to *Memory, at uint64, from *Memory, start, size uint64) {
	if c := d.recording(); c != nil && size > 0 {
		d.order(c)
		part := bufferCopy{from: start, to: at, size: size}
		purego.SyscallN(d.fn.copyBuffer, c.handle, uintptr(from.buffer), uintptr(to.buffer), 1,
			uintptr(unsafe.Pointer(&part)))
	}
}

// Write records a copy of bytes of the host, which may change as soon as it returns.
func (d *Device) Write(to *Memory, at uint64, data []byte) error {
	for len(data) > 0 {
		m, from, n := d.staging(uint64(len(data)))
		if m == nil {
			return d.err
		}
		copy(m.Host[from:][:n], data)
		d.Copy(to, at, m, from, n)
		data, at = data[n:], at+n
	}
	return nil
}

// stagingBytes is the size of a piece of memory through which the host writes, mostStaging how many a submission has.
const (
	stagingBytes = 4 << 20
	mostStaging  = 4
)

// staging returns a piece of memory for up to n bytes that the host writes in this submission: where, and how many.
func (d *Device) staging(n uint64) (m *Memory, at, size uint64) {
	c := d.recording()
	if c == nil {
		return nil, 0, 0
	}
	const aligned = 16
	if c.used >= stagingBytes {
		c.at, c.used = c.at+1, 0
	}
	if c.at == mostStaging { // the memory of the next command buffer is free as soon as that has run
		d.Submit()
		if c = d.recording(); c == nil {
			return nil, 0, 0
		}
	}
	if c.at == len(c.memory) {
		m, err := d.Allocate(stagingBytes, ForWrite)
		if err != nil {
			d.fail("memory to write through", err)
			return nil, 0, 0
		}
		c.memory = append(c.memory, m)
	}
	at, size = c.used, min(n, stagingBytes-c.used)
	c.used += (size + aligned - 1) / aligned * aligned
	return c.memory[c.at], at, size
}

// Read copies size bytes out, after everything that was recorded.
func (d *Device) Read(from *Memory, at uint64, out []byte) error {
	size := uint64(len(out))
	if d.reader == nil || d.reader.Size < size {
		if d.reader != nil {
			d.reader.Free() // nothing waits: Read always does
		}
		m, err := d.Allocate(max(size, 1<<16), ForRead)
		if err != nil {
			d.reader = nil
			return d.fail("memory to read through", err)
		}
		d.reader = m
	}
	d.Copy(d.reader, 0, from, at, size)
	if c := d.now; c != nil {
		d.barrier(c, stageTransfer, stageHost, accessCopyTo, accessHostRead)
	}
	if err := d.Submit(); err != nil {
		return err
	}
	if !d.waitFor(d.sent) {
		return d.err
	}
	copy(out, d.reader.Host)
	return nil
}

// Submit hands what was recorded to the device.
func (d *Device) Submit() error {
	c := d.now
	if c == nil || d.err != nil {
		return d.err
	}
	d.now = nil
	if err := call(d.fn.end, c.handle); err != nil {
		return d.fail("a command buffer", err)
	}
	d.sent++
	c.value = d.sent
	values := timelineSubmit{head: head{kind: typeTimelineSubmit}, signalCount: 1, signals: &c.value}
	info := submit{head: head{typeSubmit, unsafe.Pointer(&values)}, count: 1, commands: &c.handle, signalCount: 1,
		signals: &d.done}
	if err := call(d.fn.submit, d.queue, 1, uintptr(unsafe.Pointer(&info)), 0); err != nil {
		return d.fail("a submission", err)
	}
	return nil
}

// Submissions is how many there were.
func (d *Device) Submissions() uint64 { return d.sent }

// waitFor waits for a submission, and reports whether it has ended well.
func (d *Device) waitFor(value uint64) bool {
	if value == 0 || d.err != nil {
		return d.err == nil
	}
	info := semaphoreWait{head: head{kind: typeSemaphoreWait}, count: 1, semaphores: &d.done, values: &value}
	const forever = ^uintptr(0) // a driver ends what hangs, and says that the device is lost
	if err := call(d.fn.wait, d.handle, uintptr(unsafe.Pointer(&info)), forever); err != nil {
		d.fail("a submission", err)
	}
	return d.err == nil
}
