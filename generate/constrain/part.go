package constrain

import (
	"regexp"
	"slices"
	"strings"
)

// Part is a part of a grammar that a program composes, for example a function call in a model's own form.
type Part interface {
	// write writes states that accept the part and then continue at next. It returns the first of them.
	write(b *builder, next int32) int32
}

type partFunc func(b *builder, next int32) int32

func (f partFunc) write(b *builder, next int32) int32 { return f(b, next) }

// Compile returns the grammar whose texts are those of a part.
func Compile(p Part) (*Grammar, error) {
	return build(func(b *builder) int32 { return p.write(b, final) })
}

// Literal returns a part that is exactly text.
func Literal(text string) Part {
	return partFunc(func(b *builder, next int32) int32 { return b.text(text, next) })
}

// Matching returns a part for the texts that a regular expression matches as a whole.
func Matching(expression string) Part {
	return partFunc(func(b *builder, next int32) int32 {
		return b.pattern([]*pattern{newPattern("", expression, true)}, rawText, 0, unlimited, next)
	})
}

// OneOf returns a part that is one of texts.
func OneOf(texts []string) Part {
	return partFunc(func(b *builder, next int32) int32 {
		size := 0
		for _, text := range texts {
			size += len(text)
		}
		if len(texts) == 0 || size > maxSource || slices.Contains(texts, "") {
			fail("", "choices: found %d texts of %d bytes, want at least one, none empty, and at most %d bytes",
				len(texts), size, maxSource)
		}
		return b.oneOf(texts, next)
	})
}

// Space returns a part for white space: none, a space, or a line end and some spaces.
func Space() Part {
	return partFunc(func(b *builder, next int32) int32 { return b.space(next) })
}

// Sequence returns the concatenation of parts.
func Sequence(parts ...Part) Part {
	return partFunc(func(b *builder, next int32) int32 {
		for i := len(parts) - 1; i >= 0; i-- {
			next = parts[i].write(b, next)
		}
		return next
	})
}

// Either returns a part that is one of parts. There must be at least one.
func Either(parts ...Part) Part {
	return partFunc(func(b *builder, next int32) int32 {
		ways := make([]int32, len(parts))
		for i, p := range parts {
			ways[i] = p.write(b, next)
		}
		return b.either(ways...)
	})
}

// Many returns a part that is one or more repetitions of p, separated by between.
func Many(p, between Part) Part {
	return partFunc(func(b *builder, next int32) int32 {
		again := b.reserve()
		first := p.write(b, again)
		b.set(again, b.either(next, between.write(b, first)))
		return first
	})
}

// Value returns a part for the JSON that a schema describes. name is the name of the schema in errors.
func Value(name string, schema []byte) Part {
	return partFunc(func(b *builder, next int32) int32 {
		u := newUnits(b, parseSchema(name, schema))
		entry := u.value(u.root, final)
		u.finish()
		return b.call(entry, next)
	})
}

var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Arguments returns a part for the properties of an object that a schema describes, written as arguments of a call:
// a=1, b="x".
func Arguments(name string, schema []byte) Part {
	return properties(name, schema, ", ", func(u *units, m *member, next int32) int32 {
		if !identifier.MatchString(m.name) {
			fail(u.root.path, "found the argument %.40q, want a name of letters, digits and _", m.name)
		}
		return u.b.text(m.name+"=", u.together(m.nodes, next))
	})
}

