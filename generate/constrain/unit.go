package constrain

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"
)

// units writes the states of a schema as units: sets of nodes that apply to the same value. There are finitely many,
// even if schemas refer to themselves.
type units struct {
	*schema
	b       *builder
	entries map[string]int32 // first states by the ids of the nodes
	pending []unit
}

// unit is a set of nodes that apply to the same value. The empty set permits any value.
type unit struct {
	entry int32
	nodes []*node
}

func newUnits(b *builder, s *schema) *units {
	return &units{schema: s, b: b, entries: map[string]int32{}}
}

// value writes states that accept a value that a node describes.
func (u *units) value(n *node, next int32) int32 { return u.together([]*node{n}, next) }

// together writes states that accept a value that all nodes describe.
func (u *units) together(nodes []*node, next int32) int32 {
	nodes = slices.Clone(nodes)
	slices.SortFunc(nodes, byID)
	nodes = slices.Compact(nodes)
	var key []byte
	for _, n := range nodes {
		key = binary.AppendUvarint(key, uint64(n.id))
	}
	entry, ok := u.entries[string(key)]
	if !ok {
		if len(u.entries) >= maxRules {
			fail(nodes[0].path, "found a schema of more than %d parts, want a smaller one", maxRules)
		}
		entry = u.b.reserve()
		u.entries[string(key)] = entry
		u.pending = append(u.pending, unit{entry, nodes})
	}
	return u.b.call(entry, next)
}

func byID(a, b *node) int { return cmp.Compare(a.id, b.id) }

// finish writes the states of all units that are called.
func (u *units) finish() {
	for len(u.pending) > 0 {
		next := u.pending[len(u.pending)-1]
		u.pending = u.pending[:len(u.pending)-1]
		u.b.set(next.entry, u.write(next.nodes))
	}
}

// write writes states that accept a value that all nodes describe, and then return.
func (u *units) write(nodes []*node) int32 {
	leaves, choices, ok := u.flat(nodes)
	if !ok {
		return u.b.nothing()
	}
	if len(choices) == 0 {
		return u.leaves(leaves)
	}
	rest := append(leaves, choices[1:]...)
	var ways []int32
	for _, option := range choices[0].choice {
		ways = append(ways, u.together(append(rest[:len(rest):len(rest)], option), final))
	}
	return u.b.either(ways...)
}

// flat resolves conjunctions and references in nodes. It returns the nodes with keywords and the choices. ok is false
// if no value is valid.
func (u *units) flat(nodes []*node) (leaves, choices []*node, ok bool) {
	seen := map[*node]bool{}
	work := slices.Clone(nodes)
	for len(work) > 0 {
		n := work[len(work)-1]
		if work = work[:len(work)-1]; seen[n] {
			continue
		}
		seen[n] = true
		switch {
		case n.never:
			return nil, nil, false
		case n.all != nil:
			work = append(work, n.all...)
		case n.ref != "":
			to := u.byRef[n.ref]
			if to == nil {
				fail(n.path, "found %.80q, want a place in the schema, such as #/$defs/name", n.ref)
			}
			work = append(work, to)
		case n.choice != nil:
			choices = append(choices, n)
		default:
			leaves = append(leaves, n)
		}
	}
	slices.SortFunc(leaves, byID)
	slices.SortFunc(choices, byID)
	return leaves, choices, true
}

// typesOf returns the types that all nodes permit, and the last node that has constants, or nil.
func typesOf(all []*node) (allowed types, values *node) {
	allowed, hints := types(anyType), types(0)
	for _, n := range all {
		allowed &= n.types
		hints |= n.hints
		if n.oneOf {
			values = n
		}
	}
	if allowed == anyType && hints != 0 {
		allowed = hints
	}
	return allowed, values
}

// leaves writes states that accept a value that satisfies the keywords of all nodes.
func (u *units) leaves(all []*node) int32 {
	allowed, values := typesOf(all)
	if values != nil {
		return u.constants(all, values, allowed)
	}
	var ways []int32
	add := func(t types, way func([]*node) int32) {
		if allowed&t != 0 {
			ways = append(ways, way(all))
		}
	}
	add(typeNull, func([]*node) int32 { return u.b.text("null", final) })
	add(typeBoolean, func([]*node) int32 { return u.b.oneOf([]string{"true", "false"}, final) })
	if allowed&typeNumber != 0 {
		add(typeNumber, u.number)
	} else {
		add(typeInteger, u.integer)
	}
	add(typeString, u.str)
	add(typeArray, u.array)
	add(typeObject, u.members)
	return u.b.either(ways...)
}

// constants writes states that accept one of the constants of the node from that are valid for all nodes.
func (u *units) constants(all []*node, from *node, allowed types) int32 {
	const most = 1 << 20
	for _, n := range all {
		if n != from && len(n.values)*len(from.values) > most {
			fail(n.path, "found %d constants beside %d others, want fewer", len(n.values), len(from.values))
		}
	}
	var texts []string
	var ways []int32
	for _, v := range from.values {
		if !allows(all, from, v, allowed) {
			continue
		}
		switch v.(type) {
		case []any, *object:
			ways = append(ways, u.b.literal(v, final))
		default:
			texts = append(texts, scalar(v))
		}
	}
	if len(texts) > 0 {
		ways = append(ways, u.b.oneOf(texts, final))
	}
	return u.b.either(ways...)
}

