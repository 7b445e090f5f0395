package bpe

import (
	"cmp"
	"math/bits"
)

// Limits of a vocabulary, so that a pair of ids and its rank fit into 64 bits. The largest published vocabularies have
// about 2^18 tokens.
const (
	idBits    = 22
	rankBits  = 20
	MaxIDs    = 1 << idBits
	MaxMerges = 1 << rankBits
)

// noRank is the rank of a pair that is not merged. It is larger than every other rank.
const noRank = 1<<32 - 1

// MergeTable determines which pairs of tokens are merged, in which order, and into which token.
type MergeTable struct {
	slots  []uint64 // hash table with linear probing: left id, right id, rank, from high bits to low
	shift  uint
	result []int32 // id by rank
}

const emptySlot = 1<<64 - 1

// NewMergeTable returns the table in which pairs[rank] is merged into result[rank]. If a pair occurs twice, its later
// rank is used, as in Hugging Face's library.
func NewMergeTable(pairs [][2]int32, result []int32) MergeTable {
	ranks := make([]uint32, len(pairs))
	for rank := range ranks {
		ranks[rank] = uint32(rank)
	}
	return NewRankedTable(pairs, ranks, result)
}

// NewRankedTable returns the table in which pairs[i] has rank ranks[i]. Pairs with the same result may share a rank.
func NewRankedTable(pairs [][2]int32, ranks []uint32, result []int32) MergeTable {
	sizeBits := bits.Len(uint(2*len(pairs)) | 15)
	t := MergeTable{slots: make([]uint64, 1<<sizeBits), shift: uint(64 - sizeBits), result: result}
	for i := range t.slots {
		t.slots[i] = emptySlot
	}
	for n, pair := range pairs {
		key := uint64(pair[0])<<idBits | uint64(pair[1])
		i := t.home(key)
		for t.slots[i] != emptySlot && t.slots[i]>>rankBits != key {
			i = (i + 1) & (len(t.slots) - 1)
		}
		t.slots[i] = key<<rankBits | uint64(ranks[n])
	}
	return t
}

// home returns the first slot to search for a pair: multiplicative hashing by 2^64 divided by the golden ratio.
func (t *MergeTable) home(key uint64) int { return int(key * 0x9e3779b97f4a7c15 >> t.shift) }

// rank returns the rank of a pair, or noRank.
func (t *MergeTable) rank(left, right int32) uint32 {
	key := uint64(left)<<idBits | uint64(right)
	for i := t.home(key); ; i = (i + 1) & (len(t.slots) - 1) {
		slot := t.slots[i]
		if slot>>rankBits == key {
			return uint32(slot & (MaxMerges - 1))
		}
		if slot == emptySlot {
			return noRank
		}
	}
}

// Merger merges the tokens of one word. It reuses its memory for the next word.
type Merger struct{ ranks []uint32 }

// longWord is the number of bytes from which a heap is faster than searching all pairs for each merge.
const longWord = 96

// Merge merges ids, the bytes of a word, in place. It repeatedly merges the pair of the lowest rank, the leftmost of
// equals, until no pair has a rank. It returns the remaining ids.
func (m *Merger) Merge(t *MergeTable, ids []int32) []int32 {
	if len(ids) >= longWord {
		return mergeLong(t, ids)
	}
	// ranks[i] is the rank of the pair (ids[i], ids[i+1]).
	ranks := m.ranks[:0]
	for i := 1; i < len(ids); i++ {
		ranks = append(ranks, t.rank(ids[i-1], ids[i]))
	}
	m.ranks = ranks
	for {
		best, at := uint32(noRank), 0
		for i, rank := range ranks {
			if rank < best {
				best, at = rank, i
			}
		}
		if best == noRank {
			return ids
		}
		ids[at] = t.result[best]
		ids = append(ids[:at+1], ids[at+2:]...)
		ranks = append(ranks[:at], ranks[at+1:]...)
		if at < len(ranks) {
			ranks[at] = t.rank(ids[at], ids[at+1])
		}
		if at > 0 {
			ranks[at-1] = t.rank(ids[at-1], ids[at])
		}
	}
}

// mergeNode is a token of a long word, in a doubly linked list.
type mergeNode struct {
	prev, next int32 // -1 at the ends
	id         int32
	rank       uint32 // of this token with the next; noRank also after the token was merged into the previous one
}

// mergeCandidate holds, from high bits to low, the rank and the index of a pair that had this rank when it was queued.
type mergeCandidate uint64

// mergeLong is like Merge, in O(n log n).
func mergeLong(t *MergeTable, ids []int32) []int32 {
	nodes := make([]mergeNode, len(ids))
	queue := heap[mergeCandidate]{make([]mergeCandidate, 0, len(ids)), cmp.Less[mergeCandidate]}
	for i, id := range ids {
		nodes[i] = mergeNode{prev: int32(i) - 1, next: int32(i) + 1, id: id, rank: noRank}
	}
	nodes[len(nodes)-1].next = -1
	update := func(i int32) {
		next := nodes[i].next
		if next < 0 {
			nodes[i].rank = noRank
			return
		}
		nodes[i].rank = t.rank(nodes[i].id, nodes[next].id)
		if nodes[i].rank != noRank {
			queue.push(mergeCandidate(nodes[i].rank)<<32 | mergeCandidate(i))
		}
	}
	for i := range nodes {
		update(int32(i))
	}
	for len(queue.items) > 0 {
		c := queue.pop()
		i, rank := int32(c&0xffffffff), uint32(c>>32)
		if nodes[i].rank != rank {
			continue // an earlier merge changed this pair
		}
		gone := nodes[i].next
		nodes[gone].rank = noRank
		nodes[i].id = t.result[rank]
		nodes[i].next = nodes[gone].next
		if next := nodes[i].next; next >= 0 {
			nodes[next].prev = i
		}
		update(i)
		if prev := nodes[i].prev; prev >= 0 {
			update(prev)
		}
	}
	ids = ids[:0]
	for i := int32(0); i >= 0; i = nodes[i].next {
		ids = append(ids, nodes[i].id)
	}
	return ids
}