// Tagged returns a part for the properties of an object that a schema describes, each between the two texts that tags
// returns. A property of type string is written as plain text, without quotation marks, and must not contain a match of
// the expression never. Other properties are JSON.
func Tagged(name string, schema []byte, never string, tags func(property string) (begin, end string)) Part {
	return properties(name, schema, "", func(u *units, m *member, next int32) int32 {
		begin, end := tags(m.name)
		var plain *node
		for _, n := range m.nodes {
			if n.all != nil {
				n = n.all[0]
			}
			if n.types == typeString {
				plain = n
			}
		}
		switch {
		case plain == nil:
			return u.b.text(begin, u.together(m.nodes, u.b.text(end, next)))
		case len(m.nodes) > 1 || m.nodes[0] != plain || plain.rules != nil ||
			plain.oneOf && len(plain.patterns)+len(plain.bounds) > 0 ||
			slices.ContainsFunc(plain.patterns, func(p *pattern) bool { return p.narrow != nil }):
			fail(m.nodes[0].path, "found a string that is not any text, of a pattern and of a length, or one of some, "+
				"want that: the form of the calls has no others")
		case !plain.oneOf:
			not := []*pattern{newPattern("", never, false)}
			if len(plain.patterns) > 0 { // . in them does not match these
				not = append(not, newPattern("", "[\r\u2028\u2029]", false))
			}
			least, most := lengths(m.nodes, "minLength", "maxLength")
			u.b.path = plain.path
			return u.b.text(begin, u.b.patternBut(plain.patterns, not, rawText, least, most, u.b.text(end, next)))
		}
		var texts []string
		for _, v := range plain.values {
			if text, ok := v.(string); ok {
				texts = append(texts, text)
			}
		}
		if len(texts) == 0 {
			return u.b.nothing()
		}
		return u.b.text(begin, u.b.oneOf(texts, u.b.text(end, next)))
	})
}

// properties returns a part for the properties of an object that a schema describes, in the order of the schema, with a
// separator between them. one writes states that accept one property.
func properties(name string, schema []byte, between string, one func(*units, *member, int32) int32) Part {
	return partFunc(func(b *builder, next int32) int32 {
		u := newUnits(b, parseSchema(name, schema))
		leaves, choices, ok := u.flat([]*node{u.root})
		if !ok || len(choices) > 0 {
			fail(u.root.path, "found a choice of objects, want one object for the arguments of a call")
		}
		named, _, _ := membersOf(leaves)
		if r, listed := keysOf(u, leaves); listed != nil || len(r.byPattern) > 0 || len(r.patterns) > 0 {
			fail(u.root.path, "found patternProperties or propertyNames for the arguments of a call, want properties")
		}
		if least, most := lengths(leaves, "minProperties", "maxProperties"); least > 0 || most < unlimited {
			fail(where(leaves, "minProperties", "maxProperties"), "found it for the arguments of a call, want required")
		}
		first, later := next, next // the states if no property precedes, and if one does
		for i := len(named) - 1; i >= 0; i-- {
			at := one(u, &named[i], later)
			another := b.text(between, at)
			if !named[i].required {
				at, another = b.either(at, first), b.either(another, later)
			}
			first, later = at, another
		}
		u.finish()
		return first
	})
}

// Until returns a part for any text that ends with a marker and does not contain it before. With mayEnd, the whole text
// may also end anywhere before the marker, without the parts after it.
func Until(marker string, mayEnd bool) Part {
	return partFunc(func(b *builder, next int32) int32 {
		at := make([]int32, len(marker)+1) // by the length of the marker's prefix with which the text ends
		for i := range marker {
			at[i] = b.reserve()
		}
		at[len(marker)] = next
		for i := range marker {
			var ways []int32
			if mayEnd {
				ways = append(ways, final)
			}
			from := 0 // first byte of a range with the same way
			way := func(x int) int32 {
				text := marker[:i] + string([]byte{byte(x)})
				n := min(len(text), len(marker))
				for !strings.HasSuffix(text, marker[:n]) {
					n--
				}
				return at[n]
			}
			for x := 1; x <= 256; x++ {
				if x == 256 || way(x) != way(from) {
					ways = append(ways, b.bytes(byte(from), byte(x-1), way(from)))
					from = x
				}
			}
			b.set(at[i], b.either(ways...))
		}
		return at[0]
	})
}
