package constrain

import (
	"slices"
	"strings"
)

// empties sets empty in the rules that accept the empty text.
func (g *rules) empties() {
	type sequence struct {
		of   *rule
		left int // number of symbols not known to accept the empty text
	}
	waits := map[*rule][]*sequence{}
	var work []*rule
	less := func(s *sequence, by int) {
		if s.left -= by; s.left == 0 && !s.of.empty {
			s.of.empty = true
			work = append(work, s.of)
		}
	}
	for _, r := range g.all {
		for _, way := range r.ways {
			s := &sequence{r, len(way)}
			for _, one := range way {
				if one.empty() {
					s.left--
				} else if one.rule != nil {
					waits[one.rule] = append(waits[one.rule], s)
				}
			}
			less(s, 0)
		}
	}
	for len(work) > 0 {
		r := work[len(work)-1]
		work = work[:len(work)-1]
		for _, s := range waits[r] {
			less(s, 1)
		}
	}
}

// begin fails if a rule may begin with itself.
func (g *rules) begin() {
	for _, r := range g.all {
		g.begins(r, nil)
	}
}

// empty reports whether a symbol accepts the empty text.
func (it *symbol) empty() bool {
	switch {
	case it.least == 0:
		return true
	case it.rule != nil:
		return it.rule.empty
	case it.pattern != nil:
		return it.pattern.matches("")
	}
	return it.ranges == nil && it.text == ""
}

// firsts returns the number of leading symbols of a sequence that accept the empty text.
func firsts(way []symbol) int {
	n := slices.IndexFunc(way, func(it symbol) bool { return !it.empty() })
	if n < 0 {
		return len(way)
	}
	return n
}

// begins follows the rules with which a rule may begin. on holds the rules being followed, the outermost first.
func (g *rules) begins(r *rule, on []*rule) {
	if r.checked {
		return
	}
	if on = append(on, r); r.begun {
		var names []string
		for _, other := range on[slices.Index(on, r):] {
			if names = append(names, other.name); len(names) > 1 && names[len(names)-2] == other.name {
				names = names[:len(names)-1] // a group of the rule
			}
		}
		const most = 8
		if len(names) > most {
			names = append(names[:most-1:most-1], "...")
		}
		fail(g.place(r.at), "found left recursion: the rule %.40q may begin with itself (%s), want one "+
			"that takes a character first", r.name, strings.Join(names, ", "))
	}
	r.begun = true
	for _, way := range r.ways {
		for _, it := range way[:min(firsts(way)+1, len(way))] {
			if it.rule != nil && it.most > 0 {
				g.begins(it.rule, on)
			}
		}
	}
	r.checked = true
}

// write writes the states of the root rule and of all rules that it calls. It returns the first state of the root.
func (g *rules) write(b *builder, spelled spelling) int32 {
	w := &rulesWriter{b: b, spelled: spelled}
	entry := w.entry(g.root)
	for len(w.pending) > 0 {
		r := w.pending[len(w.pending)-1]
		w.pending = w.pending[:len(w.pending)-1]
		b.set(r.entry, w.ways(r.ways, final))
	}
	return entry
}

// rulesWriter writes the states of rules.
type rulesWriter struct {
	b       *builder
	spelled spelling
	pending []*rule // rules that are called and not written yet
}

// entry returns the first state of a rule.
func (w *rulesWriter) entry(r *rule) int32 {
	if r.entry == 0 {
		r.entry = w.b.reserve()
		w.pending = append(w.pending, r)
	}
	return r.entry
}

// ways writes states that accept one of several sequences.
func (w *rulesWriter) ways(all [][]symbol, next int32) int32 {
	var ways []int32
	for _, way := range all {
		at := next
		for i := len(way) - 1; i >= 0; i-- {
			at = w.symbol(&way[i], at)
		}
		ways = append(ways, at)
	}
	return w.b.either(ways...)
}

// symbol writes states that accept a symbol with its repetitions.
func (w *rulesWriter) symbol(it *symbol, next int32) int32 {
	at, count := next, it.least
	if it.most == unlimited {
		at = w.b.reserve()
		w.b.set(at, w.b.either(next, w.one(it, at)))
	} else {
		count = it.most
	}
	for ; count > 0; count-- {
		if at = w.one(it, at); it.most != unlimited && count > it.least {
			at = w.b.either(next, at)
		}
	}
	return at
}

// one writes states that accept a symbol once. A group that is not repeated needs no call.
func (w *rulesWriter) one(it *symbol, next int32) int32 {
	switch {
	case it.pattern != nil:
		return w.b.pattern([]*pattern{it.pattern}, w.spelled, 0, unlimited, next)
	case it.rule == nil && it.ranges == nil && w.spelled == jsonText:
		return w.b.text(quoted(it.text), next)
	case it.rule == nil && it.ranges == nil:
		return w.b.text(it.text, next)
	case it.rule == nil:
		return w.b.char(it.ranges, w.spelled, next)
	case it.least == 1 && it.most == 1 && it.rule.group:
		return w.ways(it.rule.ways, next)
	}
	const short = 16 // bytes, roughly
	if it.rule.length() <= short {
		return w.b.callShort(w.entry(it.rule), next)
	}
	return w.b.call(w.entry(it.rule), next)
}

// length returns the maximum length of a text of a rule, or unlimited, also if the rule is recursive.
func (r *rule) length() int {
	if r.most == 0 {
		r.most = unlimited // the result for recursive calls
		longest := 0
		for _, way := range r.ways {
			sum := 0
			for _, it := range way {
				n := len(it.text)
				if it.rule != nil {
					n = it.rule.length()
				} else if it.ranges != nil {
					n = 1
				} else if it.pattern != nil {
					n = it.pattern.most
				}
				if n > 0 && it.most > 0 && n >= unlimited/it.most {
					sum = unlimited
				} else {
					sum += min(n*it.most, unlimited-sum)
				}
			}
			longest = max(longest, sum)
		}
		r.most = max(longest, 1)
	}
	return r.most
}
