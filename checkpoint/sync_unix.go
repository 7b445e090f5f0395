//go:build unix

package checkpoint

import (
	"errors"
	"os"
	"syscall"
)

// syncFile waits until the content of a file is on disk.
func syncFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	err = f.Sync()
	return errors.Join(err, f.Close())
}

// syncDir waits until the names in a folder are on disk. Some network file systems cannot sync folders; they answer EINVAL.
func syncDir(path string) error {
	err := syncFile(path)
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	return err
}
