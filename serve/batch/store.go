// Package batch keeps files of requests for clients, and works through them line by line as OpenAI's batches do: with
// an output that tells which lines are done, so that a batch goes on where it stood after the process has ended, at any
// moment. It knows nothing of HTTP or models: whoever uses it answers the requests.
//
// How the files read: vault is where data is, store has the Store and its limits, file the files of clients, object
// the batches, run works through one, line reads the requests in it, journal has what is done, finish writes the
// output.
package batch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Options are the limits of a Store, and who responds. A number below 1 stands for the one given here.
type Options struct {
	Dir string // of the files, which nothing else may be in; in memory where it is empty

	MaxFile    int64 // bytes of a file that a client sends: 100 MiB
	MaxTotal   int64 // bytes of all files: 16 GiB in a folder, 256 MiB in memory
	MaxOwner   int64 // bytes of one owner's files: MaxTotal
	MaxFiles   int   // files of one owner: 10,000
	MaxBatches int   // batches of one owner that have not ended: 100
	MaxLines   int   // requests of a batch: 50,000
	MaxLine    int   // bytes of a request: 8 MiB
	Together   int   // requests that are answered at a time: 16

	Endpoints []string // that a batch may be for
	// Do answers a request. Its error is that of ctx, or ErrLater.
	Do  func(ctx context.Context, q Request) (Response, error)
	Log *slog.Logger // nil for none
}

// Request is one line of a batch.
type Request struct {
	ID       string // another for each
	Owner    string
	Endpoint string
	Body     []byte // a JSON object
}

// Response is the response to one: a status of HTTP, and JSON.
type Response struct {
	Status int
	Body   []byte
}

// ErrLater is the error of a request that is to be tried again.
var ErrLater = errors.New("batch: not now")

// What is wrong with what a client asks for.
var (
	ErrNotFound = errors.New("not found")
	ErrLimit    = errors.New("limit")
	ErrInUse    = errors.New("in use")
)

// reason is one of these errors with what is told of it.
type reason struct {
	text string
	kind error
}

func (r *reason) Error() string { return r.text }

// Unwrap is the kind of error.
func (r *reason) Unwrap() error { return r.kind }

// because returns an error of a kind.
func because(kind error, format string, args ...any) error {
	return &reason{fmt.Sprintf(format, args...), kind}
}

// errClosed is why batches are stopped.
var errClosed = fmt.Errorf("batch: the store is closed: %w", context.Canceled)

// Store has the files and batches of clients. Each owner sees its own only. All methods may be called by any number of
// goroutines.
type Store struct {
	o       Options
	vault   vault
	places  chan struct{} // of requests that are being answered
	running context.Context
	stop    context.CancelCauseFunc
	workers sync.WaitGroup

	saving  sync.Mutex // descriptions are written in the order of their changes; before mu
	mu      sync.Mutex
	files   map[string]*File
	batches map[string]*Batch
	used    map[string]int64 // bytes of each owner
	total   int64
	busy    map[string]bool                    // owners with a worker
	cancels map[string]context.CancelCauseFunc // of batches that run
	closed  bool
}

// Open opens a store. Batches that have not ended go on.
func Open(o Options) (*Store, error) {
	o.fill()
	s := &Store{
		o: o, places: make(chan struct{}, o.Together), files: map[string]*File{}, batches: map[string]*Batch{},
		used: map[string]int64{}, busy: map[string]bool{}, cancels: map[string]context.CancelCauseFunc{},
		vault: newMemory(),
	}
	if o.Dir != "" {
		f, err := openFolder(o.Dir)
		if err != nil {
			return nil, err
		}
		s.vault = f
	}
	s.running, s.stop = context.WithCancelCause(context.Background())
	if err := s.load(); err != nil {
		return nil, errors.Join(err, s.vault.close())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.batches {
		s.employ(b.Owner)
	}
	return s, nil
}

// fill sets the limits that are not given.
func (o *Options) fill() {
	o.MaxTotal = o.Total()
	for _, limit := range []struct {
		n        *int64
		standard int64
	}{{&o.MaxFile, 100 << 20}, {&o.MaxOwner, o.MaxTotal}} {
		if *limit.n < 1 {
			*limit.n = limit.standard
		}
	}
	for _, limit := range []struct {
		n        *int
		standard int
	}{
		{&o.MaxFiles, 10000}, {&o.MaxBatches, 100}, {&o.MaxLines, 50000}, {&o.MaxLine, 8 << 20}, {&o.Together, 16},
	} {
		if *limit.n < 1 {
			*limit.n = limit.standard
		}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
}

// Total is MaxTotal, or what stands for it.
func (o *Options) Total() int64 {
	switch {
	case o.MaxTotal > 0:
		return o.MaxTotal
	case o.Dir == "":
		return 256 << 20
	}
	return 16 << 30
}

// MaxFile is the most bytes of a file that a client sends.
func (s *Store) MaxFile() int64 { return s.o.MaxFile }

// Used is how many bytes all files have.
func (s *Store) Used() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total
}

// Close ends all work. What is done is kept, and what is not goes on when the store is opened again.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.mu.Unlock()
	s.stop(errClosed)
	s.workers.Wait()
	return s.vault.close()
}

