//go:build gpu && !windows

package vulkan

import (
	"cmp"
	"runtime"

	"github.com/ebitengine/purego"
)

// openLibrary returns the address of a function of the loader: of the first library that can be opened.
func openLibrary(function string) (uintptr, error) {
	names := []string{"libvulkan.so.1", "libvulkan.so"}
	if runtime.GOOS == "darwin" {
		names = []string{"libvulkan.1.dylib", "/usr/local/lib/libvulkan.1.dylib", "/opt/homebrew/lib/libvulkan.1.dylib",
			"libMoltenVK.dylib"}
	}
	var failed error
	for _, name := range names {
		library, err := purego.Dlopen(name, purego.RTLD_NOW|purego.RTLD_LOCAL)
		if err == nil {
			return purego.Dlsym(library, function)
		}
		failed = cmp.Or(failed, err)
	}
	return 0, failed
}
