//go:build !linux

package hugepage

// advise does nothing: other systems choose the page size.
func advise([]byte) {}
