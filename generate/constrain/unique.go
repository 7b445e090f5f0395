package constrain

import (
	"math/rand/v2"
	"slices"
)

// alive reports whether the text can be completed: whether its current element can still differ from those before.
func (m *machine) alive(c cursor) bool {
	if yes, known := m.differs(c); known {
		return yes
	}
	return m.search(c, map[prefix]bool{})
}

// differs reports whether the text can be completed, if that is known without a search.
func (m *machine) differs(c cursor) (yes, known bool) {
	if c.at == m.dead || m.over {
		return false, true
	}
	if !c.on || c.fresh {
		return true, true
	}
	ended := c.lex == plainText || c.lex == afterString
	return true, ended && m.step(c.at, ']') != m.dead && !c.repeated()
}

// prefix identifies a position inside an element that is a prefix of earlier elements.
type prefix struct {
	at        *config
	lex       lexeme
	half      rune
	hex, tail string
	low, head int
	last      *string
}

// search searches, along the earlier elements, for a way to end an element that differs from them. It returns false at
// positions that it has visited.
func (m *machine) search(c cursor, seen map[prefix]bool) bool {
	const cost = 4 // of trying 256 bytes, in items
	if m.work += cost; m.work > m.limit {
		m.over = true
		return false
	}
	var ways [256]bool
	try := func(x int) bool {
		if m.step(c.at, byte(x)) == m.dead {
			return false
		}
		yes, known := m.differs(m.follow(c, byte(x)))
		ways[x] = !known
		return yes && known
	}
	if try(']') || try(',') { // the end of a number, or a character that few strings contain
		return true
	}
	const first = '!' // white space comes last: it does not change how an element can start
	for i := range ways {
		if try((i + first) % len(ways)) {
			return true
		}
	}
	here := prefix{c.at, c.lex, c.half, c.hex, c.tail, c.low, len(c.head), nil}
	if len(c.new) > 0 {
		here.last = &c.new[len(c.new)-1] // it depends on the way to this position
	}
	if seen[here] {
		return false
	}
	seen[here] = true
	for i := range ways {
		if x := (i + first) % len(ways); ways[x] && m.search(m.follow(c, byte(x)), seen) {
			return true
		}
	}
	return false
}

// differing returns mask without the tokens after which an element equals one of those before, or must become equal to
// one.
func (v *Vocabulary) differing(m *machine, c cursor, mask []uint64) []uint64 {
	out := mask
	drop := func(from, to int) { // drops the tokens that end in a range of nodes
		for i := from; i < to; i++ {
			for _, id := range v.idsAt(i) {
				if out[id/64]>>(id%64)&1 == 0 {
					continue
				}
				if &out[0] == &mask[0] {
					out = slices.Clone(mask)
				}
				out[id/64] &^= 1 << (id % 64)
			}
		}
	}
	if len(m.cursors) < v.deep+1 {
		m.cursors = make([]cursor, v.deep+1)
	}
	path := m.cursors
	path[0] = c
	for i := 0; i < len(v.nodes) && !m.over; {
		n := &v.nodes[i]
		at := path[n.depth]
		if !n.comma && (!at.on || at.fresh) { // the element differs, and the tokens start no other element
			i = int(n.skip)
			continue
		}
		next := cursor{at: m.step(at.at, n.x)}
		if next.at != m.dead { // otherwise the mask does not contain these tokens
			if next = m.follow(at, n.x); next.at == m.dead {
				drop(i, int(n.skip))
			}
		}
		if next.at == m.dead {
			i = int(n.skip)
			continue
		}
		path[n.depth+1] = next
		if len(v.idsAt(i)) > 0 && !m.alive(next) {
			drop(i, i+1)
		}
		i++
	}
	return out
}

// unique writes states that accept a list of different elements, which are strings, numbers and names.
func (u *units) unique(all []*node, path string, least, most int) int32 {
	const mostLeast = 64
	b := u.b
	b.path = path
	if least > mostLeast {
		fail(where(all, "minItems"), "found %d beside uniqueItems, want at most %d", least, mostLeast)
	}
	nodes, _ := element(all, 0)
	one := u.together(nodes, final)
	b.differ = append(b.differ, differ{where(all, "minItems"), one, least})
	marked := func(x byte, mark, next int32) int32 {
		return b.add(state{kind: isByte, low: x, high: x, next: next, other: mark})
	}
	end, indent := b.text("]", final), b.text("]", final)
	for range spaces {
		indent = b.either(end, b.bytes(' ', ' ', indent))
	}
	ends := b.either(marked(']', endsElement, final), marked(' ', endsElement, end), marked('\n', endsElement, indent))
	// element writes states that accept white space and an element.
	element := func(after int32) int32 { return b.space(b.call(one, after)) }
	after, count := ends, most
	if most == unlimited {
		count, after = max(least, 1), b.reserve()
		b.set(after, b.either(ends, marked(',', endsElement, element(after))))
	}
	for n := count - 1; n > 0; n-- {
		ways := []int32{marked(',', endsElement, element(after))}
		if n >= least {
			ways = append(ways, ends)
		}
		after = b.either(ways...)
	}
	ways := []int32{element(after)}
	if least == 0 {
		ways = append(ways, b.space(end))
	}
	if least > most {
		ways = nil
	}
	return marked('[', beginsUnique, b.either(ways...))
}

// differ describes a list with at least least different elements. The states of an element start at entry.
type differ struct {
	path  string
	entry int32
	least int
}

// enough fails if there are not enough different elements. It follows texts of increasing length, and a random sample
// of them if there are many.
func (d *differ) enough(g *Grammar) {
	const spare = 32 // additional texts, since some elements are equal
	if d.least < 2 {
		return
	}
	m := newMachine(&Grammar{states: g.states, start: d.entry}, g.needs(nil))
	r := rand.New(rand.NewPCG(1, 1))
	found := map[string]bool{}
	work := []cursor{{m.start, elements{on: true}}}
	for len(work) > 0 && len(found) < d.least && !m.over {
		var next []cursor
		for _, c := range work {
			for x := range 256 {
				to := m.follow(c, byte(x))
				if to.at == m.dead {
					continue
				}
				if to.at.ends {
					found[to.value()] = true
				}
				next = append(next, to)
			}
		}
		r.Shuffle(len(next), func(i, j int) { next[i], next[j] = next[j], next[i] })
		work = next[:min(len(next), d.least+spare)]
		m.work += len(next)
		m.over = m.over || m.work > m.limit
	}
	if len(found) < d.least {
		fail(d.path, "found %d beside uniqueItems, want at most %d, as many as there are different elements", d.least,
			len(found))
	}
}
