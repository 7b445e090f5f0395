package constrain

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
)

// What a byte of a list with uniqueItems does, as other of its state.
const (
	beginsUnique int32 = 1 + iota // the list begins
	endsElement                   // an element has ended, which must be another than those before
)

// maxUnique is the most bytes of the elements of a list that are remembered: then it must end.
const maxUnique = 1 << 20

// cursor is where a text is: the configuration, and what it has written of a list whose elements must differ. The
// automaton does not remember elements, so that no configuration depends on them.
type cursor struct {
	at *config
	elements
}

// elements are those of the list with uniqueItems that a text is in, if any. They are strings, numbers and names such as
// true, never lists or objects, so no such list is in another, and the bytes alone say where an element ends. Elements
// are kept by their value, which equal elements share however they are written: "a" and "\u0061", 1 and 1.0.
type elements struct {
	on    bool
	fresh bool     // the element that is written differs from those before, whatever follows
	used  []string // the values of those before this token, sorted; never changed, but copied
	new   []string // and of those of this token
	size  int      // their bytes

	lex       lexeme
	half      rune   // the first of two halves of a character
	hex       string // the digits so far of a character
	head      string // the value of the element: of what earlier tokens wrote
	tail      string // and of this token
	low, high int    // those of used that begin like a string
}

type lexeme uint8

const (
	noElement lexeme = iota // none has begun
	plainText               // of a number or a name: value is what is written
	inString                // value is " and the characters
	inEscape
	inNumber // of a character
	afterString
)

// follow is the place after one more byte.
func (m *machine) follow(c cursor, x byte) cursor {
	e := &c.elements
	if !e.on || e.lex == noElement && x == '[' {
		on := x == '[' && m.begins(c.at)
		return cursor{m.step(c.at, x), elements{on: on, fresh: on}}
	}
	if ends := strings.IndexByte(" \n,]", x) >= 0; ends && (e.lex == plainText || e.lex == afterString) {
		repeated := !e.fresh && e.repeated()
		if repeated || x == ',' && e.size > maxUnique {
			c.at = m.stepOthers(c.at, x)
		} else {
			c.at = m.step(c.at, x)
		}
		next := elements{}
		if x == ',' { // otherwise only the end of the list may follow
			if next = (elements{on: true, used: e.used, new: e.new, size: e.size, high: len(e.used)}); !repeated {
				value := e.value()
				next.new = append(slices.Clip(e.new), value)
				next.size += len(value)
			}
		}
		c.elements = next
		return c
	}
	if c.at = m.step(c.at, x); c.at == m.dead {
		return c
	}
	switch e.lex {
	case noElement:
		switch x {
		case ' ', '\n':
		case '"':
			e.lex = inString
			e.write(`"`)
		case '{', ']':
			*e = elements{}
		default:
			e.lex = plainText
			e.write(string(x))
		}
	case plainText:
		e.write(string([]byte{x}))
	case inString:
		switch x {
		case '"':
			e.lex = afterString
		case '\\':
			e.lex = inEscape
		default:
			e.write(string([]byte{x}))
		}
	case inEscape:
		e.lex = inString
		if i := strings.IndexByte(`"\/bfnrt`, x); i >= 0 {
			e.write("\"\\/\b\f\n\r\t"[i : i+1])
		} else {
			e.lex, e.hex = inNumber, ""
		}
	case inNumber:
		const digits = 4
		if e.hex += string(x); len(e.hex) < digits {
			break
		}
		n, _ := strconv.ParseUint(e.hex, 16, 16) // the automaton takes no other digits
		e.lex = inString
		if r := rune(n); e.half != 0 {
			e.write(string(utf16.DecodeRune(e.half, r)))
			e.half = 0
		} else if utf16.IsSurrogate(r) {
			e.half = r
		} else {
			e.write(string(r))
		}
	}
	return c
}

// begins reports whether [ may begin a list with uniqueItems.
func (m *machine) begins(c *config) bool {
	return slices.ContainsFunc(c.items, func(at item) bool { return m.states[at.state].other == beginsUnique })
}

// stepOthers is step in all readings of a text but those in which its last element must be a new one.
func (m *machine) stepOthers(c *config, x byte) *config {
	for _, at := range c.items {
		if s := &m.states[at.state]; x >= s.low && x <= s.high && s.other != endsElement {
			m.push(s.next, at.frame)
		}
	}
	m.work += len(c.items)
	return m.close()
}

// write adds to the value of the element.
func (e *elements) write(more string) {
	at := len(e.head) + len(e.tail)
	if e.tail += more; e.fresh {
		return
	}
	if e.lex != plainText {
		for i := range len(more) {
			all := e.used[e.low:e.high]
			from, _ := slices.BinarySearchFunc(all, int(more[i]), func(s string, x int) int { return after(s, at+i) - x })
			to, _ := slices.BinarySearchFunc(all, int(more[i])+1, func(s string, x int) int { return after(s, at+i) - x })
			e.low, e.high = e.low+from, e.low+to
		}
		e.fresh = e.low == e.high && (len(e.new) == 0 || !begins(e.new, e.value()))
	} else if begin := significant(e.value()); begin != "" {
		i, _ := slices.BinarySearch(e.used, begin)
		e.fresh = !begins(e.used[i:min(i+1, len(e.used))], begin) && !begins(e.new, begin)
	}
}

