package store

// claim records that a turn is about to set a mark at a position of a text.
type claim struct {
	at       int
	key      key
	priority int
	done     chan struct{} // closed when the mark exists, or when the turn has ended without it
}

// claim claims the marks that the turn will set. With wait, it claims nothing in two cases. If another turn of at least
// the same priority will set a mark from which this turn could continue, claim returns the channel to wait for. If
// another turn has set marks since this turn looked, other is nil: the turn should look again.
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

// release ends the turn's claims at positions up to at.
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
