//go:build !windows

package disk

// removeOpen reports that an open file can be removed and renamed, so that nobody can lock it in between.
const removeOpen = true
