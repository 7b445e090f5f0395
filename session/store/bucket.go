package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/hippo-ssm/hippo/internal/disk"
)

// Bucket stores the marks that do not fit in memory, as named objects that never change. Stores in any number of
// processes and on any number of machines may share a bucket without locks. Names consist of letters, digits, "-", "."
// and "/". Methods may be called from any number of goroutines.
type Bucket interface {
	// Get returns an object. If it does not exist, the error is fs.ErrNotExist.
	Get(ctx context.Context, name string) ([]byte, error)
	// Put writes an object atomically. An existing object with the same name has the same content.
	Put(ctx context.Context, name string, data []byte) error
	// Delete removes an object. It is no error if the object does not exist.
	Delete(ctx context.Context, name string) error
	// List visits the names of all objects.
	List(ctx context.Context, visit func(name string)) error
	// String returns the name of the bucket for error messages.
	String() string
}

// Shared is a Bucket in which several servers coordinate changing data: see package serve/fleet.
type Shared interface {
	Bucket
	// Create writes an object atomically unless it exists. If it exists, Create returns fs.ErrExist and changes
	// nothing. If several callers, on any machines, create the same name at once, exactly one succeeds.
	Create(ctx context.Context, name string, data []byte) error
	// Find visits the objects whose names start with a prefix: all that exist during the whole call, and some of those
	// that are created or deleted meanwhile.
	Find(ctx context.Context, prefix string, visit func(Entry)) error
}

// Entry describes an object in a list.
type Entry struct {
	Name  string
	Bytes int64
	Time  time.Time // time of the write, by the clock of the bucket
}

// Driver opens the bucket of a URL.
type Driver func(ctx context.Context, url string) (Shared, error)

// drivers holds the drivers of the program by URL scheme. Package session/bucket, a separate module, has more.
var drivers = map[string]Driver{"file": openFolder}

// Register makes Connect use a driver for the URLs of a scheme. It must be called from init.
func Register(scheme string, d Driver) { drivers[scheme] = d }

// Connect opens the bucket of a URL, for example file:///var/lib/hippo. A driver for the scheme must be registered.
func Connect(ctx context.Context, url string) (Shared, error) {
	scheme, _, _ := strings.Cut(url, "://")
	d := drivers[scheme]
	if d == nil {
		return nil, fmt.Errorf("store %s: found no driver of %s:// in this program, want one of %s; bash "+
			"session/bucket/build builds a program with those of clouds", url, scheme,
			strings.Join(slices.Sorted(maps.Keys(drivers)), ", "))
	}
	return d(ctx, url)
}

// openFolder is the driver of the scheme file.
func openFolder(_ context.Context, address string) (Shared, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host != "" || !path.IsAbs(u.Path) || u.RawQuery != "" {
		return nil, fmt.Errorf("store %s: want the address of a folder, such as file:///var/lib/hippo", address)
	}
	dir := filepath.FromSlash(u.Path)
	if runtime.GOOS == "windows" {
		dir = dir[1:] // removes the first slash of /C:/hippo
	}
	return Folder(dir), os.MkdirAll(dir, 0o700) // the texts of clients are private
}

// Below returns a bucket of the objects of b whose names start with a prefix. Their names in it lack the prefix.
func Below(b Shared, prefix string) Bucket { return below{b, prefix} }

type below struct {
	b      Shared
	prefix string
}

func (b below) Get(ctx context.Context, name string) ([]byte, error) {
	return b.b.Get(ctx, b.prefix+name)
}

func (b below) Put(ctx context.Context, name string, data []byte) error {
	return b.b.Put(ctx, b.prefix+name, data)
}

func (b below) Delete(ctx context.Context, name string) error { return b.b.Delete(ctx, b.prefix+name) }

func (b below) List(ctx context.Context, visit func(name string)) error {
	return b.b.Find(ctx, b.prefix, func(e Entry) { visit(e.Name[len(b.prefix):]) })
}

func (b below) String() string { return b.b.String() }

// Folder is the path of a folder that serves as a Bucket. Each object is a file, written atomically. List and Find
// remove the temporary files of killed processes.
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

// Create implements Shared.
func (f Folder) Create(_ context.Context, name string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(f.path(name)), 0o777); err != nil {
		return err
	}
	return disk.Create(f.path(name), func(to *os.File) error {
		_, err := to.Write(data)
		return err
	})
}

// List implements Bucket.
func (f Folder) List(ctx context.Context, visit func(name string)) error {
	return f.list(ctx, "", func(name string, _ fs.DirEntry) { visit(name) })
}

// Find implements Shared.
func (f Folder) Find(ctx context.Context, prefix string, visit func(Entry)) error {
	dir := ""
	if at := strings.LastIndexByte(prefix, '/'); at >= 0 {
		dir = prefix[:at]
	}
	return f.list(ctx, dir, func(name string, e fs.DirEntry) {
		if !strings.HasPrefix(name, prefix) {
			return
		}
		if info, err := e.Info(); err == nil { // skips files deleted meanwhile
			visit(Entry{name, info.Size(), info.ModTime()})
		}
	})
}

// list visits the files below the folder dir of f. It ignores folders that do not exist, as another process may remove
// them.
func (f Folder) list(ctx context.Context, dir string, visit func(name string, e fs.DirEntry)) error {
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
			visit(name, e)
		}
	}
	if left {
		return disk.Sweep(f.path(dir))
	}
	return nil
}

// String returns the path of the folder.
func (f Folder) String() string { return string(f) }

func (f Folder) path(name string) string { return filepath.Join(string(f), filepath.FromSlash(name)) }
