// Package records stores the responses and sessions of clients, in a folder that several servers may share, in memory
// or in a bucket. The records of a key are stored under the key's name.
package records

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/serve/fleet"
)

// Kinds of records, the first parts of their names.
const (
	Responses = "responses"
	Sessions  = "sessions"
	States    = "states"
	Library   = "library"
)

// Prefixes of the ids of records that may change after they were first written: sessions and conversations.
const (
	SessionPrefix      = "sess_"
	ConversationPrefix = "conv_"
)

// Backend stores records by names like those of files: KIND/OWNER/ID.json. The server chooses the names; they contain
// nothing that a client has sent. Methods may be called from any number of goroutines.
type Backend interface {
	// Get returns a record. If it does not exist, the error is fs.ErrNotExist.
	Get(name string) ([]byte, error)
	// Open returns a record and its size, to read it in parts. The errors are those of Get.
	Open(name string) (io.ReadCloser, int64, error)
	// Put creates or replaces a record atomically. If several servers share the backend, a server must hold the lock of
	// a record to change it. The writer may have a method Grow, which makes room for a number of bytes.
	Put(name string, write func(io.Writer) error) error
	// PutBytes is like Put with the data to write, which must not change afterwards.
	PutBytes(name string, data []byte) error
	// Remove removes a record. It is not an error if the record does not exist.
	Remove(name string) error
	// List returns the records of a folder.
	List(dir string) ([]Entry, error)
	// owners returns the folders of a kind.
	owners(kind string) ([]string, error)
	// Lock locks a name for this server until the Hold is released. The error is ErrLocked if another server has the
	// lock.
	Lock(name string) (Hold, error)
	// overrule changes a record even if another server has its lock. That server loses the lock. The error is ErrLocked
	// if the backend cannot do this.
	overrule(name string, by func(data []byte) ([]byte, error)) error
	// Strict reports whether requests fail if their records cannot be stored. Otherwise the server continues with the
	// records in its memory, since no other server has them.
	Strict() bool
	// String returns the name of the backend for errors.
	String() string
}

// Entry describes a record in a list.
type Entry struct {
	Name  string // within the folder
	Bytes int64
	Time  time.Time // when it was written
}

// Hold is this server's lock on a name.
type Hold struct {
	Release func()
	Lost    <-chan struct{} // closed when another server has taken the lock; nil where none can
}

// ErrLost is the error of a record that another server has changed or locked meanwhile.
var ErrLost = fleet.ErrLost

// ErrLocked is the error of a name that another server has locked.
var ErrLocked = errors.New("another server has it")

// newBackend returns a backend in a folder or, if dir is "", one in memory with the given limit in bytes.
func newBackend(dir string, most int64) Backend {
	if dir == "" {
		return &memory{most: most, records: map[string]memoryRecord{}}
	}
	return folder(dir)
}

// folder is a backend in a folder, which any number of servers may share.
type folder string

func (f folder) path(name string) string {
	return filepath.Join(string(f), filepath.FromSlash(name))
}

func (f folder) String() string { return "store " + string(f) }

func (folder) Strict() bool { return false }

func (f folder) named(err error) error {
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return fmt.Errorf("%s: %w", f, err)
}

func (f folder) Get(name string) ([]byte, error) {
	data, err := os.ReadFile(f.path(name))
	return data, f.named(err)
}

func (f folder) Open(name string) (io.ReadCloser, int64, error) {
	r, err := os.Open(f.path(name))
	if err != nil {
		return nil, 0, f.named(err)
	}
	info, err := r.Stat()
	if err != nil {
		r.Close()
		return nil, 0, f.named(err)
	}
	return r, info.Size(), nil
}

