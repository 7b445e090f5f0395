package constrain

import (
	"encoding/binary"
	"errors"
	"slices"
)

// machine runs a grammar. It keeps the configurations that it has met, and what follows them. It is for one goroutine
// at a time.
type machine struct {
	states []state
	need   []int32
	class  [256]uint8 // bytes of one class are alike for all states
	sample []byte     // a byte of each class

	frames  []frame
	byFrame map[frame]int32
	known   map[string]*config
	dead    *config
	start   *config
	size    int // bytes of what is kept, about
	work    int // items met so far
	limit   int // of work
	over    bool

	stack   []item
	items   []item
	seen    map[item]struct{}
	key     []byte
	path    []*config // of a walk through a trie
	cursors []cursor
}

// frame is a place to return to. Those of a stack are linked; 0 is the bottom.
type frame struct {
	next, below, depth int32
	short              bool // only some bytes are taken above it
}

// item is a state that takes a byte, and the frame on top of its stack.
type item struct{ state, frame int32 }

// config is all that may be the case after a text: what the automaton's states and stacks may be.
type config struct {
	items []item
	ends  bool      // the text may end here
	next  []*config // by class of byte, nil where it is not known yet
	mask  []uint64  // the tokens that may follow, nil where they are not known yet
	peak  int32     // the largest depth and need met in reaching it
	own   *ownMask  // nil where it is not known yet
}

// The bounds of a machine.
const (
	maxItems = 1 << 14
	maxWork  = 1 << 20 // items met in finding the tokens that may follow one text
	textWork = 1 << 23 // and in all of a text, besides tokenWork for each token: who writes beside it waits meanwhile

	tokenWork = 1 << 13
	maxSize   = 8 << 20
)

// ErrAmbiguous is the error of a text that a grammar can be read in too many ways after.
var ErrAmbiguous = errors.New("constrain: found a text that the grammar can be read in too many ways after, " +
	"want a schema, an expression or rules with fewer alternatives that begin alike")

func newMachine(g *Grammar, need []int32) *machine {
	m := &machine{
		states: g.states, need: need, frames: make([]frame, 1), byFrame: map[frame]int32{},
		known: map[string]*config{}, dead: &config{}, seen: map[item]struct{}{},
	}
	var begins [257]bool
	for _, s := range g.states {
		if s.kind == isByte {
			begins[s.low], begins[int(s.high)+1] = true, true
		}
	}
	for x := range 256 {
		if x == 0 || begins[x] {
			m.sample = append(m.sample, byte(x))
		}
		m.class[x] = uint8(len(m.sample) - 1)
	}
	m.bound()
	m.push(g.start, 0)
	m.start = m.close()
	return m
}

// bound lets the machine meet so many more items. Afterwards over says that they were not enough.
func (m *machine) bound() { m.limit, m.over = m.work+maxWork, false }

// push adds a state to what is closed next.
func (m *machine) push(s, frame int32) { m.stack = append(m.stack, item{s, frame}) }

// close follows the states that were pushed to those that take a byte. States from which the text cannot be ended any
// more are left out.
func (m *machine) close() *config {
	m.items = m.items[:0]
	const large = 1 << 10 // a map that was large once takes long to clear
	if len(m.seen) > large {
		m.seen = map[item]struct{}{}
	}
	clear(m.seen)
	ends, peak := false, int32(0)
	for len(m.stack) > 0 {
		at := m.stack[len(m.stack)-1]
		m.stack = m.stack[:len(m.stack)-1]
		if m.need[at.state] == never {
			continue
		}
		needs := m.frames[at.frame].depth + m.need[at.state]
		if peak = max(peak, needs); needs > maxDepth {
			continue
		}
		if _, ok := m.seen[at]; ok {
			continue
		}
		m.seen[at] = struct{}{}
		if m.work++; m.work > m.limit || len(m.items) > maxItems {
			m.over, m.stack = true, m.stack[:0]
			return m.dead
		}
		switch s := &m.states[at.state]; s.kind {
		case isReturn:
			if at.frame == 0 {
				ends = true
			} else {
				f := m.frames[at.frame]
				m.push(f.next, f.below)
			}
		case isByte:
			m.items = append(m.items, at)
		case isSplit:
			m.push(s.next, at.frame)
			m.push(s.other, at.frame)
		case isCall:
			m.push(s.other, m.frame(frame{s.next, at.frame, m.frames[at.frame].depth + 1, s.low == short}))
		}
	}
	if len(m.items) == 0 && !ends {
		return m.dead
	}
	c := m.config(ends)
	c.peak = max(c.peak, peak)
	return c
}

// frame is the number of a frame.
func (m *machine) frame(f frame) int32 {
	at, ok := m.byFrame[f]
	if !ok {
		at = int32(len(m.frames))
		m.frames = append(m.frames, f)
		m.byFrame[f] = at
		m.size += 40
	}
	return at
}

// config is the configuration of m.items.
func (m *machine) config(ends bool) *config {
	slices.SortFunc(m.items, func(a, b item) int {
		if a.state != b.state {
			return int(a.state - b.state)
		}
		return int(a.frame - b.frame)
	})
	m.key = m.key[:0]
	for _, i := range m.items {
		m.key = binary.LittleEndian.AppendUint32(m.key, uint32(i.state))
		m.key = binary.LittleEndian.AppendUint32(m.key, uint32(i.frame))
	}
	if ends {
		m.key = append(m.key, 1)
	}
	c, ok := m.known[string(m.key)]
	if !ok {
		c = &config{items: slices.Clone(m.items), ends: ends, next: make([]*config, len(m.sample))}
		m.known[string(m.key)] = c
		m.size += 2*len(m.key) + 8*len(c.next) + 128
	}
	return c
}

// step is the configuration after one more byte, dead where it may not follow.
func (m *machine) step(c *config, x byte) *config {
	if len(c.items) == 0 {
		return m.dead
	}
	class := m.class[x]
	to := c.next[class]
	if to == nil {
		x = m.sample[class]
		for _, at := range c.items {
			if s := &m.states[at.state]; x >= s.low && x <= s.high {
				m.push(s.next, at.frame)
			}
		}
		m.work += len(c.items)
		if to = m.close(); !m.over {
			c.next[class] = to
		}
	}
	return to
}

// move is the configuration of another machine of the same grammar in this one.
func (m *machine) move(c *config, from *machine) *config {
	if c == from.dead {
		return m.dead
	}
	var moved func(f int32) int32
	moved = func(f int32) int32 {
		if f == 0 {
			return 0
		}
		other := from.frames[f]
		other.below = moved(other.below)
		return m.frame(other)
	}
	m.items = m.items[:0]
	for _, at := range c.items {
		m.items = append(m.items, item{at.state, moved(at.frame)})
	}
	return m.config(c.ends)
}
