// Package store caches what models have read: a tree of texts with marks from which reading can resume. It uses memory
// up to a budget, then a folder or another bucket, which any number of processes can share.
package store

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/session"
)

// Options configure the places and budgets of a Store.
type Options struct {
	// Model reads the texts.
	Model *model.Model
	// Identity is that of the model: see session.Identify. Stores of one identity, and one key, share their marks.
	Identity session.Identity
	// Memory is the most bytes to hold in memory: of states, logits, texts and the index of the bucket. The pages of
	// attention that marks share are counted for each of them.
	Memory int64

	// Bucket is where marks go for which there is no room in memory; nil for nowhere.
	Bucket Bucket
	// Key, at least 16 random bytes, encrypts what is written to Bucket. The names of the objects then tell nothing of
	// the texts either, except for the lengths.
	Key []byte
	// Disk is the maximum size of all objects in Bucket in bytes, no matter which process wrote them; 0 for any. While
	// n processes write, there may be n/16 more for a moment.
	Disk int64
	// Refresh is how long a list of the bucket is good: what others have written in this time may be overlooked, which
	// costs a re-read. 0 means DefaultRefresh, less than 0 that every list is too old.
	Refresh time.Duration
	// Report, unless it is nil, is called with the errors of Bucket, in spite of which the store continues in memory.
	// Any goroutine may call it.
	Report func(error)
}

// DefaultRefresh is the default of Options.Refresh.
const DefaultRefresh = time.Second

// Store is a tree of texts that a model has read, by the pieces that it has read them in, with marks from which to go
// on. What several want to read at the same time one of them reads. Methods may be called from any number of
// goroutines. A caller that waits for the bucket blocks no others, except those that wait for the same list of it, or
// for room.
type Store struct {
	o       Options
	model   string // as in the names of objects
	origin  key    // the key of the start of every text
	listing sync.Mutex

	writers sync.WaitGroup

	mu     sync.Mutex // guards what follows
	tree   tree
	claims map[key]claim
	marks  marks
	index  index
	stats  Stats
	texts  []string   // the objects of the texts that the tree knows
	ahead  bool       // writeAhead is at work
	free   *sync.Cond // signaled when a mark that was being evicted is gone
}

// Stats are counts since the store was made, and what it holds now.
type Stats struct {
	Memory  int64 // bytes in memory
	Marks   int   // in memory
	Disk    int64 // bytes of the objects in the bucket, as far as is known
	Objects int
	Finds   int          // texts that were looked for
	Hits    int          // those of which something was found
	Cached  int64        // ids that were found
	Missed  [reasons]int // texts by why no more of them was found; those at Whole were found whole
	Loads   int          // marks read from the bucket
	Writes  int          // marks written to it
	Lost    int          // marks that went from memory without being in the bucket
}

// New returns an empty store over what there is in its bucket.
func New(ctx context.Context, o Options) (*Store, error) {
	switch {
	case o.Model == nil:
		return nil, errors.New("store: no model")
	case o.Identity.Chunk < 1:
		return nil, fmt.Errorf("store: pieces of %d ids, want at least 1", o.Identity.Chunk)
	case o.Memory < 0 || o.Disk < 0:
		return nil, fmt.Errorf("store: budgets of %d and %d bytes, want at least 0", o.Memory, o.Disk)
	case o.Refresh == 0:
		o.Refresh = DefaultRefresh
	}
	s := &Store{o: o, tree: newTree(), claims: map[key]claim{}, index: index{objects: map[key]*object{}}}
	s.marks.pages = pages{}
	id, err := json.Marshal(o.Identity)
	if err != nil {
		return nil, err
	}
	mac := hmac.New(sha256.New, o.Key)
	mac.Write(append([]byte(magic), id...))
	s.origin = key(mac.Sum(nil))
	s.model = hex.EncodeToString(s.origin[:idLen/2])
	s.free = sync.NewCond(&s.mu)
	if o.Key != nil {
		if _, err := session.Seal(io.Discard, o.Key); err != nil {
			return nil, err
		}
	}
	if o.Bucket != nil {
		if err := s.refresh(ctx, 0); err != nil {
			return nil, s.named(err)
		}
		s.readTexts(ctx)
	}
	return s, nil
}

// Close waits until nothing is being written any more. It writes nothing itself: see Flush.
func (s *Store) Close() { s.writers.Wait() }

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
