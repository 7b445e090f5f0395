//go:build gpu

package vulkan

import "unsafe"

// The structs of the API (vulkan_core.h 1.3.239) that are used here, with the layout of C on 64-bit systems.

const (
	typeApplicationInfo       = 0
	typeInstanceCreate        = 1
	typeDeviceQueueCreate     = 2
	typeDeviceCreate          = 3
	typeSubmit                = 4
	typeMemoryAllocate        = 5
	typeBufferCreate          = 12
	typeShaderModuleCreate    = 16
	typeSemaphoreCreate       = 9
	typeShaderStageCreate     = 18
	typeComputePipelineCreate = 29
	typePipelineLayoutCreate  = 30
	typeCommandPoolCreate     = 39
	typeCommandBufferAllocate = 40
	typeCommandBufferBegin    = 42
	typeMemoryBarrier         = 46
	typeFeatures11            = 49
	typeFeatures12            = 51
	typeFeatures2             = 1000059000
	typeProperties2           = 1000059001
	typeMemoryProperties2     = 1000059006
	typeMemoryFlags           = 1000060000
	typeDebugMessengerCreate  = 1000128004
	typeSubgroup              = 1000094000
	typeBFloat16              = 1000141000
	typeDriverProperties      = 1000196000
	typeSubgroupFeatures      = 1000225002
	typeSemaphoreTypeCreate   = 1000207002
	typeTimelineSubmit        = 1000207003
	typeSemaphoreWait         = 1000207004
	typeMemoryBudget          = 1000237000
	typeBufferAddress         = 1000244001
	typeMatrixFeatures        = 1000506000
	typeMatrixProperties      = 1000506001
)

// head begins most structs.
type head struct {
	kind uint32
	next unsafe.Pointer
}

type applicationInfo struct {
	head
	name *byte
	_    uint32
	_    *byte
	_    uint32
	api  uint32
}

type instanceCreate struct {
	head
	flags          uint32
	application    *applicationInfo
	layerCount     uint32
	layers         **byte
	extensionCount uint32
	extensions     **byte
}

// extension is VkExtensionProperties.
type extension struct {
	name    [256]byte
	version uint32
}

// layer is VkLayerProperties.
type layer struct {
	name                    [256]byte
	version, implementation uint32
	description             [256]byte
}

// features2 holds the features of Vulkan 1.0, in the order of VkPhysicalDeviceFeatures.
type features2 struct {
	head
	on [55]uint32
	_  uint32
}

type features11 struct {
	head
	on [12]uint32
}

type features12 struct {
	head
	on [47]uint32
	_  uint32
}

// Indices in these lists of features.
const (
	float64Feature = 39 // of features2
	int64Feature   = 40
	int16Feature   = 41

	storage16Feature = 0 // of features11

	storage8Feature  = 2 // of features12
	float16Feature   = 7
	int8Feature      = 8
	scalarFeature    = 31
	timelineFeature  = 37
	addressesFeature = 38
	modelFeature     = 41 // of the Vulkan memory model
)

type properties2 struct {
	head
	api, driver, vendor, device, kind uint32
	name                              [256]byte
	cache                             [16]byte
	limits                            limits
	sparse                            [5]uint32
	_                                 uint32
}

type limits struct {
	_             [8]uint32
	pushConstants uint32
	_             [2]uint32
	_             [2]uint64
	_             [38]uint32
	sharedMemory  uint32
	groups        [3]uint32
	invocations   uint32
	groupSize     [3]uint32
	_             [32]uint64
}

// matrixFeatures holds the features of VK_KHR_cooperative_matrix: matrices, and safe accesses outside of buffers.
type matrixFeatures struct {
	head
	on [2]uint32
}

// subgroupFeatures holds the features of VK_EXT_subgroup_size_control: subgroups of a requested size, and full
// subgroups.
type subgroupFeatures struct {
	head
	on [2]uint32
}

// bfloat16Features holds the features of VK_KHR_shader_bfloat16: the type, its dot products, and its cooperative
// matrices.
type bfloat16Features struct {
	head
	on [3]uint32
	_  uint32
}

// matrixProperties describes a product of matrices (m, k) and (k, n), which the threads of a scope compute together.
type matrixProperties struct {
	head
	m, n, k      uint32
	a, b, c, sum uint32 // types of elements
	saturates    uint32
	scope        uint32
	_            uint32
}

