//go:build !amd64

package kernel

// machineLevels returns the levels that there are kernels for: on this architecture the portable ones.
func machineLevels() []level { return []level{generic} }
