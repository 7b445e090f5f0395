package batch

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/hippo-ssm/hippo/internal/disk"
)

// vault stores data under names. The store chooses the names, never a client.
type vault interface {
	// write atomically replaces the data of a name with what fill writes.
	write(name string, fill func(io.Writer) error) error
	open(name string) (reader, error)
	// extend opens the data of a name to append after its first at bytes, which may be 0. It truncates the rest.
	extend(name string, at int64) (journal, error)
	remove(name string) error
	names() ([]string, error)
	close() error
}

// reader reads the data of a name.
type reader interface {
	io.Reader
	io.ReaderAt
	io.Closer
}

// journal is data to which records are appended. The records are stored when Sync returns.
type journal interface {
	io.WriteCloser
	Sync() error
}

// folder is a vault on disk, which persists after the process.
type folder struct {
	dir  string
	lock *disk.Lock
}

func openFolder(dir string) (*folder, error) {
	lock, err := disk.ClaimDir(dir)
	if err != nil {
		return nil, err
	}
	return &folder{dir, lock}, nil
}

func (f *folder) path(name string) string { return filepath.Join(f.dir, name) }

func (f *folder) write(name string, fill func(io.Writer) error) error {
	return disk.WriteFile(f.path(name), fill)
}

func (f *folder) open(name string) (reader, error) {
	file, _, err := disk.Open(f.path(name))
	if err != nil {
		return nil, err // not a nil *os.File as a reader
	}
	return file, nil
}

func (f *folder) extend(name string, at int64) (journal, error) {
	file, err := os.OpenFile(f.path(name), os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return nil, err
	}
	_, err = file.Seek(at, io.SeekStart)
	if err = errors.Join(err, file.Truncate(at), disk.SyncDir(f.dir)); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

func (f *folder) remove(name string) error { return os.Remove(f.path(name)) }

func (f *folder) names() (names []string, err error) {
	entries, err := os.ReadDir(f.dir)
	for _, e := range entries {
		if e.Type().IsRegular() {
			names = append(names, e.Name())
		}
	}
	return names, err
}

func (f *folder) close() error { return f.lock.Release() }

// memory is a vault in memory.
type memory struct {
	mu   sync.Mutex
	data map[string][]byte
}

func newMemory() *memory { return &memory{data: map[string][]byte{}} }

func (m *memory) write(name string, fill func(io.Writer) error) error {
	var b bytes.Buffer
	if err := fill(&b); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.data[name] = b.Bytes()
	return nil
}

// inMemory reads data in memory, which does not change.
type inMemory struct{ *bytes.Reader }

func (inMemory) Close() error { return nil }

func (m *memory) open(name string) (reader, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	data, ok := m.data[name]
	if !ok {
		return nil, fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	}
	return inMemory{bytes.NewReader(data)}, nil
}

func (m *memory) extend(name string, at int64) (journal, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.data[name] = slices.Clip(m.data[name][:at])
	return &growing{m, name}, nil
}

// growing is a journal in memory.
type growing struct {
	m    *memory
	name string
}

func (g *growing) Write(p []byte) (int, error) {
	g.m.mu.Lock()
	defer g.m.mu.Unlock()
	g.m.data[g.name] = append(g.m.data[g.name], p...)
	return len(p), nil
}

func (g *growing) Sync() error { return nil }

func (g *growing) Close() error { return nil }

func (m *memory) remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.data, name)
	return nil
}

func (m *memory) names() (names []string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name := range m.data {
		names = append(names, name)
	}
	return names, nil
}

func (m *memory) close() error { return nil }
