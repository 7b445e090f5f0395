package added

// Set finds added tokens, such as <|endoftext|>, in text.
type Set struct {
	backward *automaton // of the tokens read from their ends; nil when there are none
	forward  *automaton // of the tokens
	longest  int        // bytes of the longest token
}

// NewSet returns the set of the given tokens. Of two with the same text the first counts.
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

// addedBlock is the least length of text that is searched at a time; it is larger for long tokens. It is a variable so
// that tests can cut small texts.
var addedBlock = 1 << 16

// addedScan goes through a text from token to token. It reads the text backwards, block by block. So it finds the
// longest token that starts at each place, in time linear in the text.
type addedScan struct {
	set     *Set
	text    []byte
	upTo    int          // the text before it is searched
	found   []addedPlace // tokens in the block before upTo, the last one first
	pending []int        // places where a token may start that continues past the end, ascending
	work    int          // nodes looked at
}

// addedPlace is an occurrence of a token in a text. It may overlap others, so that not all occurrences are used.
type addedPlace struct {
	lo, hi int
	id     int32
}

// scan starts a search. When last is false, more text may follow.
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

// next finds the leftmost added token from at on, the longest if several start there, and returns its bounds and id.
// When it finds none, id is -1 and lo is where the search stopped: at the end of text or, when more may follow, where a
// token may start that continues past the end. at must not decrease from call to call.
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

// search searches a block of the text from at on.
func (c *addedScan) search(at int) {
	a := c.set.backward
	c.upTo = min(len(c.text), at+max(addedBlock, 4*c.set.longest))
	node := int32(0)
	for i := min(len(c.text), c.upTo+c.set.longest-1) - 1; i >= at; i-- {
		b := c.text[i]
		if node == 0 { // nearly always
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
