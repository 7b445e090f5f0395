package constrain

import (
	"math"
	"slices"
)

// state is a state of the automaton.
type state struct {
	kind      kind
	low, high byte // of isByte; low of isCall may be short
	// other: second way of isSplit, called state of isCall, or mark of isByte in lists with uniqueItems
	next, other int32
}

type kind uint8

const (
	isReturn kind = iota // continues after the call or, without a call, the text may end
	isByte               // accepts a byte from low to high
	isSplit              // continues at both next and other
	isCall               // continues at other and, when that returns, at next
)

// short is the value of low in a call of states that accept only a few bytes and return, for example those of a
// character.
const short = 1

// final is the state that returns.
const final int32 = 0

// builder writes the states of a grammar from the end to the beginning. A method that writes states that accept
// something gets as next the state at which they continue, and returns the first of them.
type builder struct {
	states  []state
	shared  map[state]int32
	classes map[string]int32 // states that accept a character of a set and return
	path    string           // path of the current keyword, for errors
	differ  []differ         // the lists with uniqueItems
}

func newBuilder() *builder {
	return &builder{states: make([]state, 1), shared: map[state]int32{}, classes: map[string]int32{}}
}

// add returns an existing state that equals s, or adds one.
func (b *builder) add(s state) int32 {
	if at, ok := b.shared[s]; ok {
		return at
	}
	at := b.reserve()
	b.states[at] = s
	b.shared[s] = at
	return at
}

// reserve returns a new state that set must define later.
func (b *builder) reserve() int32 {
	if len(b.states) >= maxStates {
		fail(b.path, "found a grammar of more than %d states, want a smaller one", maxStates)
	}
	b.states = append(b.states, state{kind: isSplit})
	return int32(len(b.states) - 1)
}

// set defines a reserved state: it continues at next.
func (b *builder) set(at, next int32) { b.states[at] = state{kind: isSplit, next: next, other: next} }

// bytes writes a state that accepts a byte from low to high.
func (b *builder) bytes(low, high byte, next int32) int32 {
	return b.add(state{kind: isByte, low: low, high: high, next: next})
}

// text writes states that accept text.
func (b *builder) text(text string, next int32) int32 {
	for i := len(text) - 1; i >= 0; i-- {
		next = b.bytes(text[i], text[i], next)
	}
	return next
}

// either returns a state that continues at each of ways, or nothing if there are none.
func (b *builder) either(ways ...int32) int32 {
	if len(ways) == 0 {
		return b.nothing()
	}
	slices.Sort(ways)
	ways = slices.Compact(ways)
	at := ways[0]
	for _, way := range ways[1:] {
		at = b.add(state{kind: isSplit, next: at, other: way})
	}
	return at
}

// nothing returns a state from which no text can be completed.
func (b *builder) nothing() int32 {
	at := b.reserve()
	b.set(at, at)
	return at
}

// call returns a state that continues at entry and, when that returns, at next.
func (b *builder) call(entry, next int32) int32 {
	if next == final {
		return entry
	}
	return b.add(state{kind: isCall, next: next, other: entry})
}

// callShort is like call, for states that accept only a few bytes and return.
func (b *builder) callShort(entry, next int32) int32 {
	if next == final {
		return entry
	}
	return b.add(state{kind: isCall, low: short, next: next, other: entry})
}

// oneOf writes states that accept one of texts. Texts with the same prefix share states.
func (b *builder) oneOf(texts []string, next int32) int32 {
	texts = slices.Clone(texts)
	slices.Sort(texts)
	return b.branch(slices.Compact(texts), 0, next)
}

// branch writes states that accept the rests of sorted texts from index at on. Up to there the texts are equal.
func (b *builder) branch(texts []string, at int, next int32) int32 {
	if len(texts) == 1 {
		return b.text(texts[0][at:], next)
	}
	var ways []int32
	if len(texts[0]) == at {
		ways, texts = append(ways, next), texts[1:]
	}
	if x := texts[0][at]; texts[len(texts)-1][at] == x { // all have the same next byte
		end := at + 1
		for last := texts[len(texts)-1]; end < len(texts[0]) && texts[0][end] == last[end]; end++ {
		}
		ways = append(ways, b.text(texts[0][at:end], b.branch(texts, end, next)))
		return b.either(ways...)
	}
	for len(texts) > 0 {
		x := texts[0][at]
		n := len(texts)
		for i, text := range texts {
			if text[at] != x {
				n = i
				break
			}
		}
		ways = append(ways, b.bytes(x, x, b.branch(texts[:n], at+1, next)))
		texts = texts[n:]
	}
	return b.either(ways...)
}

// spaces is the maximum number of spaces after a line end, so that a model cannot write spaces forever.
const spaces = 16

// space writes states that accept white space between two parts of JSON: nothing, a space, or a line end and spaces.
func (b *builder) space(next int32) int32 {
	entry, ok := b.classes["space"]
	if !ok {
		indent := final
		for range spaces {
			indent = b.either(final, b.bytes(' ', ' ', indent))
		}
		entry = b.either(final, b.bytes(' ', ' ', final), b.bytes('\n', '\n', indent))
		b.classes["space"] = entry
	}
	return b.callShort(entry, next)
}

// never is the need of a state from which no text can be completed.
const never = math.MaxInt32

// needs returns for every state its need: the minimum depth of nested calls with which a text can be completed from
// there, or never if it cannot be completed. usable reports which bytes can be written; nil means all.
//
// The needs are the least solution of need(byte) = need(next), need(split) = min, need(call) = max(1+need(called),
// need(next)). They are found in increasing order, as in Knuth, "A generalization of Dijkstra's algorithm" (1977).
func (g *Grammar) needs(usable *[256]bool) []int32 {
	need, missing := make([]int32, len(g.states)), make([]int8, len(g.states))
	first, waiting := make([]int32, len(g.states)), make([]link, 1, 2*len(g.states))
	wait := func(at, on int32) {
		waiting = append(waiting, link{at, first[on]})
		first[on] = int32(len(waiting) - 1)
	}
	for i, s := range g.states {
		need[i], missing[i] = never, 1
		switch s.kind {
		case isByte:
			if s.usable(usable) {
				wait(int32(i), s.next)
			}
		case isSplit:
			wait(int32(i), s.next)
			wait(int32(i), s.other)
		case isCall:
			missing[i] = 2
			wait(int32(i), s.next)
			wait(int32(i), s.other)
		}
	}
	level, above := []int32{final}, []int32(nil)
	for depth := int32(0); len(level) > 0 && depth <= maxDepth; depth++ {
		for len(level) > 0 {
			at := level[len(level)-1]
			level = level[:len(level)-1]
			if need[at] != never {
				continue
			}
			need[at] = depth
			for l := first[at]; l != 0; l = waiting[l].next {
				who := waiting[l].state
				if missing[who]--; missing[who] > 0 || need[who] != never {
					continue
				}
				if s := g.states[who]; s.kind == isCall && need[s.other] == depth {
					above = append(above, who)
				} else {
					level = append(level, who)
				}
			}
		}
		level, above = above, nil
	}
	return need
}

// link is an element of a linked list of states.
type link struct{ state, next int32 }

// usable reports whether any byte of the state's range can be written.
func (s *state) usable(bytes *[256]bool) bool {
	return bytes == nil || slices.Contains(bytes[s.low:int(s.high)+1], true)
}
