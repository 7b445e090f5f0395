package dashboard

import (
	"io/fs"
	"os"
)

// cached caches the content of a file until the file changes. The list of runs is requested every two seconds, and
// hardly any run changes in between.
type cached[T any] struct {
	info  fs.FileInfo
	value T
	err   error
}

// of returns the result of read for the file at a path. It calls read only if the file has changed.
func (u *cached[T]) of(path string, read func() (T, error)) (T, error) {
	info, err := os.Stat(path)
	if err != nil {
		*u = cached[T]{err: err}
		return u.value, err
	}
	same := u.info != nil && os.SameFile(u.info, info) && u.info.Size() == info.Size()
	if !same || !u.info.ModTime().Equal(info.ModTime()) {
		u.info = info
		u.value, u.err = read()
	}
	return u.value, u.err
}
