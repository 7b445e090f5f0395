package store

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/hippo-ssm/hippo/internal/disk"
)

// Bucket stores the marks that do not fit in memory, as named objects that never change. The stores of any number of
// processes and machines may share one without locks. Names consist of letters, digits, "-", "." and "/". Methods may
// be called from any number of goroutines.
type Bucket interface {
	// Get returns an object. If it does not exist, the error is fs.ErrNotExist.
	Get(ctx context.Context, name string) ([]byte, error)
	// Put writes an object atomically. An existing object of the name has the same content.
	Put(ctx context.Context, name string, data []byte) error
	// Delete removes an object. It is no error if the object does not exist.
	Delete(ctx context.Context, name string) error
	// List visits the names of all objects.
	List(ctx context.Context, visit func(name string)) error
	// String returns the name of the bucket for errors.
	String() string
}

// Folder is the path of a folder that serves as a Bucket. Objects are files, written atomically. List removes the
// temporary files of killed processes.
type Folder string

// Get implements Bucket.
func (f Folder) Get(_ context.Context, name string) ([]byte, error) { return os.ReadFile(f.path(name)) }

// Put implements Bucket.
func (f Folder) Put(_ context.Context, name string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(f.path(name)), 0o777); err != nil {
		return err
	}
	return disk.WriteBytes(f.path(name), data)
}

// Delete implements Bucket.
func (f Folder) Delete(_ context.Context, name string) error {
	if err := os.Remove(f.path(name)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// List implements Bucket.
func (f Folder) List(ctx context.Context, visit func(name string)) error {
	return f.list(ctx, "", visit)
}

// list visits the files of a folder below f. A folder that another process removes meanwhile is no error.
func (f Folder) list(ctx context.Context, dir string, visit func(name string)) error {
	entries, err := os.ReadDir(f.path(dir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	left := false
	for _, e := range entries {
		name := e.Name()
		if dir != "" {
			name = dir + "/" + name
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case e.IsDir():
			if err := f.list(ctx, name, visit); err != nil {
				return err
			}
		case strings.Contains(e.Name(), disk.TmpMark):
			left = true
		default:
			visit(name)
		}
	}
	if left {
		return disk.Sweep(f.path(dir))
	}
	return nil
}

// String returns the path.
func (f Folder) String() string { return string(f) }

func (f Folder) path(name string) string { return filepath.Join(string(f), filepath.FromSlash(name)) }
