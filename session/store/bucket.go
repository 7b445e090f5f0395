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

// Bucket is where a store keeps what has no room in memory: named objects that never change. Several stores, of any
// number of processes and machines, may share one without any lock. Names are of letters, digits, "-", "." and "/".
// Methods may be called from any number of goroutines.
type Bucket interface {
	// Get returns an object. The error of one that does not exist is fs.ErrNotExist.
	Get(ctx context.Context, name string) ([]byte, error)
	// Put makes an object, as a whole or not at all. If there is one of the name, it has the same content.
	Put(ctx context.Context, name string, data []byte) error
	// Delete removes an object. If there is none that is no error.
	Delete(ctx context.Context, name string) error
	// List visits the names of all objects.
	List(ctx context.Context, visit func(name string)) error
	// String names the bucket in errors.
	String() string
}

// Folder is a folder as a Bucket, and its path. Objects are files, written so that a crash at any moment leaves a whole
// one or none; List sweeps away what killed processes have left.
type Folder string

// Get is Bucket.Get.
func (f Folder) Get(_ context.Context, name string) ([]byte, error) { return os.ReadFile(f.path(name)) }

// Put is Bucket.Put.
func (f Folder) Put(_ context.Context, name string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(f.path(name)), 0o777); err != nil {
		return err
	}
	return disk.WriteBytes(f.path(name), data)
}

// Delete is Bucket.Delete.
func (f Folder) Delete(_ context.Context, name string) error {
	if err := os.Remove(f.path(name)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// List is Bucket.List.
func (f Folder) List(ctx context.Context, visit func(name string)) error {
	return f.list(ctx, "", visit)
}

// list visits the files of a folder below f. One that others remove meanwhile is no error.
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

// String is the path.
func (f Folder) String() string { return string(f) }

func (f Folder) path(name string) string { return filepath.Join(string(f), filepath.FromSlash(name)) }
