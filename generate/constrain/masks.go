package constrain

import "slices"

// ownMask describes the tokens that may follow at a place inside a rule, independently of the caller of the rule. Only
// tokens that leave the rule depend on the caller. So the tokens that stay in the rule are found once for each place,
// and only those that leave it are followed for each stack.
type ownMask struct {
	mask  []uint64
	edges []int32    // children of the trie nodes at which the rule may end, sorted by byte
	from  [257]int32 // index of the first edge of each byte
	peak  int32      // the largest sum of depth and need reached

	walked int // number of nodes visited
}

// mask returns the set of tokens all of whose bytes may follow.
func (v *Vocabulary) mask(m *machine, c *config) ([]uint64, error) {
	m.bound()
	if mask := v.byPlaces(m, c); mask != nil || m.over {
		return mask, m.ambiguous()
	}
	mask := make([]uint64, v.words())
	m.size += 8 * len(mask)
	v.walk(m, mask, 0, len(v.nodes), c, nil)
	return mask, m.ambiguous()
}

func (v *Vocabulary) words() int { return (v.size + 63) / 64 }

func (m *machine) ambiguous() error {
	if m.over {
		return ErrAmbiguous
	}
	return nil
}

// mostPlaces is the maximum number of places that are treated separately.
const mostPlaces = 8

// byPlaces computes the mask from the places in rules where the text may be. It returns nil if there are too many
// places, or if calls could exceed the maximum depth.
func (v *Vocabulary) byPlaces(m *machine, c *config) (mask []uint64) {
	bases := m.bases(c.items)
	if len(bases) > mostPlaces {
		return nil
	}
	own := make([]*ownMask, len(bases))
	for i, base := range bases {
		if own[i] = v.own(m, m.place(c.items, base)); m.over || own[i].peak+m.frames[base].depth > maxDepth {
			return nil
		}
	}
	shared := len(own) == 1
	if shared {
		mask = own[0].mask
	} else {
		mask = make([]uint64, v.words())
		m.size += 8 * len(mask)
		for _, o := range own {
			for i, word := range o.mask {
				mask[i] |= word
			}
		}
	}
	for i, base := range bases {
		if base == 0 {
			continue
		}
		m.push(m.frames[base].next, m.frames[base].below)
		after := m.close()
		for x := range 256 {
			edges := own[i].edges[own[i].from[x]:own[i].from[x+1]]
			if len(edges) == 0 || m.step(after, byte(x)) == m.dead {
				continue
			}
			if shared {
				mask, shared = slices.Clone(mask), false
				m.size += 8 * len(mask)
			}
			for _, at := range edges {
				v.walk(m, mask, int(at), int(v.nodes[at].skip), after, nil)
			}
		}
	}
	return mask
}

// bases returns the bases of all items: the frames of the rules in which the text may be.
func (m *machine) bases(items []item) (all []int32) {
	for _, at := range items {
		if base := m.base(at.frame); !slices.Contains(all, base) {
			all = append(all, base)
		}
	}
	return all
}

// base returns the first frame, from the given one down, that is not of a short call.
func (m *machine) base(frame int32) int32 {
	for m.frames[frame].short {
		frame = m.frames[frame].below
	}
	return frame
}

// onBottom returns the frame that equals at, with the bottom of the stack in place of base.
func (m *machine) onBottom(at, base int32) int32 {
	if at == base {
		return 0
	}
	f := m.frames[at]
	f.below = m.onBottom(f.below, base)
	f.depth = m.frames[f.below].depth + 1
	return m.frame(f)
}

// place returns the configuration of the items on a base, as if the base were the bottom of the stack.
func (m *machine) place(items []item, base int32) *config {
	m.items = m.items[:0]
	peak := int32(0)
	for _, at := range items {
		if m.base(at.frame) != base {
			continue
		}
		at.frame = m.onBottom(at.frame, base)
		m.items = append(m.items, at)
		peak = max(peak, m.frames[at.frame].depth+m.need[at.state])
	}
	c := m.config(false)
	c.peak = max(c.peak, peak)
	return c
}

// own returns the ownMask of a place.
func (v *Vocabulary) own(m *machine, place *config) *ownMask {
	if place.own != nil {
		return place.own
	}
	o := &ownMask{mask: make([]uint64, v.words()), peak: place.peak}
	v.walk(m, o.mask, 0, len(v.nodes), place, func(i int, to *config) {
		o.walked++
		o.peak = max(o.peak, to.peak)
		if to.ends {
			for j := i + 1; j < int(v.nodes[i].skip); j = int(v.nodes[j].skip) {
				o.edges = append(o.edges, int32(j))
			}
		}
	})
	slices.SortStableFunc(o.edges, func(a, b int32) int { return int(v.nodes[a].x) - int(v.nodes[b].x) })
	for i, at := range o.edges {
		o.from[int(v.nodes[at].x)+1] = int32(i + 1)
	}
	for x := range 256 {
		o.from[x+1] = max(o.from[x+1], o.from[x])
	}
	m.size += 8*len(o.mask) + 4*cap(o.edges) + 2048
	if !m.over {
		place.own = o
	}
	return o
}

// walk adds to a mask the tokens of the trie nodes from index from to index to, if all their bytes may follow. All
// these nodes are below one node, at which the configuration is c. Unless visit is nil, walk calls it with each node
// that is reached.
func (v *Vocabulary) walk(m *machine, mask []uint64, from, to int, c *config, visit func(i int, to *config)) {
	if len(m.path) < v.deep+1 {
		m.path = make([]*config, v.deep+1)
	}
	if from < to {
		m.path[v.nodes[from].depth] = c
	}
	for i := from; i < to && !m.over; {
		n := &v.nodes[i]
		next := m.step(m.path[n.depth], n.x)
		if next == m.dead {
			i = int(n.skip)
			continue
		}
		m.path[n.depth+1] = next
		for _, id := range v.idsAt(i) {
			mask[id/64] |= 1 << (id % 64)
		}
		if visit != nil {
			visit(i, next)
		}
		i++
	}
}

// Ahead computes masks for the places in rules that texts may reach, before they reach them. It takes at most some tens
// of milliseconds. Texts may be written meanwhile.
func (c *Constraint) Ahead() {
	// limits: walks through the vocabulary, configurations, items
	const mostWalks, mostMet, mostWork = 32, 1 << 10, 1 << 16
	c.mu.Lock()
	m, limit := c.machine, c.machine.work+mostWork
	met := map[*config]bool{m.start: true}
	work := []*config{m.start}
	meet := func(at *config) {
		if !met[at] && at != m.dead && len(met) < mostMet {
			met[at] = true
			work = append(work, at)
		}
	}
	c.mu.Unlock()
	for walked := 0; len(work) > 0 && walked < mostWalks*len(c.vocabulary.nodes); {
		at := work[0]
		work = work[1:]
		c.mu.Lock()
		m.bound()
		bases := m.bases(at.items)
		for _, base := range bases[:min(len(bases), mostPlaces)] {
			place := m.place(at.items, base)
			if place.own == nil {
				walked += c.vocabulary.own(m, place).walked
			}
			for _, x := range m.sample {
				meet(m.step(place, x))
			}
			if base != 0 { // the rule may end here
				m.push(m.frames[base].next, m.frames[base].below)
				meet(m.close())
			}
		}
		stop := m.over || m.work > limit || m.size > maxSize/2 || c.machine != m
		c.mu.Unlock()
		if stop {
			return
		}
	}
}
