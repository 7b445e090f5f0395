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

// index is what a store knows of its bucket: what it has listed, written and removed since. Others write and remove,
// too, so an object that it knows may be gone, and one that it does not know may be there.
type index struct {
	objects map[key]*object // of the models of all stores
	bytes   int64           // of them
	clock   int64           // what the last object that went was worth; see weigh
	asides  int             // damaged objects that are kept
	changes int             // how often objects have been added
	listed  time.Time       // when the last list began: a difference of monotonic times, so no clock change matters
	fresh   int64           // bytes written since
	writing int64           // bytes being written
}

// objectSize is the memory of an object in the index.
const objectSize = 300

// unit is the number of bytes whose worth is counted in tokens: large enough for the difference of two objects to be
// many units.
const unit = 1 << 30

// weigh returns what each of some objects is worth: what value is for marks in memory, on top of the clock at the last
// use. The clock in their names makes all processes agree, more or less. Whole numbers lose no precision. The mark
// before counts if it is still there; other than in memory no one knows the one before that.
func (x *index) weigh(all []*object) map[*object]int64 {
	ids := make(map[string]*object, len(all))
	for _, o := range all {
		ids[o.key.id()] = o
	}
	next := make(map[*object]*object, len(all)) // the nearest mark after, nil where texts part
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

// put takes an object.
func (x *index) put(o *object) {
	x.remove(o.key)
	x.changes++
	o.added = x.changes
	x.objects[o.key] = o
	x.bytes += o.size
	x.clock = max(x.clock, o.written)
}

// remove forgets an object.
func (x *index) remove(k key) {
	if o := x.objects[k]; o != nil {
		delete(x.objects, k)
		x.bytes -= o.size
	}
}

// forget removes an object that cannot be used.
func (s *Store) forget(o *object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.index.objects[o.key] == o {
		s.index.remove(o.key)
	}
}

// refresh lists the bucket, unless that was done not long ago. One caller does it; others that come meanwhile wait, and
// then have the same list.
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
			return // not ours
		}
		if i, ok := at[o.key]; ok { // two processes wrote the same at the same time
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
	if s.index.listed.IsZero() { // of stores before this one; those that work beside it keep their own
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

// write makes an object of a mark, unless there is one. It first makes room for it, if there is a limit: what is worth
// the least goes.
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

// trim removes what is worth the least, if there is a limit and no room for an object of some bytes being written.
func (s *Store) trim(ctx context.Context, size int64) error {
	limit := s.o.Disk
	if limit <= 0 {
		return nil
	}
	if size > limit {
		return fmt.Errorf("an object of %d bytes, want at most the %d of all", size, limit)
	}
	s.mu.Lock()
	// What others have written meanwhile is not known. So each looks again after it has written a part of the limit.
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

// leave forgets the objects that are worth the least, if all have more bytes than the limit, and some more, so that it
// need not be done for every object. It returns them.
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
