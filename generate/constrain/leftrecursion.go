package constrain

import "slices"

// recur removes direct and indirect left recursion. It applies the left-corner transform (Rosenkrantz and Lewis,
// "Deterministic left corner parsing", 1970) to each set of rules that begin with each other. If k may begin i, "k
// towards i" is a rule for the texts that may follow a k that begins an i:
//
//	i = for each k: a way of k that does not begin with one of the set, k towards i
//	k towards i = nothing if k is i, or for each way m = k α: α, m towards i
//
// The grammar has the same texts. The rules themselves may change, since no parse tree is built.
func (g *rules) recur() {
	if len(g.beginning()) == 0 {
		return
	}
	g.filled()
	for _, set := range g.beginning() {
		t := &transform{g, map[*rule][]use{}, map[[2]*rule]*rule{}}
		bases := make([]*rule, len(set)) // for each rule, the ways that do not begin with one of the set
		for i, r := range set {
			bases[i] = g.add(&rule{name: r.name, at: r.at})
			for _, way := range r.ways {
				if k := way[0].rule; slices.Contains(set, k) {
					t.uses[k] = append(t.uses[k], use{r, way[1:]})
				} else {
					bases[i].ways = append(bases[i].ways, way)
				}
			}
		}
		for _, r := range set {
			r.ways = nil
			for i, k := range set {
				if len(bases[i].ways) > 0 {
					g.written(1)
					r.ways = append(r.ways, []symbol{once(bases[i]), once(t.to(k, r))})
				}
			}
		}
	}
}

// filled rewrites rules so that no way begins with a symbol that may be empty. A rule that accepts the empty text
// becomes a choice between nothing and a new rule that does not accept it.
func (g *rules) filled() {
	full := map[*rule]*rule{}
	of := func(r *rule) *rule {
		if !r.empty {
			return r
		}
		if full[r] == nil {
			full[r] = g.add(&rule{name: r.name, at: r.at})
		}
		return full[r]
	}
	for _, r := range slices.Clone(g.all) {
		if r.leaf {
			continue
		}
		var ways [][]symbol
		for _, way := range r.ways {
			for ; len(way) > 0; way = way[1:] {
				it := way[0]
				if it.least = max(it.least, 1); it.most > 0 && (it.rule != nil || !it.empty()) {
					begin := []symbol{it}
					if it.rule != nil && !it.rule.leaf {
						begin[0] = once(of(it.rule))
						if it.most > 1 {
							it.least--
							if it.most != unlimited {
								it.most--
							}
							begin = append(begin, it)
						}
					}
					g.written(len(begin) + len(way))
					ways = append(ways, append(begin, way[1:]...))
				}
				if !way[0].empty() {
					break
				}
			}
		}
		if r.empty {
			of(r).ways = ways
			ways = [][]symbol{nil, {once(of(r))}}
		}
		r.ways = ways
	}
}

// written counts n symbols of rewritten rules. It fails if there are too many.
func (g *rules) written(n int) {
	const most = 4 * maxSymbols
	if g.symbols += n; g.symbols > most {
		fail(g.path, "found too many rules that may begin with themselves or each other, want fewer")
	}
}

// transform is the left-corner transform of a set of rules.
type transform struct {
	*rules
	uses    map[*rule][]use // for each rule, the ways that begin with it
	towards map[[2]*rule]*rule
}

// use is a way of a rule, without its first symbol.
type use struct {
	of   *rule
	rest []symbol
}

func once(r *rule) symbol { return symbol{rule: r, least: 1, most: 1} }

// to returns the rule "k towards i".
func (t *transform) to(k, i *rule) *rule {
	key := [2]*rule{k, i}
	r := t.towards[key]
	if r == nil {
		r = t.add(&rule{name: i.name, at: i.at})
		t.towards[key] = r
		if k == i {
			r.ways = append(r.ways, nil)
		}
		for _, u := range t.uses[k] {
			t.written(1 + len(u.rest))
			r.ways = append(r.ways, append(slices.Clone(u.rest), once(t.to(u.of, i))))
		}
	}
	return r
}

// beginning returns the sets of rules that may begin with each other, including single rules that may begin with
// themselves. It uses Tarjan's algorithm for strongly connected components.
func (g *rules) beginning() (sets [][]*rule) {
	number, low, on := map[*rule]int{}, map[*rule]int{}, map[*rule]bool{}
	var stack []*rule
	var visit func(r *rule)
	visit = func(r *rule) {
		number[r] = len(number) + 1
		low[r] = number[r]
		stack, on[r] = append(stack, r), true
		self := false
		for _, way := range r.ways {
			for _, it := range way[:min(firsts(way)+1, len(way))] {
				if it.rule == nil || it.most == 0 {
					continue
				}
				self = self || it.rule == r
				if number[it.rule] == 0 {
					visit(it.rule)
					low[r] = min(low[r], low[it.rule])
				} else if on[it.rule] {
					low[r] = min(low[r], number[it.rule])
				}
			}
		}
		if low[r] < number[r] {
			return
		}
		at := slices.Index(stack, r)
		set := slices.Clone(stack[at:])
		for _, one := range set {
			on[one] = false
		}
		if stack = stack[:at]; len(set) > 1 || self {
			sets = append(sets, set)
		}
	}
	for _, r := range g.all {
		if number[r] == 0 {
			visit(r)
		}
	}
	return sets
}