// after is the byte of a text at a place, or -1 where it has ended.
func after(text string, at int) int {
	if at < len(text) {
		return int(text[at])
	}
	return -1
}

// begins reports whether one of some texts begins like another.
func begins(all []string, begin string) bool {
	return slices.ContainsFunc(all, func(s string) bool { return strings.HasPrefix(s, begin) })
}

// repeated reports whether the element, which has ended, is one of those before.
func (e *elements) repeated() (yes bool) {
	if e.lex == plainText {
		_, yes = slices.BinarySearch(e.used, e.value())
	} else { // the shortest of those that begin like it is the first
		yes = e.low < e.high && len(e.used[e.low]) == len(e.head)+len(e.tail)
	}
	return yes || len(e.new) > 0 && slices.Contains(e.new, e.value())
}

// settle is called at the end of a token.
func (e *elements) settle() {
	e.head, e.tail = e.head+e.tail, ""
	if len(e.new) == 0 {
		return
	}
	e.used = slices.Concat(e.used, e.new)
	e.new = nil
	slices.Sort(e.used)
	if e.low, e.high = 0, len(e.used); e.lex != plainText && !e.fresh {
		value := e.head
		e.head = ""
		e.write(value)
		e.settle()
	}
}

// value is the value of the element so far. That of a number is its sign, its digits without zeros on either side, and
// the power of ten of the first.
func (e *elements) value() string {
	text := e.head + e.tail
	if e.lex == plainText && strings.IndexByte("-0123456789", text[0]) >= 0 {
		return numberValue(text)
	}
	return text
}

// numberValue is the value of a number, or of the beginning of one.
func numberValue(text string) string {
	sign := "+"
	if rest, ok := strings.CutPrefix(text, "-"); ok {
		sign, text = "-", rest
	}
	mantissa, exponent := text, ""
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		mantissa, exponent = text[:i], text[i+1:]
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	power := len(digits) - len(fraction)
	if digits = strings.TrimRight(digits, "0"); digits == "" {
		return "+"
	}
	n, err := strconv.Atoi(exponent)
	if err != nil && exponent != "" { // unfinished, or too large to be anything but itself
		return sign + digits + "e" + exponent
	}
	return sign + digits + "e" + strconv.Itoa(power+n)
}

// significant is what the values of all numbers begin with that begin like one: its sign and digits. It is empty where
// there is none. That of a name is the name.
func significant(value string) string {
	begin, _, isNumber := strings.Cut(value, "e")
	if value[0] != '+' && value[0] != '-' {
		return value
	} else if !isNumber {
		return "" // 0, or a sign
	}
	return begin
}

// alive reports whether the text can be ended: whether its element can become another than those before.
func (m *machine) alive(c cursor) bool {
	if yes, known := m.differs(c); known {
		return yes
	}
	return m.search(c, map[prefix]bool{})
}

// differs reports whether the text can be ended, if that is known without a search.
func (m *machine) differs(c cursor) (yes, known bool) {
	if c.at == m.dead || m.over {
		return false, true
	}
	return true, !c.on || c.fresh
}

// prefix is a beginning of elements that were written before.
type prefix struct {
	at        *config
	lex       lexeme
	half      rune
	hex, tail string
	low, head int
	last      *string
}

// search looks for the end of an element that differs from those before, along these. It returns false at a place where
// it has been.
func (m *machine) search(c cursor, seen map[prefix]bool) bool {
	const cost = 4 // of 256 bytes, in items
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
	if try(']') || try(',') { // the end of a number, or what few strings have
		return true
	}
	for x := range ways {
		if try(x) {
			return true
		}
	}
	here := prefix{c.at, c.lex, c.half, c.hex, c.tail, c.low, len(c.head), nil}
	if len(c.new) > 0 {
		here.last = &c.new[len(c.new)-1] // which is of one way to get there
	}
	if seen[here] {
		return false
	}
	seen[here] = true
	for x, way := range ways {
		if way && m.search(m.follow(c, byte(x)), seen) {
			return true
		}
	}
	return false
}

// differing is a mask without the tokens after which an element is one of those before, or can only become one.
func (v *Vocabulary) differing(m *machine, c cursor, mask []uint64) []uint64 {
	out := mask
	drop := func(from, to int) { // what ends in some nodes
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
		if !n.comma && (!at.on || at.fresh) { // it differs, and no element follows it
			i = int(n.skip)
			continue
		}
		next := cursor{at: m.step(at.at, n.x)}
		if next.at != m.dead { // otherwise the mask has none of them
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

// unique takes a list of different elements, which are strings, numbers and names.
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
	// element is one, after which there are n, and what may follow.
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

// differ is a list of so many different elements at least, which are written from a state on.
type differ struct {
	path  string
	entry int32
	least int
}

// enough fails if there are fewer different elements. It follows texts of each length, some of them where there are
// many.
func (d *differ) enough(g *Grammar) {
	const spare = 32 // more than are needed, since some are equal
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
