//go:build gpu

package gpu

import "slices"

// later is a postponed launch. It is recorded before any other work, unless an operation that reads its result fuses it
// into its own launch.
type later struct {
	what   any       // describes the launch for operations that may fuse it
	live   []*buffer // its memory; if any of it was freed, the operation that would fuse the launch may have got it
	record func()
}

// postpone postpones a launch. record records it. c.mu must be held.
func (e *Engine) postpone(what any, record func()) {
	e.c.flush()
	e.c.later = &later{what, slices.Clone(e.live), record}
	e.forget()
}

// flush records the postponed launch, if any. mu must be held.
func (c *core) flush() {
	if l := c.later; l != nil {
		c.later = nil
		l.record()
	}
}

// postponed returns the description of the postponed launch, or nil if there is none of type T that can be fused. c.mu
// must be held.
func postponed[T any](c *core) (what *T) {
	if l := c.later; l != nil && !slices.ContainsFunc(l.live, func(b *buffer) bool { return b.at.block == nil }) {
		what, _ = l.what.(*T)
	}
	return what
}

// more adds the memory of an operation that was fused into the postponed launch to the memory of that launch.
func (e *Engine) more() {
	e.c.later.live = append(e.c.later.live, e.live...)
	e.forget()
}

// forget clears the list of live buffers, after their launch was recorded.
func (e *Engine) forget() {
	clear(e.live)
	e.live = e.live[:0]
}
