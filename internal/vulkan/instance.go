//go:build gpu

package vulkan

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"
)

// Instance is a connection to the loader, and through it to the drivers of all devices.
type Instance struct {
	handle   uintptr
	proc     uintptr // vkGetInstanceProcAddr
	physical []uintptr

	messenger uint64 // of the validation layer; 0 for none

	mu       sync.Mutex
	messages []string // of the validation layer
}

// Result is a negative VkResult, which is an error.
type Result int32

// Lost is VK_ERROR_DEVICE_LOST: the device stopped, and neither it nor its memory can be used any more.
const Lost Result = -4

var resultNames = map[Result]string{
	-1: "the host has too little memory", -2: "the device has too little memory", -3: "initialization failed",
	Lost: "the device was lost", -5: "memory could not be mapped", -6: "a layer is missing",
	-7: "an extension is missing", -8: "a feature is missing", -9: "no driver fits", -10: "too many objects",
	-13: "unknown error",
}

func (r Result) Error() string {
	if name := resultNames[r]; name != "" {
		return name
	}
	return fmt.Sprintf("error %d", int32(r))
}

// call calls a function of the API that returns a VkResult.
//
//go:uintptrescapes
func call(function uintptr, args ...uintptr) error {
	r, _, _ := purego.SyscallN(function, args...)
	if int32(r) < 0 {
		return Result(int32(r))
	}
	return nil
}

// text returns s as a C string.
func text(s string) *byte { return &append([]byte(s), 0)[0] }

// texts returns an array of C strings, or nil if there are none.
func texts(all ...string) **byte {
	if len(all) == 0 {
		return nil
	}
	out := make([]*byte, len(all))
	for i, s := range all {
		out[i] = text(s)
	}
	return &out[0]
}

// until returns the string in a C array.
func until(x []byte) string {
	x, _, _ = bytes.Cut(x, []byte{0})
	return string(x)
}

// validation is the name of the layer that checks the use of the API.
const validation = "VK_LAYER_KHRONOS_validation"

// Open opens the loader and lists the devices of its drivers. If validate is set, the validation layer checks every
// call, and Messages returns its messages; if that layer is not installed Open fails. Errors name what is missing.
func Open(validate bool) (*Instance, error) {
	proc, err := openLibrary("vkGetInstanceProcAddr")
	if err != nil {
		return nil, fmt.Errorf("found no Vulkan loader (%w): install the driver of the graphics card; "+
			"on Debian and Ubuntu the loader is the package libvulkan1", err)
	}
	in := &Instance{proc: proc}
	api := uint32(0)
	if f := in.function("vkEnumerateInstanceVersion"); f != 0 {
		if err := call(f, uintptr(unsafe.Pointer(&api))); err != nil {
			return nil, fmt.Errorf("the Vulkan loader does not answer: %w", err)
		}
	}
	if api < version12 {
		return nil, fmt.Errorf("found a Vulkan loader of version %s, want 1.2 or newer", version(api))
	}
	if err := in.create(validate); err != nil {
		in.Close()
		return nil, err
	}
	list := in.function("vkEnumeratePhysicalDevices")
	count := uint32(0)
	err = call(list, in.handle, uintptr(unsafe.Pointer(&count)), 0)
	if err == nil && count > 0 {
		in.physical = make([]uintptr, count)
		err = call(list, in.handle, uintptr(unsafe.Pointer(&count)), uintptr(unsafe.Pointer(&in.physical[0])))
		in.physical = in.physical[:count]
	}
	if err == nil && count == 0 {
		err = errNoDriver
	}
	if err != nil {
		in.Close()
		return nil, noDriver(err)
	}
	return in, nil
}

const errNoDriver = Result(-9)

func noDriver(err error) error {
	if err == errNoDriver {
		return fmt.Errorf("found a Vulkan loader, but no driver: install that of the graphics card")
	}
	return fmt.Errorf("the Vulkan drivers do not start: %w", err)
}

const version12 = 1<<22 | 2<<12

func version(v uint32) string { return fmt.Sprintf("%d.%d.%d", v>>22&0x7f, v>>12&0x3ff, v&0xfff) }

