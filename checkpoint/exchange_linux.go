package checkpoint

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// exchange swaps the names of two folders in one step. It returns errors.ErrUnsupported if the kernel, its sandbox or
// the file system cannot do that.
func exchange(a, b string) error {
	err := unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
	switch err {
	case nil:
		return nil
	case unix.ENOSYS, unix.EINVAL, unix.ENOTSUP, unix.EPERM:
		return errors.ErrUnsupported
	}
	return fmt.Errorf("exchanging %s and %s: %w", a, b, err)
}
