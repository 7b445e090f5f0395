//go:build gpu && !windows

package vulkan

import "github.com/ebitengine/purego"

// open returns the address of a function of a library.
func open(name, function string) (uintptr, error) {
	library, err := purego.Dlopen(name, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return 0, err
	}
	return purego.Dlsym(library, function)
}