// allows reports whether a constant of the node from is valid for all nodes.
func allows(all []*node, from *node, v any, allowed types) bool {
	if typeOf(v)&allowed == 0 {
		return false
	}
	for _, n := range all {
		if n.oneOf && n != from && !slices.ContainsFunc(n.values, func(other any) bool { return same(v, other) }) {
			return false
		}
		switch v := v.(type) {
		case *object, []any:
			if n.hints&typeOf(v) != 0 {
				fail(n.path, "found constants that are lists or objects beside keywords about these, want either")
			}
		case string:
			if n.rules != nil {
				fail(n.rules.path, "found it beside constants, want either")
			}
			least, most := lengths([]*node{n}, "minLength", "maxLength")
			if l := utf8.RuneCountInString(v); l < least || l > most {
				return false
			}
			if slices.ContainsFunc(n.patterns, func(p *pattern) bool { return !p.matches(v) }) {
				return false
			}
		case json.Number:
			if !allowsNumber([]*node{n}, v) {
				return false
			}
		}
	}
	return true
}

// typeOf returns the types of a value.
func typeOf(v any) types {
	switch v := v.(type) {
	case nil:
		return typeNull
	case bool:
		return typeBoolean
	case string:
		return typeString
	case []any:
		return typeArray
	case json.Number:
		if x, err := v.Float64(); err == nil && x == math.Trunc(x) {
			return typeInteger | typeNumber
		}
		return typeNumber
	}
	return typeObject
}

// same reports whether two values are equal.
func same(a, b any) bool {
	switch a := a.(type) {
	case []any:
		other, ok := b.([]any)
		return ok && slices.EqualFunc(a, other, same)
	case *object:
		other, ok := b.(*object)
		if !ok || len(a.keys) != len(other.keys) {
			return false
		}
		for key, v := range a.values {
			if w, ok := other.values[key]; !ok || !same(v, w) {
				return false
			}
		}
		return true
	case json.Number:
		other, ok := b.(json.Number)
		if !ok || a == other {
			return ok
		}
		x, y := rational(a), rational(other)
		return x != nil && y != nil && x.Cmp(y) == 0
	}
	return a == b
}

// lengths returns the bounds that the two keywords low and high set.
func lengths(all []*node, low, high string) (least, most int) {
	most = unlimited
	for _, n := range all {
		if x, ok := n.bounds[low]; ok {
			least = max(least, x.length())
		}
		if x, ok := n.bounds[high]; ok {
			most = min(most, x.length())
		}
	}
	return least, most
}

// length returns the value of a bound of a length.
func (b bound) length() int {
	const most = 1e9
	x, err := strconv.ParseFloat(string(b.value), 64)
	if err != nil || x < 0 || x > most || x != math.Trunc(x) {
		fail(b.path, "found %.40s, want an integer from 0 to %.0f", b.value, most)
	}
	return int(x)
}

// where returns the path of the last of keys that nodes have, for an error.
func where(all []*node, keys ...string) (path string) {
	for _, n := range all {
		for _, key := range keys {
			if x, ok := n.bounds[key]; ok {
				path = x.path
			}
		}
	}
	return path
}

// patternsOf returns the patterns and formats of nodes.
func patternsOf(all []*node) (patterns []*pattern) {
	for _, n := range all {
		patterns = append(patterns, n.patterns...)
	}
	return patterns
}

// str writes states that accept a string.
func (u *units) str(all []*node) int32 {
	b := u.b
	least, most := lengths(all, "minLength", "maxLength")
	patterns := patternsOf(all)
	end := b.text(`"`, final)
	for _, n := range all {
		if n.rules == nil {
			continue
		}
		if at := where(all, "minLength", "maxLength"); len(patterns) > 0 || at != "" || slices.ContainsFunc(all,
			func(other *node) bool { return other.rules != nil && other != n }) {
			fail(n.rules.path, "found it beside another keyword about strings, want the rules alone")
		}
		return b.text(`"`, b.call(n.rules.write(b, jsonText), end))
	}
	if len(patterns) > 0 {
		for i, p := range patterns {
			if p.narrow != nil && (least > 0 || most < unlimited || len(p.progs) > 1) {
				patterns[i] = p.narrow
			}
		}
		return b.text(`"`, b.pattern(patterns, jsonText, least, most, end))
	}
	b.path = where(all, "minLength", "maxLength")
	at, count := b.nothing(), least
	if most == unlimited {
		at = b.reserve()
		b.set(at, b.either(end, b.char(anyRune, jsonText, at)))
	} else if count = most; least <= most {
		at = end
	}
	for ; count > 0; count-- {
		if at = b.char(anyRune, jsonText, at); count > least {
			at = b.either(end, at)
		}
	}
	return b.text(`"`, at)
}
