//go:build !darwin && !dragonfly && !freebsd && !linux && !netbsd && !openbsd && !windows

package disk

import (
	"errors"
	"os"
)

// TryLock fails, because this system has no locks that end with the process.
func TryLock(*os.File, bool) (ok bool, err error) { return false, errors.ErrUnsupported }
