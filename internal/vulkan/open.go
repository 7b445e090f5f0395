//go:build gpu

package vulkan

import (
	"cmp"
	"runtime"
)

// libraries holds the file names of the loader by operating system. The key "" stands for all other systems.
var libraries = map[string][]string{
	"windows": {"vulkan-1.dll"},
	"darwin": {"libvulkan.1.dylib", "/usr/local/lib/libvulkan.1.dylib", "/opt/homebrew/lib/libvulkan.1.dylib",
		"libMoltenVK.dylib"},
	"": {"libvulkan.so.1", "libvulkan.so"},
}

// openLibrary returns the address of a function of the loader, in the first library that can be opened.
func openLibrary(function string) (address uintptr, err error) {
	names := libraries[runtime.GOOS]
	if names == nil {
		names = libraries[""]
	}
	for _, name := range names {
		found, failed := open(name, function)
		if failed == nil {
			return found, nil
		}
		err = cmp.Or(err, failed)
	}
	return 0, err
}
