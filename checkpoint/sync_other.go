//go:build !unix

package checkpoint

import (
	"errors"
	"os"
)

// syncFile waits until the content of a file is on disk. Windows asks for the right to write.
func syncFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	err = f.Sync()
	return errors.Join(err, f.Close())
}

// syncDir does nothing: Windows has no call to sync a folder, NTFS journals names itself.
func syncDir(string) error { return nil }
