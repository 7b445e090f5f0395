//go:build !windows

package disk

// removeOpen says that an open file can be removed and renamed, so that nobody can lock it in between.
const removeOpen = true
