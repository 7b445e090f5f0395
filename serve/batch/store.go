// Package batch stores files of requests for clients and runs them line by line, like OpenAI's batches. A journal lists
// the finished lines, so that a batch can continue after the process ended at any moment. The package does not depend
// on HTTP or models: its user responds to the requests.
//
// The files: vault stores the data, store has the Store and its limits, file the files of clients, object the batches;
// run runs a batch, line reads its requests, journal has the results, finish writes the output. offline answers a file
// of requests without a store; plain parses the lines that only such a file may have.
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

	"github.com/hippo-ssm/hippo/serve/fleet"
)

// Options are the limits of a Store, and the function that responds to requests. A number below 1 means the default
// given here.
type Options struct {
	Dir string // used by this store alone; "" keeps files in memory
	// Fleet, unless it is nil, stores the files and batches of all servers that share a bucket.
	Fleet *fleet.Store

	MaxFile    int64 // bytes of a client's file: 100 MiB
	MaxTotal   int64 // bytes of all files: 16 GiB in a folder, 256 MiB in memory
	MaxOwner   int64 // bytes of one owner's files: MaxTotal
	MaxFiles   int   // files of one owner: 10,000
	MaxBatches int   // unfinished batches of one owner: 100
	MaxLines   int   // requests of a batch: 50,000
	MaxLine    int   // bytes of a request: 8 MiB
	Together   int   // requests that run at a time: 16

	Endpoints []string // endpoints that a batch may request
	// Do responds to a request. Its error is that of ctx, or ErrLater.
	Do  func(ctx context.Context, q Request) (Response, error)
	Log *slog.Logger // nil for none
}

// Request is one line of a batch.
type Request struct {
	ID       string // unique
	Owner    string
	Endpoint string
	Body     []byte // a JSON object
}

// Response is the response to a request: an HTTP status, and JSON.
type Response struct {
	Status int
	Body   []byte
}

// ErrLater is the error of a request that must be retried later.
var ErrLater = errors.New("batch: not now")

// Kinds of errors in clients' requests.
var (
	ErrNotFound = errors.New("not found")
	ErrLimit    = errors.New("limit")
	ErrInUse    = errors.New("in use")
)

// reason is one of these errors with a message.
type reason struct {
	text string
	kind error
}

func (r *reason) Error() string { return r.text }

// Unwrap returns the kind of error.
func (r *reason) Unwrap() error { return r.kind }

// because returns an error of a kind.
func because(kind error, format string, args ...any) error {
	return &reason{fmt.Sprintf(format, args...), kind}
}

// errClosed is the cause of stopping batches when the store is closed.
var errClosed = fmt.Errorf("batch: the store is closed: %w", context.Canceled)

// Store holds the files and batches of clients. Each owner sees only its own. All methods may be called from any number
// of goroutines.
type Store struct {
	o       Options
	vault   vault
	places  chan struct{} // one element for each running request
	running context.Context
	stop    context.CancelCauseFunc
	workers sync.WaitGroup

	saving  sync.Mutex // orders the writes of descriptions; locked before mu
	mu      sync.Mutex
	files   map[string]*File
	batches map[string]*Batch
	used    map[string]int64 // bytes of each owner
	total   int64
	busy    map[string]bool                    // owners with a worker
	cancels map[string]context.CancelCauseFunc // of running batches
	claims  map[string]*fleet.Lease            // of batches that this server runs, in a fleet
	passed  map[string]bool                    // batches that another server runs
	closed  bool
}

// Open opens a store. Unfinished batches continue.
func Open(o Options) (*Store, error) {
	o.fill()
	s := &Store{
		o: o, places: make(chan struct{}, o.Together), files: map[string]*File{}, batches: map[string]*Batch{},
		used: map[string]int64{}, busy: map[string]bool{}, cancels: map[string]context.CancelCauseFunc{},
		vault: newMemory(), claims: map[string]*fleet.Lease{}, passed: map[string]bool{},
	}
	switch {
	case o.Fleet != nil:
		s.vault = shared{o.Fleet}
	case o.Dir != "":
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
	if o.Fleet != nil {
		s.workers.Go(s.poll)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.batches {
		s.employ(b.Owner)
	}
	return s, nil
}

// fill sets the limits below 1 to their defaults.
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

// Total returns MaxTotal, or its default.
func (o *Options) Total() int64 {
	switch {
	case o.MaxTotal > 0:
		return o.MaxTotal
	case o.Dir == "" && o.Fleet == nil:
		return 256 << 20
	}
	return 16 << 30
}

// MaxFile returns the maximum size in bytes of a client's file.
func (s *Store) MaxFile() int64 { return s.o.MaxFile }

// Used returns the size of all files in bytes.
func (s *Store) Used() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total
}

// Close stops all batches. Their results are stored, and they continue when the store is opened again.
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

// Suffixes of names in a vault.
const (
	described = ".json"    // of a file or batch
	content   = ".data"    // of a file
	progress  = ".journal" // of a batch
)

// load reads the content of a vault. It removes data without a description, left by a process that ended between two
// writes.
func (s *Store) load() error {
	if s.o.Fleet != nil {
		return s.refresh()
	}
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
		case ok && (strings.HasPrefix(id, batchPrefix) || strings.HasPrefix(id, ownPrefix)):
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
	for _, f := range s.files {
		if f.Of != "" && s.batches[f.Of] == nil { // the process ended before storing the batch or after removing it
			err = errors.Join(err, s.vault.remove(f.ID+described)) // its content is removed later
			delete(s.files, f.ID)
			s.refunded(f.Owner, f.Bytes)
		}
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

// charge counts bytes for an owner, or returns ErrLimit.
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

// refund reverses charge. mu must not be held.
func (s *Store) refund(owner string, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refunded(owner, n)
}

// refunded is like refund, but mu must be held.
func (s *Store) refunded(owner string, n int64) {
	s.total -= n
	if s.used[owner] -= n; s.used[owner] == 0 {
		delete(s.used, owner)
	}
}

// Page selects a part of a list: at most Limit items, after the item with the id After, or before the item with the id
// Before.
type Page struct {
	After     string
	Before    string
	Limit     int
	Ascending bool // oldest first, else newest first
}

// paged returns a page of the items for which want is true, and whether more follow.
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
	if id := p.After + p.Before; id != "" {
		at := slices.IndexFunc(list, func(v *T) bool { _, other := key(v); return other == id })
		if at < 0 {
			return nil, false, fmt.Errorf("%.60q in the list: %w", id, ErrNotFound)
		}
		if p.Before != "" {
			list = list[max(0, at-p.Limit):at]
			more = at > p.Limit
		} else {
			list = list[at+1:]
		}
	}
	if len(list) > p.Limit {
		list, more = list[:p.Limit], true
	}
	for _, v := range list {
		out = append(out, *v)
	}
	return out, more, nil
}

// gone reports whether an error means that the data does not exist.
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) }
