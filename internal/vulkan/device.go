//go:build gpu

package vulkan

import (
	"fmt"
	"strings"
	"unsafe"

	"github.com/ebitengine/purego"
)

// Device is an open device with one queue. Only one goroutine may use it at a time.
//
// Launches and copies are recorded. They run in the order in which they were recorded, each after the previous one has
// ended. Submit hands them to the device. Read waits for them.
type Device struct {
	Info
	in       *Instance
	p        *physical
	handle   uintptr
	queue    uintptr
	fn       functions
	layout   uint64 // of all pipelines: only push constants
	pool     uint64
	done     uint64 // semaphore whose value is the number of finished submissions
	sent     uint64 // submissions
	replayed int    // submissions of command buffers that were recorded before
	frees    int    // number of calls of Memory.Free
	commands []*commands
	now      *commands        // being listed; nil for none
	reader   *Memory          // through which Read copies
	memory   map[*Memory]bool // that was not freed yet
	kernels  []*Kernel
	err      error
}

// functions holds the addresses of the functions of a device.
type functions struct {
	createBuffer, destroyBuffer, requirements, allocate, free, bind, mapMemory, address uintptr
	createModule, destroyModule, createLayout, destroyLayout, createPipelines, destroyPipeline,
	createPool, destroyPool, allocateCommands, begin, end, reset uintptr
	bindPipeline, push, dispatch, barrier, copyBuffer, fill                  uintptr
	createSemaphore, destroySemaphore, wait, submit, idle, destroy, getQueue uintptr
}

// Open opens device i of Devices. If the device cannot be opened because it lacks something, the error names what.
func (in *Instance) Open(i int) (*Device, error) {
	if i < 0 || i >= len(in.physical) {
		return nil, fmt.Errorf("found %d devices, want one with the number %d", len(in.physical), i)
	}
	p := in.describe(i)
	if len(p.Lacks) > 0 {
		return nil, fmt.Errorf("the device %s lacks %s", p.Name, strings.Join(p.Lacks, ", "))
	}
	d := &Device{Info: p.Info, in: in, p: p, memory: map[*Memory]bool{}}
	priority := float32(1)
	queue := queueCreate{head: head{kind: typeDeviceQueueCreate}, family: p.family, count: 1, priorities: &priority}
	var extensions []string
	if p.extensions["VK_KHR_portability_subset"] { // must be enabled if present
		extensions = append(extensions, "VK_KHR_portability_subset")
	}
	if len(p.Matrices) > 0 {
		extensions = append(extensions, cooperativeMatrix, subgroupSize)
	}
	if p.multiplies("bfloat16") {
		extensions = append(extensions, shaderBFloat16)
	}
	info := deviceCreate{head: head{typeDeviceCreate, unsafe.Pointer(p.wanted())}, queueCount: 1, queues: &queue,
		extensionCount: uint32(len(extensions)), extensions: texts(extensions...)}
	err := call(in.function("vkCreateDevice"), p.handle, uintptr(unsafe.Pointer(&info)), 0,
		uintptr(unsafe.Pointer(&d.handle)))
	if err != nil {
		return nil, fmt.Errorf("the device %s cannot be opened: %w", p.Name, err)
	}
	if err := d.start(); err != nil {
		d.Close()
		return nil, fmt.Errorf("the device %s cannot be used: %w", p.Name, err)
	}
	return d, nil
}

// wanted returns the features to enable: those that hippo needs, and matrices if the device has them.
func (p *physical) wanted() *features2 {
	twelve := &features12{head: head{kind: typeFeatures12}}
	if len(p.Matrices) > 0 {
		twelve.on[modelFeature], twelve.on[float16Feature] = 1, p.features.on[float16Feature]
		whole := &subgroupFeatures{head{kind: typeSubgroupFeatures}, [2]uint32{0, 1}}
		twelve.next = unsafe.Pointer(&matrixFeatures{head{typeMatrixFeatures, unsafe.Pointer(whole)}, [2]uint32{1}})
	}
	if p.multiplies("bfloat16") {
		twelve.next = unsafe.Pointer(&bfloat16Features{head{typeBFloat16, twelve.next}, [3]uint32{1, 0, 1}, 0})
	}
	for _, i := range []int{storage8Feature, int8Feature, scalarFeature, timelineFeature, addressesFeature} {
		twelve.on[i] = p.features.on[i]
	}
	eleven := &features11{head: head{typeFeatures11, unsafe.Pointer(twelve)}}
	eleven.on[storage16Feature] = 1
	all := &features2{head: head{typeFeatures2, unsafe.Pointer(eleven)}}
	all.on[int64Feature], all.on[int16Feature] = 1, 1
	return all
}

