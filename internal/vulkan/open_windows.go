//go:build gpu

package vulkan

import "golang.org/x/sys/windows"

// openLibrary returns the address of a function of the loader.
func openLibrary(function string) (uintptr, error) {
	library, err := windows.LoadLibraryEx("vulkan-1.dll", 0, windows.LOAD_LIBRARY_SEARCH_DEFAULT_DIRS)
	if err != nil {
		return 0, err
	}
	return windows.GetProcAddress(library, function)
}
