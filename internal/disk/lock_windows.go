package disk

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// TryLock locks an open file exclusively, or with shared for any number of shared locks, without waiting. ok is false
// when others hold the lock. The lock ends when the file is closed or the process ends. It locks a byte far past the
// end, so that the content can be read and written.
func TryLock(f *os.File, shared bool) (ok bool, err error) {
	flags := uint32(windows.LOCKFILE_FAIL_IMMEDIATELY)
	if !shared {
		flags |= windows.LOCKFILE_EXCLUSIVE_LOCK
	}
	err = windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, &windows.Overlapped{OffsetHigh: 1 << 30})
	switch {
	case errors.Is(err, windows.ERROR_LOCK_VIOLATION), errors.Is(err, windows.ERROR_IO_PENDING):
		return false, nil
	case err != nil:
		return false, &os.PathError{Op: "lock", Path: f.Name(), Err: err}
	}
	return true, nil
}
