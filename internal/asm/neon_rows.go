package main

// rowNeon writes loops over rows of elements.
type rowNeon struct {
	*neon
	left, t xreg
	few     bool
}

func (c *neon) rows() *rowNeon { return &rowNeon{neon: c, left: c.x(), t: c.x()} }

// get reads the elements at p, and put writes them.
func (r *rowNeon) get(v vreg, p xreg) {
	if r.few {
		r.loadFew(v, r.left, p, r.t)
	} else {
		r.load(whole, v, p, 0)
	}
}
func (r *rowNeon) put(v vreg, p xreg) {
	if r.few {
		r.storeFew(v, r.left, p, r.t)
	} else {
		r.store(whole, v, p, 0)
	}
}

// each runs body for each vector of n elements, and for the last 1 to 3 elements. It moves the pointers past them.
func (r *rowNeon) each(n xreg, at []xreg, l armLoop, body func()) {
	loop, rest, done := r.fresh("vectors"), r.fresh("rest"), r.fresh("row")
	r.mov(r.left, n)
	r.ifLess(r.left, 4, rest)
	r.loop(loop, l, func() {
		body()
		for _, p := range at {
			r.addImm(p, p, 16)
		}
		r.whileLeast(r.left, 4, loop)
	})
	r.label(rest)
	r.ifZero(r.left, done)
	r.few = true
	body()
	r.few = false
	for _, p := range at {
		r.addShifted(p, p, r.left, 2)
	}
	r.label(done)
}

// panelNeon writes loops over panels of columns, which process all rows of each panel.
type panelNeon struct {
	*neon
	left, t xreg
	few     bool
}

func (c *neon) panels(left xreg) *panelNeon { return &panelNeon{neon: c, left: left, t: c.x()} }

// get reads vector i of the panel in the row at p, and put writes it.
func (r *panelNeon) get(v vreg, p xreg, i int) {
	if r.few {
		r.loadFew(v, r.left, p, r.t)
	} else {
		r.load(whole, v, p, 16*i)
	}
}
func (r *panelNeon) put(v vreg, p xreg, i int) {
	if r.few {
		r.storeFew(v, r.left, p, r.t)
	} else {
		r.store(whole, v, p, 16*i)
	}
}

// each runs body for panels of columns, widest first, and for the last 1 to 3 columns. It moves the pointers past each
// whole panel.
func (r *panelNeon) each(at []xreg, widths []int, body func(vecs int)) {
	for _, vecs := range widths {
		start, done := r.fresh("panel"), r.fresh("narrower")
		r.label(start)
		r.ifLess(r.left, 4*vecs, done)
		body(vecs)
		for _, p := range at {
			r.addImm(p, p, 16*vecs)
		}
		r.addImm(r.left, r.left, -4*vecs)
		r.jump(start)
		r.label(done)
	}
	done := r.fresh("columns")
	r.ifZero(r.left, done)
	r.few = true
	body(1)
	r.few = false
	r.label(done)
}
