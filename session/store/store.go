// Package store keeps what models have read: a tree of texts with marks to go on from, in memory up to a budget, then in
// a folder or another bucket, which any number of processes share. It may import session, generate, model and
// internal/disk, and looks inside no tensor.
package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/hippo-ssm/hippo/session"
)

// Codec writes snapshots and reads them.
type Codec interface {
	Encode(w io.Writer, m *session.Snapshot) error
	Decode(data []byte) (*session.Snapshot, error)
}

// Options say where a Store keeps what.
type Options struct {
	// Identity names the model: whatever changes a bit of a state. Stores of one identity share their marks.
	Identity string
	// Chunk is the number of positions after which a piece of a text that is read ends, as in generate.Session.
	Chunk int
	// Memory is the most bytes to hold in memory: of states, logits, texts and the index of the bucket. The pages of
	// attention that marks share are counted for each of them.
	Memory int64

	// Bucket is where marks go for which there is no room in memory; nil for nowhere.
	Bucket Bucket
	// Codec writes marks into Bucket.
	Codec Codec
	// Disk is the most bytes of all objects in Bucket, whoever wrote them; 0 for any. While n processes write, there may
	// be n/16 more for a moment.
	Disk int64
	// Refresh is how long a list of the bucket is good: what others have written in this time may be overlooked, which
	// costs a re-read. 0 means DefaultRefresh, less than 0 that every list is too old.
	Refresh time.Duration
	// Report, unless it is nil, is told the errors of Bucket, in spite of which the store goes on in memory. Any
	// goroutine may call it.
	Report func(error)
}

// DefaultRefresh is the default of Options.Refresh.
const DefaultRefresh = time.Second

// Store is a tree of texts that a model has read, by the pieces that it has read them in, with marks from which to go
// on. Methods may be called from any number of goroutines. None of them waits for the bucket while others wait for it,
// except for room that there is not.
type Store struct {
	o       Options
	model   string // as in the names of objects
	origin  key    // the key of the beginning of every text
	listing sync.Mutex

	mu    sync.Mutex // guards what follows
	tree  tree
	marks marks
	index index
	stats Stats
	free  *sync.Cond // told when a mark that was leaving has left
}

// Stats are counts since the store was made, and what it holds now.
type Stats struct {
	Memory  int64 // bytes in memory
	Marks   int   // in memory
	Disk    int64 // bytes of the objects in the bucket, as far as is known
	Objects int
	Finds   int // texts that were looked for
	Hits    int // those of which something was found
	Loads   int // marks read from the bucket
	Writes  int // marks written to it
	Lost    int // marks that went from memory without being in the bucket
}

// New returns an empty store over what there is in its bucket.
func New(ctx context.Context, o Options) (*Store, error) {
	switch {
	case o.Chunk < 1:
		return nil, fmt.Errorf("store: a chunk of %d, want at least 1", o.Chunk)
	case o.Memory < 0 || o.Disk < 0:
		return nil, fmt.Errorf("store: budgets of %d and %d bytes, want at least 0", o.Memory, o.Disk)
	case o.Bucket != nil && o.Codec == nil:
		return nil, errors.New("store: a bucket without a codec")
	case o.Refresh == 0:
		o.Refresh = DefaultRefresh
	}
	s := &Store{o: o, tree: newTree(), index: index{objects: map[key]*object{}}}
	s.origin = sha256.Sum256([]byte(magic + o.Identity))
	s.model = hex.EncodeToString(s.origin[:idLen/2])
	s.free = sync.NewCond(&s.mu)
	if o.Bucket != nil {
		if err := s.refresh(ctx, 0); err != nil {
			return nil, s.named(err)
		}
	}
	return s, nil
}

// Stats returns the counts.
func (s *Store) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.stats
	out.Memory, out.Marks = s.memory(), len(s.marks.heap)
	out.Disk, out.Objects = s.index.bytes, len(s.index.objects)
	return out
}

// memory is the number of bytes that the store holds.
func (s *Store) memory() int64 {
	return s.tree.bytes + s.marks.bytes + objectSize*int64(len(s.index.objects))
}
