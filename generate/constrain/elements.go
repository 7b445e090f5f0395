package constrain

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
)

// Values of other in the state of a byte that starts a list with uniqueItems or ends an element of one.
const (
	beginsUnique int32 = 1 + iota // starts the list
	endsElement                   // ends an element, which must differ from those before
)

// maxUnique is the maximum total size in bytes of the remembered elements of a list. A list that exceeds it must end.
const maxUnique = 1 << 20

// cursor is the position of a text in a grammar: the configuration of the automaton and the elements of the current
// list if they must differ. The automaton does not remember elements, so configurations do not depend on them.
type cursor struct {
	at *config
	elements
}

// elements holds the elements of the list with uniqueItems that a text is in, if any. They are strings, numbers and
// names such as true, never lists or objects. So such lists are not nested, and the bytes alone determine where an
// element ends. Elements are stored by value. Equal elements have the same value however they are written: "a" and
// "\u0061", 1 and 1.0.
type elements struct {
	on    bool
	fresh bool     // the current element differs from those before, whatever follows
	used  []string // values of elements before the current token, sorted; never modified, only replaced
	new   []string // values of elements that the current token ended
	size  int      // total size of the values in bytes

	lex       lexeme
	half      rune   // first surrogate of a character
	hex       string // digits so far of an escaped character
	head      string // value of the current element: the part from earlier tokens
	tail      string // and the part from the current token
	low, high int    // range of the values in used that have the current string as a prefix
	number    string // value of the current number or name, unless it is fresh
}

type lexeme uint8

const (
	noElement lexeme = iota // no element has started
	plainText               // in a number or a name: value holds the text
	inString                // value is " followed by the characters
	inEscape
	inNumber // in the digits of an escaped character
	afterString
)

// follow returns the cursor after one more byte.
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
		if x == ',' { // otherwise only the end of the list may follow, and elements are not needed
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
		n, _ := strconv.ParseUint(e.hex, 16, 16) // the automaton accepts only hexadecimal digits
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

// begins reports whether [ may start a list with uniqueItems.
func (m *machine) begins(c *config) bool {
	return slices.ContainsFunc(c.items, func(at item) bool { return m.states[at.state].other == beginsUnique })
}

// stepOthers is like step, but drops the items in which the last element must differ from those before.
func (m *machine) stepOthers(c *config, x byte) *config {
	for _, at := range c.items {
		if s := &m.states[at.state]; x >= s.low && x <= s.high && s.other != endsElement {
			m.push(s.next, at.frame)
		}
	}
	m.work += len(c.items)
	return m.close()
}

// write appends text to the value of the current element.
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

// after returns the byte of text at an index, or -1 after its end.
func after(text string, at int) int {
	if at < len(text) {
		return int(text[at])
	}
	return -1
}

// begins reports whether one of several texts has the prefix begin.
func begins(all []string, begin string) bool {
	return slices.ContainsFunc(all, func(s string) bool { return strings.HasPrefix(s, begin) })
}

// repeated reports whether the current element, which has ended, equals one of those before.
func (e *elements) repeated() (yes bool) {
	if e.lex == plainText {
		_, yes = slices.BinarySearch(e.used, e.number)
	} else { // the first value with this prefix is the shortest
		yes = e.low < e.high && len(e.used[e.low]) == len(e.head)+len(e.tail)
	}
	return yes || len(e.new) > 0 && slices.Contains(e.new, e.value())
}

// settle must be called at the end of a token. It merges new into used.
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

// value returns the value of the current element so far. The value of a number consists of its sign, its digits without
// leading and trailing zeros, and the power of ten of the first digit.
func (e *elements) value() string {
	text := e.head + e.tail
	if e.lex == plainText && strings.IndexByte("-0123456789", text[0]) >= 0 {
		return numberValue(text)
	}
	return text
}

// numberValue returns the value of a number or of a prefix of one.
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
	if err != nil && exponent != "" { // incomplete, or too large to equal another
		return sign + digits + "e" + exponent
	}
	return sign + digits + "e" + strconv.Itoa(power+n)
}

// significant returns the common prefix of the values of all numbers that continue a number with the given value: the
// sign and the digits. It is empty if there is none. For a name it returns the name.
func significant(value string) string {
	begin, _, isNumber := strings.Cut(value, "e")
	if value[0] != '+' && value[0] != '-' {
		return value
	} else if !isNumber {
		return "" // 0, or a sign
	}
	return begin
}
