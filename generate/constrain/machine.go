package constrain

import (
	"encoding/binary"
	"errors"
	"slices"
)

// machine runs a grammar. It caches the configurations that it has reached and the transitions between them. It must be
// used by one goroutine at a time.
type machine struct {
	states []state
	need   []int32
	class  [256]uint8 // bytes of the same class are equivalent in all states
	sample []byte     // a byte of each class

	frames  []frame
	byFrame map[frame]int32
	known   map[string]*config
	dead    *config
	start   *config
	size    int // approximate size of the caches in bytes
	work    int // number of items visited so far
	limit   int // maximum of work
	over    bool

	stack   []item
	items   []item
	seen    map[item]struct{}
	key     []byte
	path    []*config // configurations on the path of a walk through a trie
	cursors []cursor
}

// frame is an element of a stack: a state to return to. Frames are linked; frame 0 is the bottom of the stack.
type frame struct {
	next, below, depth int32
	short              bool // the called states accept only a few bytes
}

// item is a state that accepts a byte, and the frame on top of its stack.
type item struct{ state, frame int32 }

// config is a configuration: all states and stacks in which the automaton may be after a text.
type config struct {
	items []item
	ends  bool      // the text may end here
	next  []*config // by class of byte, nil if not computed yet
	mask  []uint64  // the tokens that may follow, nil if not computed yet
	peak  int32     // the largest sum of depth and need on the way to it
	own   *ownMask  // nil if not computed yet
}

// The limits of a machine.
const (
	maxItems = 1 << 14
	maxWork  = 1 << 20 // items visited to find the tokens that may follow one text
	textWork = 1 << 23 // and for a whole text, in addition to tokenWork for each token; other texts wait meanwhile

	tokenWork = 1 << 13
	maxSize   = 8 << 20
)

// ErrAmbiguous reports that after a text the grammar can be read in too many ways.
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

// bound lets the machine visit maxWork more items. over is set if it would need more.
func (m *machine) bound() { m.limit, m.over = m.work+maxWork, false }

// push adds a state for the next call of close.
func (m *machine) push(s, frame int32) { m.stack = append(m.stack, item{s, frame}) }

// close returns the configuration of the pushed states. It follows them to states that accept a byte. It leaves out
// states from which the text cannot be completed.
func (m *machine) close() *config {
	m.items = m.items[:0]
	const large = 1 << 10 // clearing a map that was large takes long
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

// frame returns the number of a frame. It adds the frame if it is new.
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

// config returns the configuration of m.items.
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

// step returns the configuration after one more byte, or dead if the byte may not follow.
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

// move returns the configuration of m that equals c, a configuration of another machine of the same grammar.
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
