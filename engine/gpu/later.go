//go:build gpu

package gpu

import "slices"

// later is a launch that is not recorded before the next one: an operation that reads its result may take it into its
// own launch. Whatever else is recorded comes after it.
type later struct {
	what   any       // what others may take in
	live   []*buffer // its memory: once some of it has been taken back it may be lent to who would take it in
	record func()
}

// postpone postpones a launch, for which record is called; the caller holds the lock.
func (e *Engine) postpone(what any, record func()) {
	e.c.flush()
	e.c.later = &later{what, slices.Clone(e.live), record}
	e.forget()
}

// flush records what was postponed. The caller holds the lock.
func (c *core) flush() {
	if l := c.later; l != nil {
		c.later = nil
		l.record()
	}
}

// postponed is what was postponed last, nil if there is nothing to take in. The caller holds the lock.
func postponed[T any](c *core) (what *T) {
	if l := c.later; l != nil && !slices.ContainsFunc(l.live, func(b *buffer) bool { return b.at.block == nil }) {
		what, _ = l.what.(*T)
	}
	return what
}

// more adds memory to what was postponed: that of the operation which has changed it.
func (e *Engine) more() {
	e.c.later.live = append(e.c.later.live, e.live...)
	e.forget()
}

// forget lets go of the memory of launches that are recorded.
func (e *Engine) forget() {
	clear(e.live)
	e.live = e.live[:0]
}
