package store

// claim announces that a turn is about to leave a mark at a position of a text.
type claim struct {
	at       int
	key      key
	priority int
	done     chan struct{} // closed when the mark exists, or when no turn will leave it
}

// claim claims the marks that a turn will leave. If another turn will leave one to continue from, claim claims nothing
// and returns what to wait for, unless that turn came later or wait is false. Nor does it where another has left marks
// since this turn looked: there is nothing to wait for then, and perhaps more to find.
func (t *turn) claim(wait bool) (other <-chan struct{}, claimed bool) {
	s := t.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if wait && len(t.stops) > 0 && s.released != t.released {
		return nil, false
	}
	most := t.r.len()
	if t.scores() {
		most = t.known
	}
	for i := len(t.r.cuts) - 1; wait && len(t.stops) > 0 && i >= 0 && t.r.cuts[i].at > t.found.Cached; i-- {
		if c, ok := s.claims[t.keys[i]]; ok && c.at <= most && c.priority >= t.Priority {
			return c.done, false
		}
	}
	for _, at := range t.stops {
		c := claim{at, keyAt(t.r, t.keys, at), t.Priority, make(chan struct{})}
		if _, ok := s.claims[c.key]; !ok {
			s.claims[c.key] = c
			t.claims = append(t.claims, c)
		}
	}
	return nil, true
}

// release ends the claims up to a position.
func (t *turn) release(at int) {
	s := t.store
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(t.claims) > 0 && t.claims[0].at <= at {
		s.released++
		delete(s.claims, t.claims[0].key)
		close(t.claims[0].done)
		t.claims = t.claims[1:]
	}
}
