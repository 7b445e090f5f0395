package added

// Set finds added tokens, such as <|endoftext|>, in text.
type Set struct {
	backward *automaton // for the tokens read backwards; nil if there are no tokens
	forward  *automaton // for the tokens read forwards
	longest  int        // bytes of the longest token
}

// NewSet returns the set of the given tokens. If two have the same text, the first one is used.
func NewSet(tokens []Token) *Set {
	s := &Set{}
	if len(tokens) == 0 {
		return s
	}
	s.backward = newAutomaton(tokens, func(s string, i int) byte { return s[len(s)-1-i] })
	s.forward = newAutomaton(tokens, func(s string, i int) byte { return s[i] })
	for _, t := range tokens {
		s.longest = max(s.longest, len(t.Content))
	}
	return s
}

// addedBlock is the minimum number of bytes that are searched at a time. It is more for long tokens. It is a variable
// so that tests can divide small texts.
var addedBlock = 1 << 16

// addedScan iterates over the tokens in a text. It reads the text backwards, block by block. So it finds the longest
// token that starts at each position, in time linear in the text.
type addedScan struct {
	set     *Set
	text    []byte
	upTo    int          // the text before this offset has been searched
	found   []addedPlace // tokens in the block before upTo, the last one first
	pending []int        // offsets at which a token may start that continues past the end, ascending
	work    int          // number of nodes visited
}

// addedPlace is an occurrence of a token in a text. Occurrences may overlap, so not all of them are used.
type addedPlace struct {
	lo, hi int
	id     int32
}

// Scan starts a search. If last is false, more text may follow.
func (s *Set) Scan(text []byte, last bool) addedScan {
	c := addedScan{set: s, text: text}
	if s.forward == nil || last {
		return c
	}
	a, node := s.forward, int32(0)
	for _, b := range text[max(0, len(text)-s.longest+1):] {
		node = a.step(node, b, &c.work)
	}
	for ; node != 0; node = a.nodes[node].fail {
		if a.nodes[node].child != 0 {
			c.pending = append(c.pending, len(text)-int(a.nodes[node].depth))
		}
	}
	return c
}

// Next returns the bounds and the id of the leftmost token from at on. If several tokens start there, it returns the
// longest. If it finds none, id is -1 and lo is the offset at which the search stopped: the end of text or, if more may
// follow, the start of a possible token that continues past the end. at must not decrease from call to call.
func (c *addedScan) Next(at int) (lo, hi int, id int32) {
	for len(c.pending) > 0 && c.pending[0] < at {
		c.pending = c.pending[1:]
	}
	stop := len(c.text)
	if len(c.pending) > 0 {
		stop = c.pending[0]
	}
	if c.set.backward == nil {
		return stop, stop, -1
	}
	for {
		for n := len(c.found); n > 0; n = len(c.found) {
			if p := c.found[n-1]; p.lo >= stop {
				return stop, stop, -1
			} else if p.lo >= at {
				return p.lo, p.hi, p.id
			}
			c.found = c.found[:n-1]
		}
		if c.upTo >= stop {
			return stop, stop, -1
		}
		c.search(max(at, c.upTo))
	}
}

// search searches a block of the text that starts at at.
func (c *addedScan) search(at int) {
	a := c.set.backward
	c.upTo = min(len(c.text), at+max(addedBlock, 4*c.set.longest))
	node := int32(0)
	for i := min(len(c.text), c.upTo+c.set.longest-1) - 1; i >= at; i-- {
		b := c.text[i]
		if node == 0 { // in almost all cases
			node = a.root[b]
		} else {
			node = a.step(node, b, &c.work)
		}
		if node == 0 {
			continue
		}
		if end := a.nodes[node].end; end != 0 && i < c.upTo {
			c.found = append(c.found, addedPlace{i, i + int(a.nodes[end].depth), a.nodes[end].id})
		}
	}
}
