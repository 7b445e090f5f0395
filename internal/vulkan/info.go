//go:build gpu

package vulkan

import (
	"fmt"
	"slices"
	"strings"
	"unsafe"

	"github.com/ebitengine/purego"
)

// Info describes a device.
type Info struct {
	Name    string `json:"name"`
	Kind    string `json:"kind"`   // discrete GPU, integrated GPU, virtual GPU, CPU, other
	Driver  string `json:"driver"` // name and version
	API     string `json:"api"`    // version of Vulkan
	Memory  uint64 `json:"memory"` // bytes of the largest heap on the device
	Free    uint64 `json:"free"`   // bytes of it that a program may still allocate; 0 if unknown
	Shared  bool   `json:"shared"` // whether the host can access the device's memory
	Float16 bool   `json:"float16"`
	Int8    bool   `json:"int8"`
	Float64 bool   `json:"float64"`
	// Matrices lists the cooperative matrix products of the device whose number types kernels use.
	Matrices []Matrix `json:"matrices,omitempty"`
	Subgroup int      `json:"subgroup"` // number of threads that run in lockstep and cooperate on a matrix
	// Lacks lists what hippo needs and the device does not have. It is empty for a device that can be opened.
	Lacks []string `json:"lacks,omitempty"`
}

// Matrix is a product of an (M, K) matrix with a (K, N) matrix, which the threads of a subgroup compute together. The
// sums are float32.
type Matrix struct {
	Of string `json:"of"` // type of the operands: bfloat16 or float16
	M  int    `json:"m"`
	N  int    `json:"n"`
	K  int    `json:"k"`
}

// Has returns the names of the device's features beyond those that hippo needs.
func (d Info) Has() string {
	var all []string
	for _, x := range []struct {
		name string
		has  bool
	}{{"float16", d.Float16}, {"int8", d.Int8}, {"float64", d.Float64}, {"memory shared with the host", d.Shared},
		{"cooperative matrices of bfloat16", d.multiplies("bfloat16")},
		{"cooperative matrices of float16", d.multiplies("float16")}} {
		if x.has {
			all = append(all, x.name)
		}
	}
	return strings.Join(all, ", ")
}

func (d Info) multiplies(numbers string) bool {
	return slices.ContainsFunc(d.Matrices, func(m Matrix) bool { return m.Of == numbers })
}

var kinds = []string{"other", "integrated GPU", "discrete GPU", "virtual GPU", "CPU"}

// physical describes a device that may not be opened yet.
type physical struct {
	Info
	handle     uintptr
	limits     limits
	family     uint32 // queue family that can compute
	memory     memoryProperties2
	extensions map[string]bool
	features   features12 // the head of a chain of further features
	matrix     matrixFeatures
	subgroups  subgroupFeatures
	bfloat16   bfloat16Features
}

// Devices returns descriptions of all devices, in the driver's order.
func (in *Instance) Devices() []Info {
	all := make([]Info, len(in.physical))
	for i := range all {
		all[i] = in.describe(i).Info
	}
	return all
}

// describe queries the driver for everything about device i.
func (in *Instance) describe(i int) *physical {
	p := &physical{handle: in.physical[i]}
	p.extensions = in.deviceExtensions(p.handle)
	subgroup := &subgroupProperties{head: head{kind: typeSubgroup}}
	driver := &driverProperties{head: head{typeDriverProperties, unsafe.Pointer(subgroup)}}
	about := &properties2{head: head{typeProperties2, unsafe.Pointer(driver)}}
	purego.SyscallN(in.function("vkGetPhysicalDeviceProperties2"), p.handle, uintptr(unsafe.Pointer(about)))
	p.limits = about.limits
	p.Name, p.API = until(about.name[:]), version(about.api)
	p.Driver = strings.TrimSpace(until(driver.name[:]) + " " + until(driver.info[:]))
	if p.Kind = kinds[0]; int(about.kind) < len(kinds) {
		p.Kind = kinds[about.kind]
	}
	p.heaps(in)
	all := p.ask(in)
	p.Float16, p.Int8 = p.features.on[float16Feature] != 0, p.features.on[int8Feature] != 0
	p.Float64 = all.on[float64Feature] != 0
	p.Subgroup = int(subgroup.size)
	if p.matrix.on[0] != 0 && p.subgroups.on[1] != 0 && p.features.on[modelFeature] != 0 {
		p.Matrices = matricesOf(in.matrices(p.handle), p.Float16, p.bfloat16.on[2] != 0)
	}
	p.missing(about.api, all, p.queues(in))
	return p
}

// ask queries the features. It returns those of Vulkan 1.0, whose chain holds those of 1.1 and 1.2.
func (p *physical) ask(in *Instance) *features2 {
	p.features.head = head{kind: typeFeatures12}
	for _, x := range []struct {
		extension string
		head      *head
		kind      uint32
	}{{cooperativeMatrix, &p.matrix.head, typeMatrixFeatures}, {shaderBFloat16, &p.bfloat16.head, typeBFloat16},
		{subgroupSize, &p.subgroups.head, typeSubgroupFeatures}} {
		if p.extensions[x.extension] {
			*x.head = head{x.kind, p.features.next}
			p.features.next = unsafe.Pointer(x.head)
		}
	}
	eleven := &features11{head: head{typeFeatures11, unsafe.Pointer(&p.features)}}
	all := &features2{head: head{typeFeatures2, unsafe.Pointer(eleven)}}
	purego.SyscallN(in.function("vkGetPhysicalDeviceFeatures2"), p.handle, uintptr(unsafe.Pointer(all)))
	return all
}