func (f folder) PutBytes(name string, data []byte) error {
	return f.Put(name, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

func (f folder) Put(name string, write func(io.Writer) error) error {
	path := f.path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return f.named(err)
	}
	return f.named(disk.WriteFile(path, write))
}

func (f folder) Remove(name string) error {
	if err := os.Remove(f.path(name)); !errors.Is(err, fs.ErrNotExist) {
		return f.named(err)
	}
	return nil
}

func (f folder) List(dir string) (all []Entry, err error) {
	found, err := os.ReadDir(f.path(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	left := false
	for _, e := range found {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() { // a lock, or a removed record
			continue
		}
		if strings.Contains(e.Name(), disk.TmpMark) { // left by a server that was killed, or being written
			left = true
			continue
		}
		all = append(all, Entry{e.Name(), info.Size(), info.ModTime()})
	}
	if left {
		if e := disk.Sweep(f.path(dir)); !disk.IsFull(e) { // else the disk is read-only
			err = errors.Join(err, e)
		}
	}
	return all, f.named(err)
}

func (f folder) owners(kind string) (all []string, err error) {
	found, err := os.ReadDir(f.path(kind))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range found {
		if e.IsDir() {
			all = append(all, e.Name())
		}
	}
	return all, f.named(err)
}

func (folder) overrule(string, func([]byte) ([]byte, error)) error { return ErrLocked }

func (f folder) Lock(name string) (Hold, error) {
	l, err := disk.LockDir(f.path(name) + ".lock")
	var locked *disk.LockedError
	if errors.As(err, &locked) {
		return Hold{}, ErrLocked
	}
	if disk.IsFull(err) {
		// Only this server's own locks remain in effect. Other servers cannot store a change either. Once there is
		// space, records are stored atomically, and the later change wins.
		return Hold{Release: func() {}}, nil
	}
	if err != nil {
		return Hold{}, f.named(err)
	}
	return Hold{Release: func() {
		_ = l.Release() // the end of the process releases it at the latest
		_ = os.Remove(f.path(name) + ".lock")
	}}, nil
}

// memory is a backend in the memory of this server.
type memory struct {
	most int64

	mu      sync.Mutex
	records map[string]memoryRecord
	bytes   int64
}

type memoryRecord struct {
	data []byte
	time time.Time
}

// recordSize is the memory that a record takes besides its data.
const recordSize = 256

func (m *memory) String() string { return "the server's memory" }

func (*memory) Strict() bool { return false }

func (m *memory) Get(name string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.records[name]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return r.data, nil
}

func (m *memory) Open(name string) (io.ReadCloser, int64, error) {
	data, err := m.Get(name)
	return io.NopCloser(bytes.NewReader(data)), int64(len(data)), err
}

func (m *memory) Put(name string, write func(io.Writer) error) error {
	var b bytes.Buffer
	if err := write(&b); err != nil {
		return err
	}
	data := b.Bytes()
	if cap(data)-len(data) > len(data)/8 {
		data = bytes.Clone(data)
	}
	return m.PutBytes(name, data)
}

func (m *memory) PutBytes(name string, data []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	size := int64(len(data)) + recordSize
	if old, ok := m.records[name]; ok {
		size -= int64(len(old.data)) + recordSize
	}
	if m.bytes+size > m.most {
		m.forgetResponses(size)
	}
	if m.bytes+size > m.most {
		return fmt.Errorf("%s: no room for %d bytes, with %d of at most %d taken", m, size, m.bytes, m.most)
	}
	m.bytes += size
	m.records[name] = memoryRecord{data, time.Now()}
	return nil
}

// forgetResponses removes the oldest responses until size bytes are free. It removes a few more, so that not every call
// has to. mu must be held.
func (m *memory) forgetResponses(size int64) {
	var names []string
	for name := range m.records {
		if strings.HasPrefix(name, Responses+"/") {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int { return m.records[a].time.Compare(m.records[b].time) })
	for _, name := range names {
		if m.bytes+size+m.most/16 <= m.most {
			return
		}
		m.forget(name)
	}
}

func (m *memory) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forget(name)
	return nil
}

// forget removes a record. mu must be held.
func (m *memory) forget(name string) {
	if old, ok := m.records[name]; ok {
		m.bytes -= int64(len(old.data)) + recordSize
		delete(m.records, name)
	}
}

func (m *memory) List(dir string) (all []Entry, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, r := range m.records {
		if rest, ok := strings.CutPrefix(name, dir+"/"); ok && !strings.Contains(rest, "/") {
			all = append(all, Entry{rest, int64(len(r.data)), r.time})
		}
	}
	return all, nil
}

func (m *memory) owners(kind string) (all []string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name := range m.records {
		if rest, ok := strings.CutPrefix(name, kind+"/"); ok {
			owner, _, _ := strings.Cut(rest, "/")
			if !slices.Contains(all, owner) {
				all = append(all, owner)
			}
		}
	}
	return all, nil
}

func (m *memory) Lock(string) (Hold, error) { return Hold{Release: func() {}}, nil }

func (*memory) overrule(string, func([]byte) ([]byte, error)) error { return ErrLocked }

// IsID reports whether a text may be the id of a record: a prefix, then letters and digits as rand.Text returns them.
func IsID(prefix, id string) bool {
	rest, ok := strings.CutPrefix(id, prefix)
	const digits = 26
	return ok && len(rest) == digits && !strings.ContainsFunc(rest, func(r rune) bool {
		return !(r >= 'A' && r <= 'Z') && !(r >= '2' && r <= '7')
	})
}
