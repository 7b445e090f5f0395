package disk

import (
	"os"

	"golang.org/x/sys/windows"
)

// Space returns the number of bytes that are free, for this user, on the disk of the folder dir.
func Space(dir string) (free int64, err error) {
	name, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, &os.PathError{Op: "free space", Path: dir, Err: err}
	}
	var n uint64
	if err := windows.GetDiskFreeSpaceEx(name, &n, nil, nil); err != nil {
		return 0, &os.PathError{Op: "free space", Path: dir, Err: err}
	}
	return int64(n), nil
}