// The extensions that cooperative matrices need.
const (
	cooperativeMatrix = "VK_KHR_cooperative_matrix"
	shaderBFloat16    = "VK_KHR_shader_bfloat16"
	subgroupSize      = "VK_EXT_subgroup_size_control" // kernels with matrices need full subgroups
)

// matrices queries the driver for its cooperative matrix products.
func (in *Instance) matrices(physical uintptr) []matrixProperties {
	f, count := in.function("vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR"), uint32(0)
	if f == 0 || call(f, physical, uintptr(unsafe.Pointer(&count)), 0) != nil || count == 0 {
		return nil
	}
	all := make([]matrixProperties, count)
	for i := range all {
		all[i].kind = typeMatrixProperties
	}
	if call(f, physical, uintptr(unsafe.Pointer(&count)), uintptr(unsafe.Pointer(&all[0]))) != nil {
		return nil
	}
	return all[:count]
}

// matricesOf returns the products that kernels can use: those of float16 or bfloat16 numbers, if shaders support these,
// with float32 sums, computed by a subgroup.
func matricesOf(all []matrixProperties, float16, bfloat16 bool) (out []Matrix) {
	for _, x := range all {
		if x.a != x.b || x.c != float32Numbers || x.sum != float32Numbers || x.scope != subgroupScope {
			continue
		}
		of := ""
		switch {
		case x.a == bfloat16Numbers && bfloat16:
			of = "bfloat16"
		case x.a == float16Numbers && float16:
			of = "float16"
		default:
			continue
		}
		out = append(out, Matrix{of, int(x.m), int(x.n), int(x.k)})
	}
	return out
}

// heaps queries the memory of the device.
func (p *physical) heaps(in *Instance) {
	budget := &memoryBudget{head: head{kind: typeMemoryBudget}}
	p.memory.head = head{kind: typeMemoryProperties2}
	if p.extensions["VK_EXT_memory_budget"] {
		p.memory.next = unsafe.Pointer(budget)
	}
	purego.SyscallN(in.function("vkGetPhysicalDeviceMemoryProperties2"), p.handle, uintptr(unsafe.Pointer(&p.memory)))
	p.memory.next = nil
	for i, h := range p.memory.heaps[:p.memory.heapCount] {
		if h.flags&deviceLocal != 0 && h.size > p.Memory {
			p.Memory, p.Free = h.size, budget.budget[i]-min(budget.budget[i], budget.usage[i])
		}
	}
	if t := p.memoryType(^uint32(0), deviceLocal); t >= 0 {
		p.Shared = p.memory.types[t].flags&hostVisible != 0
	}
}

// memoryType returns the first of the allowed memory types that has all flags, or -1.
func (p *physical) memoryType(allowed, flags uint32) int {
	for i, t := range p.memory.types[:p.memory.typeCount] {
		if allowed>>i&1 != 0 && t.flags&flags == flags {
			return i
		}
	}
	return -1
}

// queues finds a queue family that can compute, and reports whether there is one.
func (p *physical) queues(in *Instance) bool {
	f, count := in.function("vkGetPhysicalDeviceQueueFamilyProperties"), uint32(0)
	purego.SyscallN(f, p.handle, uintptr(unsafe.Pointer(&count)), 0)
	if count == 0 {
		return false
	}
	all := make([]queueFamily, count)
	purego.SyscallN(f, p.handle, uintptr(unsafe.Pointer(&count)), uintptr(unsafe.Pointer(&all[0])))
	for i, q := range all[:count] {
		if q.flags&computeQueue != 0 {
			p.family = uint32(i)
			return true
		}
	}
	return false
}

// missing adds to Lacks what the device lacks.
func (p *physical) missing(api uint32, all *features2, computes bool) {
	eleven := (*features11)(all.next)
	for _, need := range []struct {
		what string
		has  bool
	}{
		{"Vulkan 1.2 (it has " + version(api) + ")", api >= version12},
		{"a queue that computes", computes},
		{"integers of 64 bits (shaderInt64)", all.on[int64Feature] != 0},
		{"integers of 16 bits (shaderInt16)", all.on[int16Feature] != 0},
		{"memory addresses (bufferDeviceAddress)", p.features.on[addressesFeature] != 0},
		{"timeline semaphores", p.features.on[timelineFeature] != 0},
		{"numbers of 8 bits in memory (storageBuffer8BitAccess)", p.features.on[storage8Feature] != 0},
		{"integers of 8 bits (shaderInt8)", p.features.on[int8Feature] != 0},
		{"numbers of 16 bits in memory (storageBuffer16BitAccess)", eleven.on[storage16Feature] != 0},
		{fmt.Sprintf("workgroups of %d with %d bytes of shared memory", groupSize, sharedMemory),
			p.limits.invocations >= groupSize && p.limits.sharedMemory >= sharedMemory},
	} {
		if !need.has {
			p.Lacks = append(p.Lacks, need.what)
		}
	}
}

// The threads and the bytes of shared memory that kernels may use in a workgroup.
const (
	groupSize    = 512
	sharedMemory = 32 << 10
)

func (in *Instance) deviceExtensions(physical uintptr) map[string]bool {
	f, count := in.function("vkEnumerateDeviceExtensionProperties"), uint32(0)
	if call(f, physical, 0, uintptr(unsafe.Pointer(&count)), 0) != nil || count == 0 {
		return nil
	}
	all := make([]extension, count)
	if call(f, physical, 0, uintptr(unsafe.Pointer(&count)), uintptr(unsafe.Pointer(&all[0]))) != nil {
		return nil
	}
	return named(all[:count])
}
