//go:build !unix

package disk

import (
	"errors"
	"os"
)

// SyncFile waits until the content of a file is on disk. Windows requires write access for this.
func SyncFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	err = f.Sync()
	return errors.Join(err, f.Close())
}

// SyncDir does nothing: Windows has no call to sync a folder, and NTFS journals names itself.
func SyncDir(string) error { return nil }
