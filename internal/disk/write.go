package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Temporary files and folders are named after their final name, a mark, and 16 hexadecimal digits. A temporary file is
// locked while its writer lives: Sweep removes unlocked ones.

// TmpMark stands before the random digits in the name of a temporary file.
const TmpMark = ".tmp-"

const idLen = 16

// Unique calls create with prefix and a random id until the name is not taken, and returns the id.
func Unique(prefix string, create func(name string) error) (id string, err error) {
	for range 100 {
		id = fmt.Sprintf("%0*x", idLen, rand.Uint64()) // the name of a temporary file need not be reproducible
		if err = create(prefix + id); !errors.Is(err, fs.ErrExist) {
			return id, err
		}
	}
	return "", err
}

// IsID reports whether id has the form of Unique's ids.
func IsID(id string) bool {
	return len(id) == idLen && strings.Trim(id, "0123456789abcdef") == ""
}

// Replace atomically replaces the file at path by what fill writes: a crash leaves the old file or the new one. fill
// gets path.tmp-X in the same folder, which is then synced to disk and renamed to path. After an error of fill, which
// is returned unchanged, or a panic, the temporary file is removed and path is unchanged. Before writing, Replace
// removes temporary files of path that killed processes left.
func Replace(path string, fill func(f *os.File) error) error { return place(path, fill, moveLocked) }

// Create is Replace for a path that does not exist. If several processes create it at once, on any machines, one
// succeeds. The others get fs.ErrExist and change nothing. The file system must have hard links.
func Create(path string, fill func(f *os.File) error) error {
	return place(path, fill, func(f *os.File, path string) error {
		if err := os.Link(f.Name(), path); err != nil {
			return err
		}
		f.Close() // it is already synced
		_ = os.Remove(f.Name())
		return nil
	})
}

// place writes a temporary file, and gives it the name path with move.
func place(path string, fill func(f *os.File) error, move func(f *os.File, path string) error) error {
	// only to free space: a problem shows in the following write
	sweep(filepath.Dir(path), filepath.Base(path))
	var tmp *os.File
	_, err := Unique(path+TmpMark, func(name string) (err error) {
		tmp, err = createLocked(name)
		return err
	})
	if err != nil {
		return err
	}
	renamed := false
	defer func() {
		if !renamed {
			tmp.Close() // an error does not matter, because the file is removed
			os.Remove(tmp.Name())
		}
	}()
	if old, err := os.Stat(path); err == nil && old.Mode().IsRegular() {
		if err := tmp.Chmod(old.Mode().Perm()); err != nil { // keep the permissions
			return err
		}
	}
	if err := fill(tmp); err != nil {
		return err
	}
	if err := tmp.Sync(); err != nil {
		return err
	}
	if err := move(tmp, path); err != nil {
		return err
	}
	renamed = true
	if err := SyncDir(filepath.Dir(path)); err != nil {
		return &SyncError{path, err}
	}
	return nil
}

// moveLocked renames an open file to path, and closes it. The file stays locked until then: without the lock a Sweep of
// another process could remove it first. Windows cannot rename an open file: there a Sweep at the wrong moment is an
// error.
func moveLocked(f *os.File, path string) error {
	if removeOpen {
		if err := os.Rename(f.Name(), path); err != nil {
			return err
		}
		return f.Close()
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// Temp creates a temporary file base.tmp-X in the folder dir (the system's if dir is ""), which its writer must remove.
// It removes files of the same base that killed processes left.
func Temp(dir, base string) (*os.File, error) {
	if dir == "" {
		dir = os.TempDir()
	}
	sweep(dir, base) // ignore files that cannot be removed
	var f *os.File
	_, err := Unique(filepath.Join(dir, base+TmpMark), func(name string) (err error) {
		f, err = createLocked(name)
		return err
	})
	return f, err
}

// createLocked creates a file and locks it. The error is fs.ErrExist if a Sweep was faster.
func createLocked(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return nil, err
	}
	locked, err := TryLock(f, false)
	if errors.Is(err, errors.ErrUnsupported) {
		return f, nil
	}
	if err == nil && (!locked || !IsAt(f, name)) {
		err = fs.ErrExist
	}
	if err != nil {
		f.Close() // a Sweep has removed it
		os.Remove(name)
		return nil, err
	}
	return f, nil
}

// IsAt reports whether an open file is the file at path, that is, whether it has not been removed or replaced.
func IsAt(f interface{ Stat() (fs.FileInfo, error) }, path string) bool {
	a, errA := f.Stat()
	b, errB := os.Stat(path)
	return errA == nil && errB == nil && os.SameFile(a, b)
}

// SyncError reports that a file is in place, but its folder could not be synced.
type SyncError struct {
	Path string
	Err  error
}

// Error names the file and the cause.
func (e *SyncError) Error() string {
	return fmt.Sprintf("%s is written, but its folder could not be synced: %v", e.Path, e.Err)
}

// Unwrap returns the cause.
func (e *SyncError) Unwrap() error { return e.Err }

// Sweep removes the temporary files in dir that killed processes left. Files of a live process stay. A missing folder
// is not an error.
func Sweep(dir string) error { return sweep(dir, "") }

// sweep is Sweep for the temporary files of one name, or for all if base is "".
func sweep(dir, base string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		name := e.Name()
		at := strings.LastIndex(name, TmpMark)
		if at < 0 || !e.Type().IsRegular() || !IsID(name[at+len(TmpMark):]) || base != "" && name[:at] != base {
			continue
		}
		if _, err := RemoveUnused(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// unlockable is how long a file is kept if there are no locks that tell whether it is in use.
const unlockable = 24 * time.Hour

// RemoveUnused removes a file unless somebody holds a lock on it, or replaces it at the same time.
func RemoveUnused(path string) (removed bool, err error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	free, err := TryLock(f, false)
	if errors.Is(err, errors.ErrUnsupported) {
		var info fs.FileInfo
		if info, err = f.Stat(); err == nil {
			free = time.Since(info.ModTime()) > unlockable
		}
	}
	free = free && IsAt(f, path)
	if removeOpen && free {
		err = os.Remove(path)
	}
	if err := errors.Join(err, f.Close()); err != nil || !free {
		return false, err
	}
	if !removeOpen {
		err = os.Remove(path)
	}
	return err == nil, err
}
