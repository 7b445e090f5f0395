package host

import (
	"container/list"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"sync"
)

// scores caches the scores of texts in blocks of a chunk. The log-probabilities of the ids between two multiples of the
// chunk depend only on those ids and all ids before them. The least recently used block is evicted first. Together with
// the marks of a store, this allows a text with a known prefix to be read from about where it diverges.
type scores struct {
	chunk int
	most  int // budget in bytes

	mu     sync.Mutex
	blocks map[blockKey]*list.Element // of *block
	recent list.List                  // most recently used first
	bytes  int
	claims map[blockKey]chan struct{} // closed when the reader of the block has finished or given up
}

// blockKey is a hash of the scope and all ids up to the end of a block.
type blockKey [sha256.Size]byte

// block has the scored ids of one chunk.
type block struct {
	key blockKey
	ids []Token
	of  Wanted // what is computed for ids
}

// scoresMemory is the budget of a model's scores in bytes.
const scoresMemory = 64 << 20

func newScores(chunk, most int) *scores {
	return &scores{
		chunk: chunk, most: most, blocks: map[blockKey]*list.Element{}, claims: map[blockKey]chan struct{}{},
	}
}

// size estimates the bytes of a block.
func (b *block) size() int {
	const each, token = 56, 16
	return 256 + len(b.ids)*(each+token*b.of.Top)
}

// keys returns the keys of the complete blocks of a text within a scope.
func (s *scores) keys(scope string, ids []int32) (keys []blockKey) {
	last := blockKey(sha256.Sum256([]byte(scope)))
	var text []byte
	for ; len(ids) >= s.chunk; ids = ids[s.chunk:] {
		text = append(text[:0], last[:]...)
		for _, id := range ids[:s.chunk] {
			text = binary.LittleEndian.AppendUint32(text, uint32(id))
		}
		last = sha256.Sum256(text)
		keys = append(keys, last)
	}
	return keys
}

// claim returns the cached scores of the first blocks of a text, as far as they include what is wanted. If another
// request is scoring the next block, claim waits for it. The caller must then score the next block, and no other
// request does so until it calls release.
func (s *scores) claim(ctx context.Context, keys []blockKey, of Wanted) (known []Token, release func(), err error) {
	for {
		s.mu.Lock()
		known = s.known(keys, of)
		n := len(known) / s.chunk
		if n == len(keys) {
			s.mu.Unlock()
			return known, func() {}, nil
		}
		others := s.claims[keys[n]]
		if others == nil {
			mine := make(chan struct{})
			s.claims[keys[n]] = mine
			s.mu.Unlock()
			return known, func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				delete(s.claims, keys[n])
				close(mine)
			}, nil
		}
		s.mu.Unlock()
		select {
		case <-others:
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
}

// known returns the cached scores of the first blocks. mu must be held.
func (s *scores) known(keys []blockKey, of Wanted) (ids []Token) {
	for _, k := range keys {
		e := s.blocks[k]
		if e == nil || !e.Value.(*block).of.has(of) {
			break
		}
		s.recent.MoveToFront(e)
		for _, t := range e.Value.(*block).ids {
			t.Top = t.Top[:min(of.Top, len(t.Top))]
			ids = append(ids, t)
		}
	}
	return ids
}

// keep caches the complete blocks of a text. It keeps additional results of blocks that are already cached.
func (s *scores) keep(keys []blockKey, ids []Token, of Wanted) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, k := range keys {
		b := &block{k, slices.Clone(ids[i*s.chunk : (i+1)*s.chunk]), of}
		if e := s.blocks[k]; e != nil {
			old := e.Value.(*block)
			if old.of.has(of) {
				continue
			}
			b.add(old)
			s.remove(e)
		}
		s.blocks[k] = s.recent.PushFront(b)
		s.bytes += b.size()
	}
	for s.bytes > s.most {
		s.remove(s.recent.Back())
	}
}

// add copies the results that old, a block of the same ids, has in addition to b's.
func (b *block) add(old *block) {
	for i, t := range old.ids {
		if old.of.Top > b.of.Top {
			b.ids[i].Top = t.Top
		}
		if old.of.Ranks {
			b.ids[i].Rank = t.Rank
		}
	}
	b.of = Wanted{max(b.of.Top, old.of.Top), b.of.Ranks || old.of.Ranks}
}

// remove evicts a block. mu must be held.
func (s *scores) remove(e *list.Element) {
	b := s.recent.Remove(e).(*block)
	s.bytes -= b.size()
	delete(s.blocks, b.key)
}
