//go:build gpu

package vulkan

import "golang.org/x/sys/windows"

// open returns the address of a function of a library.
func open(name, function string) (uintptr, error) {
	library, err := windows.LoadLibraryEx(name, 0, windows.LOAD_LIBRARY_SEARCH_DEFAULT_DIRS)
	if err != nil {
		return 0, err
	}
	return windows.GetProcAddress(library, function)
}
