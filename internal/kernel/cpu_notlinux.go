//go:build !linux

package kernel

// tilesAllowed reports whether the system lets the process use tiles of AMX: nobody asks it.
func tilesAllowed() bool { return false }
