package host

import (
	"container/list"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"sync"
)

// scores keep what texts have scored, in blocks of a chunk: the log-probabilities of the ids from one multiple of the
// chunk to the next depend on those ids and all before them, and on nothing else. What is used least goes first. With
// the marks of a store, a text that begins like another is read from about where they part.
type scores struct {
	chunk int
	most  int // bytes

	mu     sync.Mutex
	blocks map[blockKey]*list.Element // of *block
	recent list.List                  // the last used first
	bytes  int
	claims map[blockKey]chan struct{} // closed when whoever reads the block has read it, or given up
}

// blockKey is a hash of all ids up to the end of a block.
type blockKey [sha256.Size]byte

// block has the ids of one chunk, scored.
type block struct {
	key blockKey
	ids []Token
	top int // how many of the most probable tokens each has
}

// scoresMemory is the most bytes that the scores of a model take.
const scoresMemory = 64 << 20

func newScores(chunk, most int) *scores {
	return &scores{
		chunk: chunk, most: most, blocks: map[blockKey]*list.Element{}, claims: map[blockKey]chan struct{}{},
	}
}

// size is about how many bytes a block takes.
func (b *block) size() int {
	const each, token = 56, 16
	return 256 + len(b.ids)*(each+token*b.top)
}

// keys are those of the whole blocks of a text.
func (s *scores) keys(ids []int32) (keys []blockKey) {
	var last blockKey
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

// claim returns the scores of the first blocks of a text, as many as are there with the most probable tokens that are
// wanted. Where somebody is about to score the next block, it waits for that. The next block is then the caller's to
// score, until it calls release.
func (s *scores) claim(ctx context.Context, keys []blockKey, top int) (known []Token, release func(), err error) {
	for {
		s.mu.Lock()
		known = s.known(keys, top)
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

// known are the scores of the first blocks. The lock is held.
func (s *scores) known(keys []blockKey, top int) (ids []Token) {
	for _, k := range keys {
		e := s.blocks[k]
		if e == nil || e.Value.(*block).top < top {
			break
		}
		s.recent.MoveToFront(e)
		for _, t := range e.Value.(*block).ids {
			t.Top = t.Top[:min(top, len(t.Top))]
			ids = append(ids, t)
		}
	}
	return ids
}

// keep keeps the whole blocks of a text.
func (s *scores) keep(keys []blockKey, ids []Token, top int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, k := range keys {
		if old := s.blocks[k]; old != nil {
			if old.Value.(*block).top >= top {
				continue
			}
			s.remove(old)
		}
		b := &block{k, slices.Clone(ids[i*s.chunk : (i+1)*s.chunk]), top}
		s.blocks[k] = s.recent.PushFront(b)
		s.bytes += b.size()
	}
	for s.bytes > s.most {
		s.remove(s.recent.Back())
	}
}

// remove forgets a block. The lock is held.
func (s *scores) remove(e *list.Element) {
	b := s.recent.Remove(e).(*block)
	s.bytes -= b.size()
	delete(s.blocks, b.key)
}
