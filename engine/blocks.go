package engine

import (
	"slices"

	"github.com/hippo-ssm/hippo/internal/counter"
)

// Blocks determines which blocks of keys a block of queries sees, as in "Big Bird: Transformers for Longer Sequences"
// (arXiv:2007.14062, §2): the first Global blocks of the sequence, the blocks around it, and Random blocks drawn at
// random. The cost of a sequence is linear in its length.
//
// A causal block sees earlier blocks, and each of its queries sees the keys of its own block up to itself. The window
// is to the left only, and blocks are drawn between the global ones and the window. The draw depends on the head and
// the block only, so that the sequence can grow.
type Blocks struct {
	Size   int // positions of a block
	Window int // blocks on each side, besides its own
	Global int // at the front and, with Ahead, at the end: every query sees them; with Ahead, they see all
	Random int
	Seed   uint64
	Ahead  bool // see later positions, for encoders
	// Plan, unless nil, returns the blocks that a block of a head sees instead of random ones.
	Plan func(head, block int) []int
}

// Span is a run of keys [Lo, Hi), counted from the first key in memory.
type Span struct{ Lo, Hi int }

// Len returns the number of keys.
func (s Span) Len() int { return s.Hi - s.Lo }

// Spans appends the runs of keys that a block of queries sees, in a sequence of l positions so far. A causal block sees
// no key after hi-1. Key 0 is at position start; earlier keys were dropped.
func (b *Blocks) Spans(spans []Span, head, block, hi, l, start int) []Span {
	var buf [16]int
	count := (l + b.Size - 1) / b.Size
	if !b.Ahead {
		count, l = block+1, hi
	}
	for _, k := range b.Seen(buf[:0], head, block, count) {
		s := Span{max(k*b.Size-start, 0), min((k+1)*b.Size, l) - start}
		switch last := len(spans) - 1; {
		case s.Hi <= s.Lo:
		case last >= 0 && spans[last].Hi == s.Lo:
			spans[last].Hi = s.Hi
		default:
			spans = append(spans, s)
		}
	}
	return spans
}

// Seen appends the blocks that a block sees in a sequence of count blocks, in ascending order.
func (b *Blocks) Seen(to []int, head, block, count int) []int {
	if b.Ahead && (block < b.Global || block >= count-b.Global) {
		for k := range count {
			to = append(to, k)
		}
		return to
	}
	for k := range min(b.Global, count) {
		to = append(to, k)
	}
	hi := block
	if b.Ahead {
		hi = min(block+b.Window, count-1)
		for k := count - b.Global; k < count; k++ {
			to = append(to, k)
		}
	}
	for k := max(block-b.Window, 0); k <= hi; k++ {
		to = append(to, k)
	}
	if b.Plan != nil {
		to = append(to, b.Plan(head, block)...)
	} else {
		to = b.draw(to, head, block, count)
	}
	slices.Sort(to)
	return slices.Compact(to)
}

// draw appends Random different blocks, drawn from those that the block does not see by Window and Global.
func (b *Blocks) draw(to []int, head, block, count int) []int {
	left := max(block-b.Window-b.Global, 0) // blocks before the window
	n := left
	if b.Ahead {
		n += max(count-b.Global-(block+b.Window+1), 0)
	}
	first := len(to)
	for i := uint64(0); len(to)-first < min(b.Random, n); i++ {
		z := counter.Mix64(b.Seed + i<<48 + uint64(head)<<32 + uint64(block))
		k := b.Global + int(z%uint64(n))
		if k >= b.Global+left { // after the window
			k += block + b.Window + 1 - b.Global - left
		}
		if !slices.Contains(to[first:], k) {
			to = append(to, k)
		}
	}
	return to
}
