package main

import (
	"strconv"

	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// deltaRows generates the operations of the delta rule with decays by row.
func (c vector) deltaRows() {
	c.decayPart()
	c.rowsByRows("mulMatrix", "sets y[r·ys + i] = a[r·as + i]·b[r·bs + i]", false)
	c.rowsByRows("mulAddMatrix", "adds a[r·as + i]·b[r·bs + i] to y[r·ys + i], rounded once,", true)
	c.addRunning()
	c.decayedScores()
	c.decayedScoresGrad()
}

// decayPart uses columns as lanes, and processes the rows from top to bottom and back.
func (c vector) decayPart() {
	c.function("decayPart", "func(rows, n, ld int, each, since, upTo, total, logs *float32, gs int)",
		"computes DecayPart for n columns of at least one row. Rows lie ld floats apart, those of logs gs.")
	n, ld, gs := c.arg("n"), c.bytes("ld"), c.bytes("gs")
	low, high := c.vec(6), c.vec(7)
	c.set(expLow, low)
	c.set(expHigh, high)
	scratch := []reg.Register{c.vec(2), c.vec(3), c.vec(4), c.vec(5)}
	sum, x, run := c.vec(0), c.vec(1), c.vec(8)
	from, each, to, rows := c.GP64(), c.GP64(), c.GP64(), c.GP64()
	start := func(name string, p reg.GPVirtual, i reg.GPVirtual) {
		c.Load(c.Param(name), p)
		c.LEAQ(float(p, i), p)
	}
	c.each("columns", c.span(n), func(i reg.GPVirtual, mask reg.Register) {
		name := func(s string) string {
			if mask != nil {
				s += "_tail"
			}
			return s
		}
		start("logs", from, i)
		start("each", each, i)
		start("since", to, i)
		c.Load(c.Param("rows"), rows)
		c.zero(sum)
		c.set(1, run)
		c.Label(name("down"))
		c.load(Mem{Base: from}, x, mask)
		c.VADDPS(x, sum, sum)
		c.exp(x, low, high, scratch)
		c.VMULPS(x, run, run)
		c.store(x, mask, Mem{Base: each})
		c.store(run, mask, Mem{Base: to})
		c.ADDQ(gs, from)
		c.ADDQ(ld, each)
		c.ADDQ(ld, to)
		c.countDown(rows, name("down"))
		start("total", from, i)
		c.exp(sum, low, high, scratch)
		c.store(sum, mask, Mem{Base: from})
		// each points past its last row
		start("upTo", to, i)
		c.Load(c.Param("rows"), rows)
		c.MOVQ(rows, from)
		c.DECQ(from)
		c.IMULQ(ld, from)
		c.ADDQ(from, to)
		c.set(1, run)
		c.JMP(LabelRef(name("last")))
		c.Label(name("up"))
		c.load(Mem{Base: each}, x, mask)
		c.VMULPS(x, run, run)
		c.SUBQ(ld, to)
		c.Label(name("last"))
		c.store(run, mask, Mem{Base: to})
		c.SUBQ(ld, each)
		c.countDown(rows, name("up"))
	})
	c.end()
}

// rowsByRows generates element-wise products of rows.
func (c vector) rowsByRows(name, doc string, add bool) {
	c.function(name, "func(rows, n int, y *float32, ys int, a *float32, as int, b *float32, bs int)",
		doc+" for r < rows, at least 1, and i < n.")
	rows, y, ys := c.arg("rows"), c.arg("y"), c.bytes("ys")
	a, as, b, bs := c.arg("a"), c.bytes("as"), c.arg("b"), c.bytes("bs")
	columns := c.span(c.arg("n"))
	v, w, to := c.vec(0), c.vec(1), c.vec(2)
	c.Label("row")
	c.each("columns", columns, func(i reg.GPVirtual, mask reg.Register) {
		c.load(float(a, i), v, mask)
		c.load(float(b, i), w, mask)
		if add {
			c.load(float(y, i), to, mask)
			c.VFMADD231PS(v, w, to)
		} else {
			c.VMULPS(v, w, to)
		}
		c.store(to, mask, float(y, i))
	})
	c.ADDQ(ys, y)
	c.ADDQ(as, a)
	c.ADDQ(bs, b)
	c.countDown(rows, "row")
	c.end()
}

// addRunning uses columns as lanes.
func (c vector) addRunning() {
	c.function("addRunning", "func(rows, n int, acc, y *float32, ys int, a *float32, as int, b *float32, bs int)",
		"computes AddRunning for n columns of at least one row. Sums of products are rounded once.")
	ys, as, bs, acc := c.bytes("ys"), c.bytes("as"), c.bytes("bs"), c.arg("acc")
	y, a, b, rows := c.GP64(), c.GP64(), c.GP64(), c.GP64()
	sum, v, w := c.vec(0), c.vec(1), c.vec(2)
	c.each("columns", c.span(c.arg("n")), func(i reg.GPVirtual, mask reg.Register) {
		label := "row"
		if mask != nil {
			label += "_tail"
		}
		c.Load(c.Param("y"), y)
		c.Load(c.Param("a"), a)
		c.Load(c.Param("b"), b)
		for _, p := range []reg.GPVirtual{y, a, b} {
			c.LEAQ(float(p, i), p)
		}
		c.Load(c.Param("rows"), rows)
		c.load(float(acc, i), sum, mask)
		c.Label(label)
		c.load(Mem{Base: a}, v, mask)
		c.load(Mem{Base: b}, w, mask)
		c.VFMADD231PS(v, w, sum)
		c.load(Mem{Base: y}, v, mask)
		c.VADDPS(sum, v, v)
		c.store(v, mask, Mem{Base: y})
		c.ADDQ(ys, y)
		c.ADDQ(as, a)
		c.ADDQ(bs, b)
		c.countDown(rows, label)
		c.store(sum, mask, float(acc, i))
	})
	c.end()
}

// decayedScores uses the writers as lanes, and decays those before a reader. All sums of a reader's scores are in one
// or two vectors, and nothing is added across lanes.
func (c vector) decayedScores() {
	c.function("decayedScores", "func(rows, n int, sq, sp *float32, ss int, w, e, q, p *float32)",
		"computes DecayedScores; neither count is zero. Denormal numbers count as 0.")
	c.rounding(roundNearest | flushToZero)
	rows, n, ss, ld := c.arg("rows"), c.arg("n"), c.bytes("ss"), c.bytes("n")
	sq, sp, e, q, p := c.arg("sq"), c.arg("sp"), c.arg("e"), c.arg("q"), c.arg("p")
	w, i, left, t := c.GP64(), c.GP64(), c.GP64(), c.GP64()
	strands, halves := 2, 1
	if c.lanes == 8 {
		strands, halves = 1, 2
	}
	// The sums of strand or half j are in vectors j and j+2.
	dq, dp := func(j int) reg.Register { return c.vec(j) }, func(j int) reg.Register { return c.vec(2 + j) }
	before := c.firstLanes(9)
	term := func(strand int) {
		at := func(base reg.GPVirtual) Mem { return float(base, i).Offset(4 * strand) }
		if c.lanes == 16 {
			x, to := c.vec(4+strand), Mem{Base: w, Disp: 64 * strand}
			c.VMOVUPS(to, x)
			c.VFMADD231PS_BCST(at(p), x, dp(strand))
			c.VMULPS_BCST(at(e), x, before.k, x)
			c.VMOVUPS(x, to)
			c.VFMADD231PS_BCST(at(q), x, dq(strand))
			return
		}
		for f, base := range []reg.GPVirtual{e, q, p} {
			c.VBROADCASTSS(at(base), c.vec(4+f))
		}
		for h := range 2 {
			x, y, to := c.vec(7), c.vec(8), Mem{Base: w, Disp: 32 * h}
			c.VMOVUPS(to, x)
			c.VFMADD231PS(c.vec(6), x, dp(h))
			c.VMULPS(c.vec(4), x, y)
			c.VBLENDVPS(c.vec(9+h), y, x, x)
			c.VMOVUPS(x, to)
			c.VFMADD231PS(c.vec(5), x, dq(h))
		}
	}
	c.XORQ(t, t)
	c.Label("reader")
	for j := range 4 {
		c.zero(c.vec(j))
	}
	before.set(t)
	c.Load(c.Param("w"), w)
	c.XORQ(i, i)
	c.MOVQ(n, left)
	if strands == 2 {
		c.branch(left, c.JLT, U8(2), "odd")
	}
	c.Label("terms")
	for strand := range strands {
		term(strand)
	}
	c.ADDQ(U8(64*strands), w)
	c.ADDQ(U8(strands), i)
	c.SUBQ(U8(strands), left)
	c.branch(left, c.JGE, U8(strands), "terms")
	if strands == 2 {
		c.Label("odd")
		c.ifZero(left, "sums")
		term(0)
		c.Label("sums")
		c.VADDPS(dq(1), dq(0), dq(0))
		c.VADDPS(dp(1), dp(0), dp(0))
	}
	for h := range halves {
		before.only(dp(h), h)
	}
	c.INCQ(t)
	before.set(t)
	for h := range halves {
		before.only(dq(h), h)
	}
	before.set(rows)
	for h := range halves {
		before.store(dq(h), Mem{Base: sq, Disp: 32 * h}, h)
		before.store(dp(h), Mem{Base: sp, Disp: 32 * h}, h)
	}
	for _, x := range []reg.GPVirtual{e, q, p} {
		c.ADDQ(ld, x)
	}
	c.ADDQ(ss, sq)
	c.ADDQ(ss, sp)
	c.branch(t, c.JLT, rows, "reader")
	c.rounding(roundNearest)
	c.end()
	if c.lanes == 8 {
		c.data("first")
		for i := range 32 {
			word := uint32(0)
			if i < 16 {
				word = ^uint32(0)
			}
			c.AddDatum(4*i, U32(word))
		}
	}
}

// lanes16 selects the first of 16 lanes: in a mask register, or in two vectors for halves of 8.
type lanes16 struct {
	vector
	k         reg.Register
	one       reg.GPVirtual
	first     int // vector
	table, at reg.GPVirtual
}

// firstLanes returns an empty selection. For AVX2 it uses vectors first and first+1.
func (c vector) firstLanes(first int) lanes16 {
	l := lanes16{vector: c, first: first}
	if c.lanes == 16 {
		l.k, l.one = c.K(), c.GP64()
		return l
	}
	l.table, l.at = c.GP64(), c.GP64()
	c.LEAQ(NewDataAddr(NewStaticSymbol("first"), 4*16), l.table)
	return l
}

// set selects the first n lanes.
func (l lanes16) set(n reg.GPVirtual) {
	if l.lanes == 16 {
		l.MOVQ(I32(-1), l.one)
		l.BZHIL(n.As32(), l.one.As32(), l.one.As32())
		l.KMOVW(l.one.As32(), l.k)
		return
	}
	l.MOVQ(n, l.at)
	l.NEGQ(l.at)
	for h := range 2 {
		l.VMOVUPS(Mem{Base: l.table, Index: l.at, Scale: 4, Disp: 32 * h}, l.vec(l.first+h))
	}
}

// only clears the unselected lanes of v, which is half h of 16.
func (l lanes16) only(v reg.Register, h int) {
	if l.lanes == 16 {
		l.VMOVAPS_Z(v, l.k, v)
	} else {
		l.VANDPS(l.vec(l.first+h), v, v)
	}
}

// store writes the selected lanes of v, which is half h of 16.
func (l lanes16) store(v reg.Register, m Mem, h int) {
	if l.lanes == 16 {
		l.VMOVUPS(v, l.k, m)
	} else {
		l.VMASKMOVPS(v, l.vec(l.first+h), m)
	}
}

// decayedScoresGrad uses components as lanes. It stores two vectors of each writer at each reader.
func (c vector) decayedScoresGrad() {
	c.function("decayedScoresGrad", "func(rows, n int, dq, dp, dz, de, dsq, dsp *float32, ss int, e, q, p, z, "+
		"work *float32)", "computes DecayedScoresGrad; neither count is zero. Denormal numbers count as 0.")
	c.rounding(roundNearest | flushToZero)
	g := decayedGrad{vector: c, column: c.GP64(), row: c.GP64(), t: c.GP64(), work: c.arg("work")}
	left := c.arg("n")
	c.XORQ(g.column, g.column)
	for _, vectors := range []int{2, 1} {
		name := strconv.Itoa(vectors)
		c.Label("panel_" + name)
		c.branch(left, c.JLT, U8(vectors*c.lanes), "panel_"+name+"_done")
		g.panel(vectors, nil)
		c.ADDQ(U32(4*c.lanes*vectors), g.column)
		c.SUBQ(U8(vectors*c.lanes), left)
		c.JMP(LabelRef("panel_" + name))
		c.Label("panel_" + name + "_done")
	}
	c.ifZero(left, "done")
	g.panel(1, c.mask(left))
	c.Label("done")
	c.rounding(roundNearest)
	c.end()
}

// decayedGrad holds the counters of decayedScoresGrad: offsets in bytes, and the position.
type decayedGrad struct {
	vector
	column, row, t, work reg.GPVirtual
}

// panel computes the gradients for a number of vectors of components.
func (g decayedGrad) panel(vectors int, mask reg.Register) {
	c, width := g.vector, 4*g.lanes*vectors // bytes of a writer
	name := func(s string) string {
		s += "_" + strconv.Itoa(vectors)
		if mask != nil {
			s += "_tail"
		}
		return s
	}
	v := func(i int) []reg.Register { return c.registers(2*i + vectors)[2*i:] }
	e, q, p, dq, dp, x := v(0), v(1), v(2), v(3), v(4), v(5)
	factor, temp := c.vec(12), c.vec(13)
	at, m, k, s := c.GP64(), c.GP64(), c.GP64(), c.GP64()
	// here returns the address of the panel in row t of an argument.
	here := func(arg string, i int) Mem {
		if i == 0 {
			c.Load(c.Param(arg), at)
			c.ADDQ(g.row, at)
		}
		return Mem{Base: at, Disp: 4 * c.lanes * i}
	}
	load := func(arg string, to []reg.Register) {
		for i := range to {
			c.load(here(arg, i), to[i], mask)
		}
	}
	add := func(arg string, from []reg.Register) {
		for i := range from {
			to := here(arg, i)
			c.load(to, temp, mask)
			c.VADDPS(from[i], temp, temp)
			c.store(temp, mask, to)
		}
	}
	// scores sets x to row t of the gradients of scores.
	scores := func(arg string, x reg.GPVirtual) {
		c.Load(c.Param("ss"), x)
		c.IMULQ(g.t, x)
		c.SHLQ(U8(2), x)
		c.ADDQ(c.param(arg), x)
	}
	// each loops over the writers before t: body gets pointers to what is stored of them at t.
	each := func(label string, body func()) {
		c.XORQ(s, s)
		c.Label(name(label))
		c.branch(s, c.JGE, g.t, name(label+"_done"))
		body()
		c.ADDQ(U8(width), k)
		c.INCQ(s)
		c.JMP(LabelRef(name(label)))
		c.Label(name(label + "_done"))
	}
	kept := func() { // k points to what is stored of the first writer at t
		c.MOVQ(g.t, k)
		c.IMUL3Q(U32(16*width), k, k)
		c.ADDQ(g.work, k)
	}
	mp := c.GP64()
	times := func(m reg.GPVirtual, x, sum []reg.Register) { // adds x times a gradient of a score
		c.VBROADCASTSS(float(m, s), factor)
		for i := range x {
			c.VFMADD231PS(factor, x[i], sum[i])
		}
	}
	keep := func(i, before int) Mem { return Mem{Base: k, Disp: 4*c.lanes*i - 16*width*before} }

	c.XORQ(g.t, g.t)
	c.MOVQ(g.column, g.row)
	c.Label(name("down"))
	load("e", e)
	for i := range vectors {
		c.zero(dq[i])
		c.zero(dp[i])
	}
	scores("dsq", m)
	scores("dsp", mp)
	kept()
	each("decay", func() {
		for i := range vectors {
			c.VMOVUPS(keep(i, 1), x[i])
		}
		times(mp, x, dp)
		for i := range vectors {
			c.VMULPS(e[i], x[i], x[i])
			c.VMOVUPS(x[i], keep(i, 0))
		}
		times(m, x, dq)
	})
	load("z", x)
	for i := range vectors {
		c.VMOVUPS(x[i], keep(i, 0))
	}
	times(m, x, dq)
	add("dq", dq)
	add("dp", dp)
	c.LEAQ(Mem{Base: g.work, Disp: 16 * 16 * width}, at)
	c.MOVQ(g.t, k)
	c.IMUL3Q(U32(width), k, k)
	for i := range vectors {
		c.zero(x[i])
		c.VMOVUPS(x[i], Mem{Base: at, Index: k, Scale: 1, Disp: 4 * c.lanes * i})
	}
	c.ADDQ(c.bytes("n"), g.row)
	c.INCQ(g.t)
	c.branch(g.t, c.JLT, c.param("rows"), name("down"))

	// From the last reader backward: the gradients of the writers follow the stored vectors.
	grads := c.GP64()
	c.Label(name("up"))
	c.DECQ(g.t)
	c.SUBQ(c.bytes("n"), g.row)
	load("e", e)
	load("q", q)
	load("p", p)
	for i := range vectors {
		c.zero(dq[i]) // the gradient of e here
	}
	scores("dsq", m)
	scores("dsp", mp)
	kept()
	c.LEAQ(Mem{Base: g.work, Disp: 16 * 16 * width}, grads)
	each("back", func() {
		for i := range vectors {
			c.VMOVUPS(Mem{Base: grads, Disp: 4 * c.lanes * i}, x[i])
		}
		times(m, q, x)
		for i := range vectors {
			c.VFMADD231PS(keep(i, 0), x[i], dq[i])
			c.VMULPS(e[i], x[i], x[i])
		}
		times(mp, p, x)
		for i := range vectors {
			c.VMOVUPS(x[i], Mem{Base: grads, Disp: 4 * c.lanes * i})
		}
		c.ADDQ(U8(width), grads)
	})
	for i := range vectors {
		c.VMOVUPS(Mem{Base: grads, Disp: 4 * c.lanes * i}, x[i])
	}
	times(m, q, x)
	add("dz", x)
	add("de", dq)
	c.branch(g.t, c.JNE, U8(0), name("up"))
}