// The types of matrix elements, and the scope of a subgroup.
const (
	float16Numbers  = 0
	float32Numbers  = 1
	bfloat16Numbers = 1000141000
	subgroupScope   = 3
)

type subgroupProperties struct {
	head
	size, stages, operations, quads uint32
}

type driverProperties struct {
	head
	id         uint32
	name, info [256]byte
	conforms   [4]byte
}

type queueFamily struct {
	flags, count, timestampBits uint32
	granularity                 [3]uint32
}

const computeQueue = 2

type memoryProperties2 struct {
	head
	typeCount uint32
	types     [32]struct{ flags, heap uint32 }
	heapCount uint32
	heaps     [16]struct {
		size  uint64
		flags uint32
		_     uint32
	}
}

// Flags of memory types and heaps.
const (
	deviceLocal  = 1
	hostVisible  = 2
	hostCoherent = 4
	hostCached   = 8
)

type memoryBudget struct {
	head
	budget, usage [16]uint64
}

type deviceCreate struct {
	head
	flags          uint32
	queueCount     uint32
	queues         *queueCreate
	layerCount     uint32
	layers         **byte
	extensionCount uint32
	extensions     **byte
	features       unsafe.Pointer
}

type queueCreate struct {
	head
	_, family, count uint32
	priorities       *float32
}

type bufferCreate struct {
	head
	flags       uint32
	size        uint64
	usage       uint32
	sharing     uint32
	familyCount uint32
	families    unsafe.Pointer
}

// Usages of buffers.
const (
	usageCopyFrom = 1
	usageCopyTo   = 2
	usageStorage  = 0x20
	usageAddress  = 0x20000
)

type memoryRequirements struct {
	size, alignment uint64
	types           uint32
	_               uint32
}

type memoryAllocate struct {
	head
	size uint64
	kind uint32
}

type memoryFlags struct {
	head
	flags, mask uint32
}

type bufferAddress struct {
	head
	buffer uint64
}

type shaderModuleCreate struct {
	head
	flags uint32
	size  uintptr
	code  unsafe.Pointer
}

type pipelineLayoutCreate struct {
	head
	flags    uint32
	setCount uint32
	sets     unsafe.Pointer
	count    uint32
	ranges   *pushRange
}

type pushRange struct{ stages, _, size uint32 }

const computeStage = 0x20

type shaderStage struct {
	head
	flags, stage   uint32
	module         uint64
	name           *byte
	specialization *specialization
}

type specialization struct {
	count   uint32
	entries *specializationEntry
	size    uintptr
	data    unsafe.Pointer
}

type specializationEntry struct {
	id, offset uint32
	size       uintptr
}

type computePipelineCreate struct {
	head
	flags     uint32
	stage     shaderStage
	layout    uint64
	base      uint64
	baseIndex int32
}

type commandPoolCreate struct {
	head
	flags, family uint32
}

type commandBufferAllocate struct {
	head
	pool         uint64
	level, count uint32
}

type commandBufferBegin struct {
	head
	flags   uint32
	inherit unsafe.Pointer
}

type memoryBarrier struct {
	head
	from, to uint32
}

// Stages and accesses of barriers.
const (
	stageCompute  = 0x800
	stageTransfer = 0x1000
	stageHost     = 0x4000

	accessRead      = 0x20 // of a shader
	accessWrite     = 0x40
	accessCopyFrom  = 0x800
	accessCopyTo    = 0x1000
	accessHostRead  = 0x2000
	accessHostWrite = 0x4000
)

type bufferCopy struct{ from, to, size uint64 }

type semaphoreCreate struct {
	head
	flags uint32
}

type semaphoreType struct {
	head
	kind    uint32
	initial uint64
}

const timeline = 1

type submit struct {
	head
	waitCount   uint32
	waits       unsafe.Pointer
	waitStages  unsafe.Pointer
	count       uint32
	commands    *uintptr
	signalCount uint32
	signals     *uint64
}

type timelineSubmit struct {
	head
	waitCount   uint32
	waits       unsafe.Pointer
	signalCount uint32
	signals     *uint64
}

type semaphoreWait struct {
	head
	flags, count uint32
	semaphores   *uint64
	values       *uint64
}

type debugMessengerCreate struct {
	head
	flags, severities, types uint32
	callback                 uintptr
	user                     unsafe.Pointer
}

// debugMessage is the part of VkDebugUtilsMessengerCallbackDataEXT that is read here.
type debugMessage struct {
	_    head
	_    uint32
	_    *byte
	_    int32
	text *byte
}
