package constrain

import (
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

// elements are those of the list with uniqueItems that a text is in, if any. They are strings, numbers and names such
// as true, never lists or objects, so no such list is in another, and the bytes alone say where an element ends.
// Elements are kept by their value, which equal elements share however they are written: "a" and "\u0061", 1 and 1.0.
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
	number    string // the value of a number or a name, unless it is fresh
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
			next := func(s string, x int) int { return after(s, at+i) - x }
			from, _ := slices.BinarySearchFunc(all, int(more[i]), next)
			to, _ := slices.BinarySearchFunc(all, int(more[i])+1, next)
			e.low, e.high = e.low+from, e.low+to
		}
		e.fresh = e.low == e.high && (len(e.new) == 0 || !begins(e.new, e.value()))
		return
	}
	e.number = e.value()
	if begin := significant(e.number); begin != "" {
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
		_, yes = slices.BinarySearch(e.used, e.number)
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
