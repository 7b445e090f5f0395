package store

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hippo-ssm/hippo/session"
)

// index lists the objects that a store has seen in the bucket or written and not removed. Other processes write and
// remove objects too. So a listed object may no longer exist, and an existing object may not be listed.
type index struct {
	objects map[key]*object // of the models of all stores
	bytes   int64           // total size of the objects
	clock   int64           // worth of the last evicted object; see weigh
	asides  int             // damaged objects that are quarantined
	changes int             // number of additions so far
	listed  time.Time       // start of the last list, with a monotonic clock reading, so clock changes do not matter
	fresh   int64           // bytes written since the last list
	writing int64           // bytes being written
}

// objectSize is the memory in bytes of an object in the index.
const objectSize = 300

// unit scales worth to integers: worth is counted in tokens per unit bytes. It is large, so that the worths of two
// objects differ clearly.
const unit = 1 << 30

// weigh returns the worth of each object: a value like that of marks in memory, plus the clock at the last use. The
// clock in the names makes all processes roughly agree. Worths are integers, which lose no precision. Unlike in memory,
// only the mark directly before an object is known. It counts if it still exists.
func (x *index) weigh(all []*object) map[*object]int64 {
	ids := make(map[string]*object, len(all))
	for _, o := range all {
		ids[o.key.id()] = o
	}
	next := make(map[*object]*object, len(all)) // the nearest mark after an object, nil if texts diverge there
	for _, o := range all {
		if before := ids[o.before]; before != nil {
			if _, parted := next[before]; parted {
				next[before] = nil
			} else {
				next[before] = o
			}
		}
	}
	worth := make(map[*object]int64, len(all))
	for _, o := range all {
		tokens := int64(o.position)
		if before := ids[o.before]; before != nil {
			tokens = max(0, tokens-int64(before.position))
		}
		w := tokens * unit / o.size
		if n := next[o]; n != nil && n.position > o.position { // see node.share
			w = w / int64(n.position) * int64(n.position-o.position)
		}
		worth[o] = o.clock + w
	}
	return worth
}

// put adds an object.
func (x *index) put(o *object) {
	x.remove(o.key)
	x.changes++
	o.added = x.changes
	x.objects[o.key] = o
	x.bytes += o.size
	x.clock = max(x.clock, o.written)
}

// remove removes an object from the index.
func (x *index) remove(k key) {
	if o := x.objects[k]; o != nil {
		delete(x.objects, k)
		x.bytes -= o.size
	}
}

// forget removes an object that cannot be used from the index.
func (s *Store) forget(o *object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.index.objects[o.key] == o {
		s.index.remove(o.key)
	}
}

// refresh lists the bucket, unless the last list is younger than age. One caller lists at a time. Others that arrive
// meanwhile wait for it.
func (s *Store) refresh(ctx context.Context, age time.Duration) error {
	s.listing.Lock()
	defer s.listing.Unlock()
	s.mu.Lock()
	known, recent := s.index.changes, !s.index.listed.IsZero() && time.Since(s.index.listed) < age
	s.mu.Unlock()
	if recent {
		return nil
	}
	start := time.Now()
	var found []*object
	var twice []string
	asides := 0
	var texts []string
	at := map[key]int{}
	err := s.o.Bucket.List(ctx, func(name string) {
		if strings.HasPrefix(name, aside) {
			asides++
			return
		}
		if s.isTexts(name) {
			texts = append(texts, name)
			return
		}
		o, ok := parseName(name)
		if !ok {
			return // not the name of a mark
		}
		if i, ok := at[o.key]; ok { // two processes wrote the same object at the same time
			if found[i].written < o.written {
				found[i], o = o, found[i]
			}
			twice = append(twice, o.name())
			return
		}
		at[o.key] = len(found)
		found = append(found, o)
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	if s.index.listed.IsZero() { // written by earlier stores; stores running now keep theirs
		s.texts = texts
	}
	s.index.asides, s.index.listed, s.index.fresh = asides, start, 0
	for _, o := range s.index.objects {
		if _, ok := at[o.key]; !ok && o.added <= known {
			s.index.remove(o.key)
		}
	}
	for _, o := range found {
		if s.index.objects[o.key] == nil {
			s.index.put(o)
		}
	}
	s.mu.Unlock()
	for _, name := range twice {
		if err := s.o.Bucket.Delete(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// write writes a mark to the bucket unless it is there. If the limit of the bucket would be exceeded, write first
// removes the objects of least worth.
func (s *Store) write(ctx context.Context, k key, m *session.Snapshot, before string, logp []float32) error {
	s.mu.Lock()
	there := s.index.objects[k] != nil
	s.mu.Unlock()
	if there {
		return nil
	}
	data, err := s.encode(k, m, logp)
	if err == nil {
		o := &object{model: s.model, key: k, position: m.Position, size: int64(len(data)), before: before}
		err = s.writeObject(ctx, o, data)
	}
	if err != nil {
		return s.named(err)
	}
	return nil
}

func (s *Store) writeObject(ctx context.Context, o *object, data []byte) error {
	s.mu.Lock()
	s.index.writing += o.size
	o.written = s.index.clock
	o.clock = o.written
	s.mu.Unlock()
	err := s.trim(ctx, o.size)
	if err == nil {
		err = s.o.Bucket.Put(ctx, o.name(), data)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.index.writing -= o.size
	if err == nil {
		s.index.fresh += o.size
		s.index.put(o)
	}
	return err
}

// trim removes the objects of least worth if an additional object of size bytes would exceed the limit.
func (s *Store) trim(ctx context.Context, size int64) error {
	limit := s.o.Disk
	if limit <= 0 {
		return nil
	}
	if size > limit {
		return fmt.Errorf("an object of %d bytes, want at most the %d of all", size, limit)
	}
	s.mu.Lock()
	// Objects that other processes have written since the last list are unknown. So each store lists again after it has
	// written 1/16 of the limit.
	look := s.index.bytes+s.index.writing > limit || s.index.fresh+s.index.writing > limit/16
	s.mu.Unlock()
	if !look {
		return nil
	}
	if err := s.refresh(ctx, 0); err != nil {
		return err
	}
	for _, o := range s.leave(limit) {
		if err := s.o.Bucket.Delete(ctx, o.name()); err != nil {
			return err
		}
	}
	return nil
}

// leave removes the objects of least worth from the index if the total exceeds the limit, and returns them. It removes
// a few more than necessary, so that not every write has to remove some.
func (s *Store) leave(limit int64) (out []*object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := &s.index
	if x.bytes+x.writing <= limit {
		return nil
	}
	all := slices.Collect(maps.Values(x.objects))
	worth := x.weigh(all)
	slices.SortFunc(all, func(a, b *object) int {
		return cmp.Or(cmp.Compare(worth[a], worth[b]), slices.Compare(a.key[:], b.key[:]))
	})
	for _, o := range all {
		if x.bytes+x.writing <= limit-limit/16 {
			break
		}
		x.clock = max(x.clock, worth[o])
		x.remove(o.key)
		out = append(out, o)
	}
	return out
}
