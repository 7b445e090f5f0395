//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package disk

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// TryLock locks an open file exclusively, or with shared for any number of shared locks, without waiting. ok is false
// when others hold the lock. The lock ends when the file is closed or the process ends. The error is
// errors.ErrUnsupported if there are no such locks, as on some network file systems.
func TryLock(f *os.File, shared bool) (ok bool, err error) {
	how := unix.LOCK_EX
	if shared {
		how = unix.LOCK_SH
	}
	for {
		err = unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		return false, nil
	case errors.Is(err, unix.ENOLCK), errors.Is(err, errors.ErrUnsupported):
		return false, errors.ErrUnsupported
	case err != nil:
		return false, &os.PathError{Op: "lock", Path: f.Name(), Err: err}
	}
	return true, nil
}