func (in *Instance) create(validate bool) error {
	info := instanceCreate{head: head{kind: typeInstanceCreate},
		application: &applicationInfo{head: head{kind: typeApplicationInfo}, name: text("hippo"), api: version12}}
	has := in.extensions()
	var extensions []string
	if has["VK_KHR_portability_enumeration"] { // lists drivers such as MoltenVK
		extensions = append(extensions, "VK_KHR_portability_enumeration")
		info.flags = 1
	}
	if validate {
		if !in.hasLayer(validation) {
			return fmt.Errorf("found no layer %s: on Debian and Ubuntu it is the package vulkan-validationlayers",
				validation)
		}
		info.layerCount, info.layers = 1, texts(validation)
		extensions = append(extensions, "VK_EXT_debug_utils")
	}
	info.extensionCount, info.extensions = uint32(len(extensions)), texts(extensions...)
	err := call(in.function("vkCreateInstance"), uintptr(unsafe.Pointer(&info)), 0, uintptr(unsafe.Pointer(&in.handle)))
	if err != nil {
		return noDriver(err)
	}
	if validate {
		return in.listen()
	}
	return nil
}

// listen collects the warnings and errors of the validation layer.
func (in *Instance) listen() error {
	info := debugMessengerCreate{head: head{kind: typeDebugMessengerCreate}, severities: 0x1100, types: 7}
	info.callback = purego.NewCallback(func(_, _ uint32, m *debugMessage, _ unsafe.Pointer) uintptr {
		in.mu.Lock()
		defer in.mu.Unlock()
		n := 0
		for *(*byte)(unsafe.Add(unsafe.Pointer(m.text), n)) != 0 {
			n++
		}
		in.messages = append(in.messages, strings.Clone(unsafe.String(m.text, n)))
		return 0
	})
	return call(in.function("vkCreateDebugUtilsMessengerEXT"), in.handle, uintptr(unsafe.Pointer(&info)), 0,
		uintptr(unsafe.Pointer(&in.messenger)))
}

// Messages returns the messages of the validation layer since the last call.
func (in *Instance) Messages() []string {
	in.mu.Lock()
	defer in.mu.Unlock()
	out := in.messages
	in.messages = nil
	return out
}

// extensions returns the extensions of the loader.
func (in *Instance) extensions() map[string]bool {
	f, count := in.function("vkEnumerateInstanceExtensionProperties"), uint32(0)
	if call(f, 0, uintptr(unsafe.Pointer(&count)), 0) != nil || count == 0 {
		return nil
	}
	all := make([]extension, count)
	if call(f, 0, uintptr(unsafe.Pointer(&count)), uintptr(unsafe.Pointer(&all[0]))) != nil {
		return nil
	}
	return named(all[:count])
}

func named(all []extension) map[string]bool {
	names := map[string]bool{}
	for i := range all {
		names[until(all[i].name[:])] = true
	}
	return names
}

func (in *Instance) hasLayer(name string) bool {
	f, count := in.function("vkEnumerateInstanceLayerProperties"), uint32(0)
	if call(f, uintptr(unsafe.Pointer(&count)), 0) != nil || count == 0 {
		return false
	}
	all := make([]layer, count)
	if call(f, uintptr(unsafe.Pointer(&count)), uintptr(unsafe.Pointer(&all[0]))) != nil {
		return false
	}
	for i := range all[:count] {
		if until(all[i].name[:]) == name {
			return true
		}
	}
	return false
}

// function returns the address of a function of the instance or, before there is an instance, of the loader. It returns
// 0 if there is none.
func (in *Instance) function(name string) uintptr {
	s := text(name)
	f, _, _ := purego.SyscallN(in.proc, in.handle, uintptr(unsafe.Pointer(s)))
	runtime.KeepAlive(s)
	return f
}

// Close closes the connection. All devices must be closed before.
func (in *Instance) Close() {
	if in.messenger != 0 {
		purego.SyscallN(in.function("vkDestroyDebugUtilsMessengerEXT"), in.handle, uintptr(in.messenger), 0)
		in.messenger = 0
	}
	if in.handle != 0 {
		purego.SyscallN(in.function("vkDestroyInstance"), in.handle, 0)
		in.handle = 0
	}
}
