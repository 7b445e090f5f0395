// Package store caches the texts that models have read: a tree of texts with marks from which reading can resume. It
// uses memory up to a budget, then a folder or another bucket, which any number of processes can share.
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

// Options configure a Store.
type Options struct {
	// Model reads the texts.
	Model *model.Model
	// Identity is the identity of Model: see session.Identify. Stores with the same identity and key share their marks.
	Identity session.Identity
	// Memory is the maximum memory in bytes for states, logits, texts and the index of the bucket.
	Memory int64

	// Bucket stores the marks that do not fit in memory. nil means that there is no bucket.
	Bucket Bucket
	// Key, at least 16 random bytes, encrypts the objects in Bucket. Their names then reveal only the lengths of the
	// texts.
	Key []byte
	// Disk is the maximum total size in bytes of the objects in Bucket, whichever process wrote them; 0 means no limit.
	// While n processes write, the size may temporarily exceed it by the fraction n/16.
	Disk int64
	// Refresh is the time for which a list of the bucket stays valid. Objects that other processes write in this time
	// may be overlooked, so a text is read again. 0 means DefaultRefresh. A negative value means that lists are never
	// reused.
	Refresh time.Duration
	// Report, unless it is nil, is called with the errors of Bucket, after which the store continues in memory. It is
	// also called once with ErrTooLarge. Any goroutine may call it.
	Report func(error)
}

// DefaultRefresh is the default value of Options.Refresh.
const DefaultRefresh = time.Second

// Store is a tree of the texts that a model has read, divided into the pieces in which it read them, with marks to
// continue from. If several requests need the same text at the same time, one of them reads it. Methods may be called
// from any number of goroutines. A call that waits for the bucket blocks only calls that wait for the same list or for
// memory.
type Store struct {
	*core
	origin key // key of the start of every text: see Scope
}

// core holds the data that all scopes of a store share.
type core struct {
	o       Options
	model   string // IDENTITY in the names of objects
	listing sync.Mutex

	writers sync.WaitGroup

	mu     sync.Mutex // guards the fields below
	tree   tree
	claims map[key]claim
	// released is the number of claims that have ended.
	released int
	marks    marks
	index    index
	stats    Stats
	texts    []string   // names of the objects from which the tree has read its texts
	ahead    bool       // writeAhead is running
	free     *sync.Cond // signaled when the write of a mark to the bucket has ended
}

// Stats holds counts since the store was created, and the current sizes.
type Stats struct {
	Memory  int64 // bytes in memory
	Marks   int   // in memory
	Disk    int64 // bytes of the objects in the bucket, as far as the index knows
	Objects int
	Finds   int          // texts that were looked up
	Hits    int          // of these, texts of which a part was found
	Cached  int64        // ids that were found
	Missed  [reasons]int // Finds by the reason why no more was found; Whole counts complete ones
	Loads   int          // marks read from the bucket
	Writes  int          // marks written to the bucket
	Lost    int          // marks evicted from memory that are not in the bucket
	// TooLarge counts the marks in Lost that were never in memory because they are larger than all of it.
	TooLarge int
}

// New returns a store without marks in memory. It lists the objects in the bucket and reads the known texts.
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
	s := &Store{core: &core{o: o, claims: map[key]claim{}, index: index{objects: map[key]*object{}}}}
	s.marks.pages = pages{}
	id, err := json.Marshal(o.Identity)
	if err != nil {
		return nil, err
	}
	mac := hmac.New(sha256.New, o.Key)
	mac.Write(append([]byte(magic), id...))
	s.origin = key(mac.Sum(nil))
	s.model = hex.EncodeToString(s.origin[:idLen/2])
	s.tree = newTree(s.origin)
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

// Scope returns a view of the store with its own texts. Texts and marks of one scope are never found in another, and
// nothing reported about a text depends on the texts of other scopes. Use a scope for each client if clients must not
// learn about each other's texts. All scopes share the memory, the bucket and the counts. The scope "" is s itself; it
// reads the objects that stores without scopes have written. Keys contain only a hash of the name.
func (s *Store) Scope(name string) *Store {
	if name == "" {
		return s
	}
	mac := hmac.New(sha256.New, s.o.Key)
	mac.Write(append(append([]byte("scope"), s.origin[:]...), name...))
	return &Store{s.core, key(mac.Sum(nil))}
}

// Close waits until all background writes have ended. It does not write marks: see Flush.
func (s *Store) Close() { s.writers.Wait() }

// Stats returns the counts and sizes.
func (s *Store) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.stats
	out.Memory, out.Marks = s.memory(), len(s.marks.heap)
	out.Disk, out.Objects = s.index.bytes, len(s.index.objects)
	return out
}

// memory returns the number of bytes in use.
func (s *Store) memory() int64 {
	return s.tree.bytes + s.marks.bytes + objectSize*int64(len(s.index.objects))
}