func (d *Device) start() error {
	proc := d.in.function("vkGetDeviceProcAddr")
	for name, f := range map[string]*uintptr{
		"vkCreateBuffer": &d.fn.createBuffer, "vkDestroyBuffer": &d.fn.destroyBuffer,
		"vkGetBufferMemoryRequirements": &d.fn.requirements, "vkAllocateMemory": &d.fn.allocate,
		"vkFreeMemory": &d.fn.free, "vkBindBufferMemory": &d.fn.bind, "vkMapMemory": &d.fn.mapMemory,
		"vkGetBufferDeviceAddress": &d.fn.address, "vkCreateShaderModule": &d.fn.createModule,
		"vkDestroyShaderModule": &d.fn.destroyModule, "vkCreatePipelineLayout": &d.fn.createLayout,
		"vkDestroyPipelineLayout": &d.fn.destroyLayout, "vkCreateComputePipelines": &d.fn.createPipelines,
		"vkDestroyPipeline": &d.fn.destroyPipeline, "vkCreateCommandPool": &d.fn.createPool,
		"vkDestroyCommandPool": &d.fn.destroyPool, "vkAllocateCommandBuffers": &d.fn.allocateCommands,
		"vkBeginCommandBuffer": &d.fn.begin, "vkEndCommandBuffer": &d.fn.end, "vkResetCommandBuffer": &d.fn.reset,
		"vkCmdBindPipeline": &d.fn.bindPipeline, "vkCmdPushConstants": &d.fn.push, "vkCmdDispatch": &d.fn.dispatch,
		"vkCmdPipelineBarrier": &d.fn.barrier, "vkCmdCopyBuffer": &d.fn.copyBuffer, "vkCmdFillBuffer": &d.fn.fill,
		"vkCreateSemaphore": &d.fn.createSemaphore, "vkDestroySemaphore": &d.fn.destroySemaphore,
		"vkWaitSemaphores": &d.fn.wait, "vkQueueSubmit": &d.fn.submit, "vkDeviceWaitIdle": &d.fn.idle,
		"vkDestroyDevice": &d.fn.destroy, "vkGetDeviceQueue": &d.fn.getQueue,
	} {
		*f, _, _ = purego.SyscallN(proc, d.handle, uintptr(unsafe.Pointer(text(name))))
		if *f == 0 {
			return fmt.Errorf("its driver has no %s", name)
		}
	}
	purego.SyscallN(d.fn.getQueue, d.handle, uintptr(d.p.family), 0, uintptr(unsafe.Pointer(&d.queue)))
	push := pushRange{stages: computeStage, size: PushBytes}
	layout := pipelineLayoutCreate{head: head{kind: typePipelineLayoutCreate}, count: 1, ranges: &push}
	const resetOne = 2 // buffers are reset one by one
	pool := commandPoolCreate{head: head{kind: typeCommandPoolCreate}, flags: resetOne, family: d.p.family}
	kind := semaphoreType{head: head{kind: typeSemaphoreTypeCreate}, kind: timeline}
	semaphore := semaphoreCreate{head: head{typeSemaphoreCreate, unsafe.Pointer(&kind)}}
	if err := call(d.fn.createLayout, d.handle, uintptr(unsafe.Pointer(&layout)), 0,
		uintptr(unsafe.Pointer(&d.layout))); err != nil {
		return err
	}
	if err := call(d.fn.createPool, d.handle, uintptr(unsafe.Pointer(&pool)), 0,
		uintptr(unsafe.Pointer(&d.pool))); err != nil {
		return err
	}
	return call(d.fn.createSemaphore, d.handle, uintptr(unsafe.Pointer(&semaphore)), 0,
		uintptr(unsafe.Pointer(&d.done)))
}

// Close waits for the device, frees all of its memory, and closes it.
func (d *Device) Close() {
	if d.fn.idle != 0 {
		call(d.fn.idle, d.handle)
	}
	for m := range d.memory {
		m.Free()
	}
	for _, k := range d.kernels {
		purego.SyscallN(d.fn.destroyPipeline, d.handle, uintptr(k.pipeline), 0)
		purego.SyscallN(d.fn.destroyModule, d.handle, uintptr(k.module), 0)
	}
	for _, x := range []struct {
		f  uintptr
		of uint64
	}{{d.fn.destroySemaphore, d.done}, {d.fn.destroyPool, d.pool}, {d.fn.destroyLayout, d.layout}} {
		if x.of != 0 {
			purego.SyscallN(x.f, d.handle, uintptr(x.of), 0)
		}
	}
	if d.fn.destroy != 0 {
		purego.SyscallN(d.fn.destroy, d.handle, 0)
	}
	d.commands, d.kernels, d.now = nil, nil, nil
}

// Failed returns the first error of the device, or nil. After an error nothing more is recorded.
func (d *Device) Failed() error { return d.err }

// fail stores the first error and returns it.
func (d *Device) fail(what string, err error) error {
	if d.err == nil {
		d.err = fmt.Errorf("the device %s: %s: %w", d.Name, what, err)
	}
	return d.err
}
