//go:build gpu

package vulkan

import (
	"slices"
	"unsafe"

	"github.com/ebitengine/purego"
)

// commands holds the commands of one submission, and the host memory from which they copy. Commands are only listed
// until they are submitted. If a command buffer was recorded from an equal list, as for one token after another, that
// buffer is submitted again.
type commands struct {
	value    uint64 // value of the semaphore once they have run
	memory   []*Memory
	at       int    // index of the piece of memory in use
	used     uint64 // bytes of that piece
	list     []command
	recorded []*recorded
}

// command is a launch or, if kernel is nil, a copy between buffers.
type command struct {
	kernel   *Kernel
	args     [PushBytes]byte
	size     int // of args, in bytes
	groups   [3]uint32
	from, to uint64
	part     bufferCopy
	toHost   bool // whether the host reads the copy
}

// recorded is a command buffer.
type recorded struct {
	handle uintptr
	list   []command
	used   uint64 // number of its last submission
	frees  int    // d.frees when it was recorded; it may use memory that was freed later
}

const (
	// inFlight is the number of submissions that the host may be ahead of the device.
	inFlight = 4
	// mostRecorded is the number of command buffers for each of these submissions.
	mostRecorded = 4
)

// recording returns the commands that are being listed, or nil after an error.
func (d *Device) recording() *commands {
	if d.err != nil {
		return nil
	}
	if d.now != nil {
		return d.now
	}
	if len(d.commands) < inFlight {
		d.commands = append(d.commands, &commands{})
		d.now = d.commands[len(d.commands)-1]
	} else {
		d.now = d.commands[int(d.sent)%inFlight]
	}
	if !d.waitFor(d.now.value) {
		d.now = nil
		return nil
	}
	d.now.at, d.now.used, d.now.list = 0, 0, d.now.list[:0]
	return d.now
}

// recordedAs returns a command buffer with the commands of c: an existing one with an equal list, or one that it
// records now. If there are mostRecorded buffers, the least recently used one is overwritten. It returns nil after an
// error.
func (d *Device) recordedAs(c *commands) *recorded {
	var r *recorded
	for _, x := range c.recorded {
		if x.frees == d.frees && slices.Equal(x.list, c.list) {
			d.replayed++
			return x
		}
		if r == nil || x.used < r.used {
			r = x
		}
	}
	if len(c.recorded) < mostRecorded {
		r = &recorded{}
		info := commandBufferAllocate{head: head{kind: typeCommandBufferAllocate}, pool: d.pool, count: 1}
		if err := call(d.fn.allocateCommands, d.handle, uintptr(unsafe.Pointer(&info)),
			uintptr(unsafe.Pointer(&r.handle))); err != nil {
			d.fail("a command buffer", err)
			return nil
		}
		c.recorded = append(c.recorded, r)
	}
	r.list, c.list, r.frees = c.list, r.list, d.frees
	if err := d.record(r); err != nil {
		d.fail("a command buffer", err)
		return nil
	}
	return r
}

// record records the list of a command buffer into it.
func (d *Device) record(r *recorded) error {
	info := commandBufferBegin{head: head{kind: typeCommandBufferBegin}}
	if err := call(d.fn.begin, r.handle, uintptr(unsafe.Pointer(&info))); err != nil {
		return err
	}
	var bound *Kernel
	for i := range r.list {
		d.order(r.handle, i == 0)
		c := &r.list[i]
		if c.kernel == nil {
			purego.SyscallN(d.fn.copyBuffer, r.handle, uintptr(c.from), uintptr(c.to), 1,
				uintptr(unsafe.Pointer(&c.part)))
			if c.toHost {
				d.barrier(r.handle, stageTransfer, stageHost, accessCopyTo, accessHostRead)
			}
			continue
		}
		if bound != c.kernel {
			const compute = 1
			purego.SyscallN(d.fn.bindPipeline, r.handle, compute, uintptr(c.kernel.pipeline))
			bound = c.kernel
		}
		purego.SyscallN(d.fn.push, r.handle, uintptr(d.layout), computeStage, 0, uintptr(c.size),
			uintptr(unsafe.Pointer(&c.args)))
		purego.SyscallN(d.fn.dispatch, r.handle, uintptr(c.groups[0]), uintptr(c.groups[1]), uintptr(c.groups[2]))
	}
	return call(d.fn.end, r.handle)
}