// The endings of names in a vault.
const (
	described = ".json"    // of a file or batch
	content   = ".data"    // of a file
	progress  = ".journal" // of a batch
)

// load reads what a vault has. What belongs to nothing is removed: a process ended between two writes.
func (s *Store) load() error {
	names, err := s.vault.names()
	if err != nil {
		return err
	}
	there := map[string]bool{}
	for _, name := range names {
		there[name] = true
		id, ok := strings.CutSuffix(name, described)
		switch {
		case ok && strings.HasPrefix(id, filePrefix):
			f := &File{}
			if err = s.read(name, f); err == nil && f.ID == id {
				s.files[id] = f
			}
		case ok && strings.HasPrefix(id, batchPrefix):
			b := &Batch{}
			if err = s.read(name, b); err == nil && b.ID == id {
				s.batches[id] = b
			}
		}
		if err != nil {
			return err
		}
	}
	for _, f := range s.files {
		if !there[f.ID+content] {
			return fmt.Errorf("%s: found the description of a file without its content", f.ID)
		}
		s.used[f.Owner] += f.Bytes
		s.total += f.Bytes
	}
	for _, name := range names {
		id, data := strings.CutSuffix(name, content)
		other, journal := strings.CutSuffix(name, progress)
		if b := s.batches[other]; data && s.files[id] == nil || journal && (b == nil || b.Status.ended()) {
			err = errors.Join(err, s.vault.remove(name))
		}
	}
	return err
}

// read reads a description.
func (s *Store) read(name string, v any) error {
	r, err := s.vault.open(name)
	if err != nil {
		return err
	}
	const most = 1 << 20
	data, err := io.ReadAll(io.LimitReader(r, most))
	if err = errors.Join(err, r.Close()); err != nil {
		return err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// describe writes a description.
func (s *Store) describe(id string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return s.vault.write(id+described, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// charge counts bytes for an owner, and returns ErrLimit where there are too many.
func (s *Store) charge(owner string, n int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.total+n > s.o.MaxTotal:
		return because(ErrLimit, "the files of this server would have more than %d bytes", s.o.MaxTotal)
	case s.used[owner]+n > s.o.MaxOwner:
		return because(ErrLimit, "your files would have more than %d bytes: delete some", s.o.MaxOwner)
	}
	s.used[owner] += n
	s.total += n
	return nil
}

// refund is the opposite of charge. The lock is not held.
func (s *Store) refund(owner string, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refunded(owner, n)
}

// refunded is refund with the lock held.
func (s *Store) refunded(owner string, n int64) {
	s.total -= n
	if s.used[owner] -= n; s.used[owner] == 0 {
		delete(s.used, owner)
	}
}

// Page is a part of a list: at most Limit of it, behind the one with the id After.
type Page struct {
	After     string
	Limit     int
	Ascending bool // the oldest first, else the newest
}

// paged returns a page of those for which want holds, and whether there are more behind it.
func paged[T any](all map[string]*T, p Page, want func(*T) bool, key func(*T) (time.Time, string)) (out []T, more bool,
	err error) {
	var list []*T
	for v := range maps.Values(all) {
		if want(v) {
			list = append(list, v)
		}
	}
	slices.SortFunc(list, func(a, b *T) int {
		at, aID := key(a)
		bt, bID := key(b)
		c := at.Compare(bt)
		if c == 0 {
			c = strings.Compare(aID, bID)
		}
		if !p.Ascending {
			c = -c
		}
		return c
	})
	if p.After != "" {
		at := slices.IndexFunc(list, func(v *T) bool { _, id := key(v); return id == p.After })
		if at < 0 {
			return nil, false, fmt.Errorf("after: %w", ErrNotFound)
		}
		list = list[at+1:]
	}
	if len(list) > p.Limit {
		list, more = list[:p.Limit], true
	}
	for _, v := range list {
		out = append(out, *v)
	}
	return out, more, nil
}

// gone reports whether an error says that there is no such data.
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) }
