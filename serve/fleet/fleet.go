// Package fleet stores the records of several servers in one bucket. Only one server at a time can change a record.
//
// The bucket must be able to create an object only if it does not exist. Nothing else is asked of it. A record that
// changes is a chain of objects, NAME/000000000001 and on. Each entry has a new content, or says which server holds the
// record (a lease), or both. A server writes the entry after the last one that it knows. If another server has already
// written that entry, the first server has lost the record, and its change is not stored. So two servers never change
// the same state, whatever their clocks say and however long one sleeps. Time decides only when a server may take a
// record whose holder no longer renews its lease.
//
// How to read the files: chain has the entries, lease who holds a record, fleet what servers call.
package fleet

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/hippo-ssm/hippo/session/store"
)

// Kinds of errors.
var (
	// ErrHeld reports that another request or server holds the record.
	ErrHeld = errors.New("fleet: another server has it")
	// ErrLost reports that another server has changed or taken the record meanwhile.
	ErrLost = errors.New("fleet: another server has taken it meanwhile")
	// ErrUnavailable reports that the bucket does not do what it is asked to do.
	ErrUnavailable = errors.New("fleet: the bucket fails")
)

// Options configure a Store. A time of 0 or less means the default given here.
type Options struct {
	Term time.Duration // time after which a lease that is not renewed may be taken: 10 seconds
	Wait time.Duration // time to wait for an answer of the bucket: 30 seconds
}

// Store stores records in a bucket, for one server. Names consist of letters, digits, "-", "_", "." and "/". Any number
// of goroutines may call its methods at the same time.
type Store struct {
	bucket store.Shared
	o      Options
	id     string // of this server
	work   sync.WaitGroup

	mu   sync.Mutex
	held map[string]*Lease
	seen map[string]sighting
}

// Open opens a store in a bucket and tests the bucket: one that overwrites existing objects would lose changes that
// clients were told are stored.
func Open(b store.Shared, o Options) (*Store, error) {
	const term, wait = 10 * time.Second, 30 * time.Second
	o.Term, o.Wait = cmp.Or(max(0, o.Term), term), cmp.Or(max(0, o.Wait), wait)
	s := &Store{bucket: b, o: o, id: rand.Text(), held: map[string]*Lease{}, seen: map[string]sighting{}}
	name := "trial/" + s.id
	if err := s.create(name, []byte("1")); err != nil {
		return nil, err
	}
	if err := s.create(name, []byte("2")); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	data, err := s.Read(name)
	if err == nil && string(data) != "1" {
		err = fmt.Errorf("%s: found that it replaces an object that it is to create, want a bucket with "+
			"conditional writes (If-None-Match)", s)
	}
	return s, errors.Join(err, s.Drop(name))
}

// String returns the name of the bucket for errors.
func (s *Store) String() string { return "store " + s.bucket.String() }

// Term returns the time after which a lease that is not renewed may be taken.
func (s *Store) Term() time.Duration { return s.o.Term }

// Close waits for pending deletions. All leases must have been released.
func (s *Store) Close() { s.work.Wait() }

// ask calls the bucket. The error is fs.ErrNotExist, fs.ErrExist or ErrUnavailable.
func (s *Store) ask(what func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), s.o.Wait)
	defer cancel()
	err := what(ctx)
	if err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist) {
		return err
	}
	return fmt.Errorf("%w: %s: %w", ErrUnavailable, s, err)
}

func (s *Store) create(name string, data []byte) error {
	return s.ask(func(ctx context.Context) error { return s.bucket.Create(ctx, name, data) })
}

// Read returns an object that never changes. If it does not exist, the error is fs.ErrNotExist.
func (s *Store) Read(name string) (data []byte, err error) {
	err = s.ask(func(ctx context.Context) (err error) {
		data, err = s.bucket.Get(ctx, name)
		return err
	})
	return data, err
}

// Write writes an object that never changes.
func (s *Store) Write(name string, data []byte) error {
	return s.ask(func(ctx context.Context) error { return s.bucket.Put(ctx, name, data) })
}

// Add creates an object. If an object with the same name and other content exists, the error is ErrLost. If the content
// is the same, the object was created by a write whose answer was lost, and there is no error.
func (s *Store) Add(name string, data []byte) error {
	err := s.create(name, data)
	if err == nil {
		return nil
	}
	found, e := s.Read(name)
	switch {
	case e == nil && string(found) == string(data):
		return nil
	case e == nil:
		return ErrLost
	case errors.Is(err, fs.ErrExist): // perhaps because of this very write, if a driver has sent it again
		return fmt.Errorf("%w: %s: %w", ErrUnavailable, s, e)
	}
	return err
}

// Drop deletes an object. It is no error if the object does not exist.
func (s *Store) Drop(name string) error {
	return s.ask(func(ctx context.Context) error { return s.bucket.Delete(ctx, name) })
}

// Find calls visit for each object whose name starts with prefix, including the entries of chains.
func (s *Store) Find(prefix string, visit func(store.Entry)) error {
	return s.ask(func(ctx context.Context) error { return s.bucket.Find(ctx, prefix, visit) })
}

// List returns the objects and records in a folder. The size of a record is that of its largest entry.
func (s *Store) List(dir string) (all []store.Entry, err error) {
	index, removed := map[string]int{}, map[string]time.Time{}
	err = s.Find(dir+"/", func(e store.Entry) {
		name, entry, chained := strings.Cut(e.Name[len(dir)+1:], "/")
		at, there := index[name]
		if !there {
			at = len(all)
			index[name] = at
			all = append(all, store.Entry{Name: name})
		}
		if chained && entry == gone {
			removed[name] = e.Time
			return
		}
		all[at].Bytes = max(all[at].Bytes, e.Bytes)
		if e.Time.After(all[at].Time) {
			all[at].Time = e.Time
		}
	})
	kept := all[:0]
	for _, e := range all {
		at, gone := removed[e.Name]
		if !gone {
			kept = append(kept, e)
		} else if time.Since(at) > goneFor {
			s.work.Go(func() { s.forget(path.Join(dir, e.Name)) })
		}
	}
	return kept, err
}

// Folders returns the names of the folders in a folder.
func (s *Store) Folders(dir string) (all []string, err error) {
	seen := map[string]bool{}
	err = s.Find(dir+"/", func(e store.Entry) {
		if name, _, ok := strings.Cut(e.Name[len(dir)+1:], "/"); ok && !seen[name] {
			seen[name] = true
			all = append(all, name)
		}
	})
	return all, err
}
