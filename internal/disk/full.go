package disk

import (
	"errors"
	"runtime"
	"slices"
	"syscall"
)

// full lists the errors of a disk that accepts no more data, but can be read.
var full = []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EFBIG}

// IsFull reports whether an error means that a disk accepts no more data: it is full, a quota is used up, or it is
// read-only.
func IsFull(err error) bool {
	const handleFull, diskFull, protected = syscall.Errno(39), syscall.Errno(112), syscall.Errno(19) // on Windows
	if runtime.GOOS == "windows" && (errors.Is(err, handleFull) || errors.Is(err, diskFull) ||
		errors.Is(err, protected)) {
		return true
	}
	return slices.ContainsFunc(full, func(e error) bool { return errors.Is(err, e) })
}
