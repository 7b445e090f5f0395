package constrain

import (
	"cmp"
	"slices"
)

// element returns the nodes that apply to the element at an index of a list. ok is false if no element is permitted
// there.
func element(all []*node, at int) (nodes []*node, ok bool) {
	for _, n := range all {
		switch {
		case at < len(n.prefix):
			nodes = append(nodes, n.prefix[at])
		case n.items != nil:
			nodes = append(nodes, n.items)
		case len(n.prefix) > 0:
			return nil, false
		}
	}
	return nodes, true
}

// array writes states that accept a list. After prefixItems, more elements are permitted only if items describes them.
func (u *units) array(all []*node) int32 {
	b := u.b
	least, most := lengths(all, "minItems", "maxItems")
	fixed := max(least, 1)
	unique := ""
	for _, n := range all {
		fixed = max(fixed, len(n.prefix))
		unique = cmp.Or(n.unique, unique)
	}
	if unique != "" && most > 1 {
		return u.distinct(all, unique, least, most)
	}
	if _, ok := element(all, fixed); !ok {
		most = min(most, fixed)
	}
	b.path = where(all, "minItems", "maxItems")
	end := b.space(b.text("]", final))
	var after int32 // the state after the counted elements
	if most == unlimited {
		after = b.reserve()
		nodes, _ := element(all, fixed)
		b.set(after, b.either(end, b.text(",", b.space(u.together(nodes, after)))))
	} else if fixed = most; most >= least {
		after = end
	} else {
		after = b.nothing()
	}
	for i := fixed - 1; i >= 0; i-- {
		nodes, ok := element(all, i)
		ways := []int32{}
		if i >= least {
			ways = append(ways, end)
		}
		if ok {
			one := b.space(u.together(nodes, after))
			if i > 0 {
				one = b.text(",", one)
			}
			ways = append(ways, one)
		}
		if after = b.nothing(); len(ways) > 0 {
			after = b.either(ways...)
		}
	}
	return b.text("[", after)
}

// member is a property and the nodes that apply to it.
type member struct {
	name     string
	nodes    []*node
	required bool
}

// membersOf returns the properties that nodes name, in order, and the nodes that apply to other properties. open
// reports whether other properties are permitted.
func membersOf(all []*node) (named []member, others []*node, open bool) {
	places := map[string]int{}
	at := func(name string) int {
		i, ok := places[name]
		if !ok {
			i = len(named)
			places[name] = i
			named = append(named, member{name: name})
		}
		return i
	}
	listed := false
	for _, n := range all {
		for _, p := range n.properties {
			at(p.name)
			listed = true
		}
		listed = listed || len(n.byPattern) > 0
	}
	for _, n := range all {
		for _, name := range n.required {
			named[at(name)].required = true // at may append to named
		}
	}
	for _, n := range all {
		own := map[string]bool{}
		for _, p := range n.properties {
			i := at(p.name)
			own[p.name] = true
			named[i].nodes = append(named[i].nodes, p.node)
		}
		if n.additional == nil {
			continue
		}
		open = true
		others = append(others, n.additional)
		for i := range named {
			matched := func(k keyed) bool { return k.pattern.matches(named[i].name) }
			if !own[named[i].name] && !slices.ContainsFunc(n.byPattern, matched) {
				named[i].nodes = append(named[i].nodes, n.additional)
			}
		}
	}
	open = open || !listed
	return named, others, open && !slices.ContainsFunc(others, func(n *node) bool { return n.never })
}

// members writes states that accept an object. Its properties are in the order of the schema. Other properties follow
// if additionalProperties or patternProperties permit them, or if the schema does not describe properties at all.
func (u *units) members(all []*node) int32 {
	b := u.b
	named, others, open := membersOf(all)
	rules, listed := keysOf(u, all)
	if listed != nil { // propertyNames is a list, so other properties are from it
		for _, name := range listed {
			if open && !slices.ContainsFunc(named, func(m member) bool { return m.name == name }) {
				named = append(named, member{name: name, nodes: slices.Clone(others)})
			}
		}
		open = false
	}
	for i := range named {
		m := &named[i]
		for _, k := range rules.byPattern {
			if k.pattern.matches(m.name) {
				m.nodes = append(m.nodes, k.node)
			}
		}
		if !rules.allow(m.name) || listed != nil && !slices.Contains(listed, m.name) {
			m.nodes = append(m.nodes, &node{never: true, id: -1})
		}
	}
	more := listed == nil && (open || len(rules.byPattern) > 0)
	c := newCounted(b, all, len(named), more)
	var after []int32 // states by the number of properties written
	if more {
		names := make([]string, len(named))
		for i, m := range named {
			names[i] = m.name
		}
		after = c.others(func(later int32) int32 {
			return b.space(b.key(b.either(u.otherKeys(all, rules, names, open, later)...)))
		})
	} else {
		for n := range c.last + 1 {
			after = append(after, c.end(n))
		}
	}
	for _, m := range slices.Backward(named) {
		before := make([]int32, len(after))
		for n := range before {
			var ways []int32
			if n < c.most {
				value := u.together(m.nodes, after[min(n+1, c.last)])
				ways = append(ways, c.comma(n, b.space(b.key(b.text(quoted(m.name)+`"`, b.colon(value))))))
			}
			if !m.required {
				ways = append(ways, after[n])
			}
			before[n] = b.either(ways...)
		}
		after = before
	}
	return b.text("{", after[0])
}