// order records a barrier: later commands wait for all earlier ones and see their writes.
func (d *Device) order(buffer uintptr, first bool) {
	if first { // see the writes of earlier submissions and of the host
		d.barrier(buffer, stageCompute|stageTransfer|stageHost, stageCompute|stageTransfer,
			accessWrite|accessCopyTo|accessHostWrite, accessRead|accessWrite|accessCopyFrom|accessCopyTo)
		return
	}
	d.barrier(buffer, stageCompute|stageTransfer, stageCompute|stageTransfer, accessWrite|accessCopyTo,
		accessRead|accessWrite|accessCopyFrom|accessCopyTo)
}

func (d *Device) barrier(buffer uintptr, from, to, wrote, sees uint32) {
	b := memoryBarrier{head: head{kind: typeMemoryBarrier}, from: wrote, to: sees}
	purego.SyscallN(d.fn.barrier, buffer, uintptr(from), uintptr(to), 0, 1, uintptr(unsafe.Pointer(&b)), 0, 0, 0, 0)
}

// Launch records a launch of groups workgroups with arguments of at most PushBytes.
func (d *Device) Launch(k *Kernel, args []byte, groups [3]uint32) {
	if c := d.recording(); c != nil && k != nil {
		c.list = append(c.list, command{kernel: k, size: len(args), groups: groups})
		copy(c.list[len(c.list)-1].args[:], args)
	}
}

// Copy records a copy of size bytes within the device's memory. The ranges must not overlap.
func (d *Device) Copy(to *Memory, at uint64, from *Memory, start, size uint64) {
	d.copy(to, from, bufferCopy{from: start, to: at, size: size}, false)
}

func (d *Device) copy(to, from *Memory, part bufferCopy, toHost bool) {
	if c := d.recording(); c != nil && part.size > 0 {
		c.list = append(c.list, command{from: from.buffer, to: to.buffer, part: part, toHost: toHost})
	}
}

// Write records a copy of bytes of the host. data may be changed as soon as Write returns.
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

// stagingBytes is the size of a piece of staging memory, which the host writes. mostStaging is the number of pieces for
// each submission.
const (
	stagingBytes = 4 << 20
	mostStaging  = 4
)

// staging returns staging memory for up to n bytes of this submission: the piece, the offset and the number of bytes.
func (d *Device) staging(n uint64) (m *Memory, at, size uint64) {
	c := d.recording()
	if c == nil {
		return nil, 0, 0
	}
	const aligned = 16
	if c.used >= stagingBytes {
		c.at, c.used = c.at+1, 0
	}
	if c.at == mostStaging { // staging memory of the next commands is free once their last submission has run
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

// Read copies len(out) bytes from the device, after all recorded work.
func (d *Device) Read(from *Memory, at uint64, out []byte) error {
	size := uint64(len(out))
	if d.reader == nil || d.reader.Size < size {
		if d.reader != nil {
			d.reader.Free() // not in use, because Read always waits
		}
		m, err := d.Allocate(max(size, 1<<16), ForRead)
		if err != nil {
			d.reader = nil
			return d.fail("memory to read through", err)
		}
		d.reader = m
	}
	d.copy(d.reader, from, bufferCopy{from: at, size: size}, true)
	if err := d.Submit(); err != nil {
		return err
	}
	if !d.waitFor(d.sent) {
		return d.err
	}
	copy(out, d.reader.Host)
	return nil
}

// Submit hands the recorded work to the device.
func (d *Device) Submit() error {
	c := d.now
	if c == nil || d.err != nil {
		return d.err
	}
	d.now = nil
	r := d.recordedAs(c)
	if r == nil {
		return d.err
	}
	d.sent++
	c.value, r.used = d.sent, d.sent
	values := timelineSubmit{head: head{kind: typeTimelineSubmit}, signalCount: 1, signals: &c.value}
	info := submit{head: head{typeSubmit, unsafe.Pointer(&values)}, count: 1, commands: &r.handle, signalCount: 1,
		signals: &d.done}
	if err := call(d.fn.submit, d.queue, 1, uintptr(unsafe.Pointer(&info)), 0); err != nil {
		return d.fail("a submission", err)
	}
	return nil
}

// Submissions returns the number of submissions, and how many of them reused a command buffer that was recorded before.
func (d *Device) Submissions() (all, replayed int) { return int(d.sent), d.replayed }

// waitFor waits for a submission and reports whether it ended without an error.
func (d *Device) waitFor(value uint64) bool {
	if value == 0 || d.err != nil {
		return d.err == nil
	}
	info := semaphoreWait{head: head{kind: typeSemaphoreWait}, count: 1, semaphores: &d.done, values: &value}
	const forever = ^uintptr(0) // a driver stops work that hangs, and reports that the device is lost
	if err := call(d.fn.wait, d.handle, uintptr(unsafe.Pointer(&info)), forever); err != nil {
		d.fail("a submission", err)
	}
	return d.err == nil
}
