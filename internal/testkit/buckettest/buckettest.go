// Package buckettest provides a bucket in memory that tests can slow down, make fail and cut off. It is for tests of
// servers that share a bucket.
package buckettest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hippo-ssm/hippo/session/store"
)

// Bucket is a bucket in memory.
type Bucket struct {
	mu      sync.Mutex
	objects map[string]object
}

type object struct {
	data []byte
	time time.Time
}

// New returns an empty bucket.
func New() *Bucket { return &Bucket{objects: map[string]object{}} }

// Names returns the names of all objects.
func (b *Bucket) Names() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Sorted(maps.Keys(b.objects))
}

// View is a bucket as one server sees it.
type View struct {
	*Bucket
	mu            sync.Mutex
	cut           bool
	before, after Hook
}

// Hook is called with the kind of a request (get, put, create, delete or find) and its name or prefix.
type Hook func(what, name string) error

var _ store.Shared = (*View)(nil)

// ErrCut is the error of a server that cannot reach the bucket.
var ErrCut = errors.New("the bucket is out of reach")

// View returns a view of the bucket for one server.
func (b *Bucket) View() *View { return &View{Bucket: b} }

// Cut cuts the server off from the bucket, or connects it again. A server that is cut off, as one that was killed,
// changes nothing.
func (v *View) Cut(cut bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.cut = cut
}

// Hook sets functions to call before and after each request, nil for none. An error from before means that the request
// did not arrive, an error from after that the answer did not.
func (v *View) Hook(before, after Hook) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.before, v.after = before, after
}

// call calls one of the hooks, unless the bucket is cut off.
func (v *View) call(which func(*View) Hook, what, name string) error {
	v.mu.Lock()
	cut, hook := v.cut, which(v)
	v.mu.Unlock()
	var err error
	if hook != nil && !cut {
		err = hook(what, name)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.cut {
		return ErrCut
	}
	return err
}

// ask runs do as one request.
func (v *View) ask(ctx context.Context, what, name string, do func() error) error {
	if err := v.call(func(v *View) Hook { return v.before }, what, name); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	v.Bucket.mu.Lock()
	err := do()
	v.Bucket.mu.Unlock()
	if e := v.call(func(v *View) Hook { return v.after }, what, name); e != nil {
		return e
	}
	return err
}

// Get implements store.Bucket.
func (v *View) Get(ctx context.Context, name string) (data []byte, err error) {
	err = v.ask(ctx, "get", name, func() error {
		o, ok := v.objects[name]
		if !ok {
			return fmt.Errorf("%s: %w", name, fs.ErrNotExist)
		}
		data = bytes.Clone(o.data)
		return nil
	})
	return data, err
}

// Put implements store.Bucket.
func (v *View) Put(ctx context.Context, name string, data []byte) error {
	return v.ask(ctx, "put", name, func() error {
		v.objects[name] = object{bytes.Clone(data), time.Now()}
		return nil
	})
}

// Create implements store.Shared.
func (v *View) Create(ctx context.Context, name string, data []byte) error {
	return v.ask(ctx, "create", name, func() error {
		if _, ok := v.objects[name]; ok {
			return fmt.Errorf("%s: %w", name, fs.ErrExist)
		}
		v.objects[name] = object{bytes.Clone(data), time.Now()}
		return nil
	})
}

// Delete implements store.Bucket.
func (v *View) Delete(ctx context.Context, name string) error {
	return v.ask(ctx, "delete", name, func() error {
		delete(v.objects, name)
		return nil
	})
}

// List implements store.Bucket.
func (v *View) List(ctx context.Context, visit func(name string)) error {
	return v.Find(ctx, "", func(e store.Entry) { visit(e.Name) })
}

// Find implements store.Shared.
func (v *View) Find(ctx context.Context, prefix string, visit func(store.Entry)) error {
	var all []store.Entry
	err := v.ask(ctx, "find", prefix, func() error {
		for name, o := range v.objects {
			if strings.HasPrefix(name, prefix) {
				all = append(all, store.Entry{Name: name, Bytes: int64(len(o.data)), Time: o.time})
			}
		}
		return nil
	})
	for _, e := range all {
		visit(e)
	}
	return err
}

// String implements store.Bucket.
func (v *View) String() string { return "the bucket of the test" }
