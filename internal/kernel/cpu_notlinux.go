//go:build !linux

package kernel

// tilesAllowed returns false: on this system hippo does not ask whether the process may use tiles of AMX.
func tilesAllowed() bool { return false }
