package constrain

import (
	"regexp"
	"slices"
	"strings"
)

// keyRules holds the restrictions of nodes on the names of properties.
type keyRules struct {
	byPattern   []keyed
	patterns    []*pattern // of propertyNames
	least, most int        // lengths of propertyNames
}

// keysOf returns the restrictions of nodes, and the names in propertyNames if it lists them.
func keysOf(u *units, all []*node) (r keyRules, listed []string) {
	r.most = unlimited
	for _, n := range all {
		r.byPattern = append(r.byPattern, n.byPattern...)
		if len(n.names) == 0 {
			continue
		}
		leaves, choices, ok := u.flat(n.names)
		if !ok || len(choices) > 0 {
			fail(n.names[0].path, "found a choice of names or none, want an enum, or pattern, format and lengths")
		}
		least, most := lengths(leaves, "minLength", "maxLength")
		r.least, r.most = max(r.least, least), min(r.most, most)
		r.patterns = append(r.patterns, patternsOf(leaves)...)
		for _, leaf := range leaves {
			if leaf.types&typeString == 0 {
				fail(leaf.path, "found names that are no strings, want strings")
			}
			if leaf.rules != nil {
				fail(leaf.rules.path, "found rules of names, want a pattern")
			}
			if leaf.oneOf {
				names := []string{}
				for _, v := range leaf.values {
					if name, ok := v.(string); ok && (listed == nil || slices.Contains(listed, name)) {
						names = append(names, name)
					}
				}
				listed = names
			}
		}
	}
	return r, listed
}

// allow reports whether propertyNames permits a name.
func (r *keyRules) allow(name string) bool {
	n := len([]rune(name))
	return n >= r.least && n <= r.most &&
		!slices.ContainsFunc(r.patterns, func(p *pattern) bool { return !p.matches(name) })
}

// otherKeys writes states that accept the name and the value of a property whose name is not in not. The patterns that
// a name matches determine the schemas for its value.
func (u *units) otherKeys(all []*node, r keyRules, not []string, open bool, later int32) (ways []int32) {
	const most = 6
	if len(r.byPattern) > most {
		fail(r.byPattern[most].pattern.path, "found more than %d patterns of names, want fewer", most)
	}
	if len(r.byPattern) == 0 && len(r.patterns) == 0 && r.least == 0 && r.most == unlimited {
		_, others, _ := membersOf(all)
		return []int32{u.b.otherText(not, u.b.colon(u.together(others, later)))}
	}
	// A name is not in not if it does not match the expression of these names.
	quoted := make([]string, len(not))
	for i, name := range not {
		quoted[i] = regexp.QuoteMeta(name)
	}
	var never []*pattern
	if len(not) > 0 {
		never = append(never, newPattern(u.b.path, "^(?:"+strings.Join(quoted, "|")+")$", true))
	}
	for set := range 1 << len(r.byPattern) {
		if set == 0 && !open {
			continue
		}
		must, mustNot, nodes, i := slices.Clone(r.patterns), slices.Clone(never), []*node{}, 0
		for _, n := range all {
			other := n.additional
			for _, k := range n.byPattern {
				if set>>i&1 == 1 {
					must, nodes, other = append(must, k.pattern), append(nodes, k.node), nil
				} else {
					mustNot = append(mustNot, k.pattern)
				}
				i++
			}
			if other != nil {
				nodes = append(nodes, other)
			}
		}
		value := u.b.text(`"`, u.b.colon(u.together(nodes, later)))
		ways = append(ways, u.b.patternBut(must, mustNot, jsonText, r.least, r.most, value))
	}
	return ways
}

// distinct writes states that accept a list of different elements. If the elements are from a few values, there is a
// state for each set of written values.
func (u *units) distinct(all []*node, path string, least, most int) int32 {
	const mostValues = 10
	b := u.b
	b.path = path
	for _, n := range all {
		if len(n.prefix) > 0 {
			fail(path, "found true beside prefixItems, want either")
		}
	}
	values, ok := u.finite(all, 0)
	if !ok || len(values) > mostValues {
		if items, _ := element(all, 0); len(items) == 0 || !u.scalar(items, 0) {
			fail(path, "found true for elements that may be lists or objects, want strings, numbers, or other types "+
				"without parts as items, at most %d constants, or false: other elements are not remembered", mostValues)
		}
		return u.unique(all, path, least, most)
	}
	elements := make([]int32, len(values))
	for i, v := range values {
		elements[i] = b.literal(v, final)
	}
	end := b.space(b.text("]", final))
	known := map[uint64]int32{}
	var after func(used uint64, n int) int32
	after = func(used uint64, n int) int32 {
		if at, ok := known[used]; ok {
			return at
		}
		known[used] = final
		var ways, more []int32
		if n >= least {
			ways = append(ways, end)
		}
		for i := range values {
			if used>>i&1 == 0 && n < most {
				more = append(more, b.call(elements[i], after(used|1<<i, n+1)))
			}
		}
		if len(more) > 0 {
			next := b.space(b.either(more...))
			if n > 0 {
				next = b.text(",", next)
			}
			ways = append(ways, next)
		}
		known[used] = b.either(ways...)
		return known[used]
	}
	return b.text("[", after(0, 0))
}

// maxChoices limits the depth of nested choices where all are followed.
const maxChoices = 8

// scalar reports whether the values that all nodes permit include no list and no object.
func (u *units) scalar(nodes []*node, depth int) bool {
	leaves, choices, possible := u.flat(nodes)
	if !possible {
		return true
	}
	if len(choices) == 0 {
		allowed, values := typesOf(leaves)
		if values == nil {
			return allowed&(typeArray|typeObject) == 0
		}
		return !slices.ContainsFunc(values.values, func(v any) bool {
			return typeOf(v)&allowed&(typeArray|typeObject) != 0
		})
	}
	rest := append(leaves, choices[1:]...)
	return depth <= maxChoices && !slices.ContainsFunc(choices[0].choice, func(option *node) bool {
		return !u.scalar(append(rest[:len(rest):len(rest)], option), depth+1)
	})
}

// finite returns the possible values of the elements of a list, each once. ok is false if they are not a finite set of
// at most most values.
func (u *units) finite(all []*node, depth int) (values []any, ok bool) {
	const most = 60
	items, _ := element(all, 0)
	var of func(nodes []*node, depth int) bool
	of = func(nodes []*node, depth int) bool {
		leaves, choices, possible := u.flat(nodes)
		if !possible {
			return true
		}
		if len(choices) > 0 {
			rest := append(leaves, choices[1:]...)
			for _, option := range choices[0].choice {
				if depth > maxChoices || !of(append(rest[:len(rest):len(rest)], option), depth+1) {
					return false
				}
			}
			return true
		}
		allowed, from := types(anyType), &node{values: []any{nil, false, true}}
		for _, n := range leaves {
			if allowed &= n.types; n.oneOf {
				from = n
			}
		}
		if !from.oneOf && (allowed&^(typeNull|typeBoolean) != 0 || len(leaves) == 0) {
			return false
		}
		for _, v := range from.values {
			twice := slices.ContainsFunc(values, func(other any) bool { return same(v, other) })
			if !twice && allows(leaves, from, v, allowed) {
				values = append(values, v)
			}
		}
		return len(values) <= most
	}
	ok = len(items) > 0 && of(items, 0)
	return values, ok
}
