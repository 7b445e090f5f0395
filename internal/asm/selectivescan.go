package main

import (
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Offsets in bytes of the vectors of one state, in ScanLanes and in the work buffer of package kernel. They are the
// same for all instruction sets.
const (
	scanA, scanH, scanHGrad, scanAGrad     = 0, 64, 128, 192
	workH, workDecay, workBGrad, workCGrad = 0, 64, 128, 192
	scanStride                             = 256
)

// scan generates the selective scan. Lanes are channels, except in scanStep, where they are states.
func (c vector) scan() {
	c.scanForward("scan", true)
	c.scanForward("scanSteps", false)
	c.scanBack()
	c.scanStep()
	c.ssdStep()
	c.ssdStepHalves()
}

// scanForward generates scan, which writes outputs, and scanSteps, which writes states and decays.
func (c vector) scanForward(name string, outputs bool) {
	if outputs {
		c.function(name,
			"func(rows, n, width int, y, u, delta *float32, step int, b, c *float32, stride int, d, lanes *float32)",
			"computes ScanLanes.Scan for width channels, as many as a vector has at most. The sum over the states",
			"is in their order.")
	} else {
		c.function(name,
			"func(rows, n, width int, work, u, delta *float32, step int, b *float32, stride int, lanes *float32)",
			"computes ScanLanes.Steps for width channels, as many as a vector has at most.")
	}
	rows, n, step, stride := c.arg("rows"), c.arg("n"), c.bytes("step"), c.bytes("stride")
	u, delta, b, lanes := c.arg("u"), c.arg("delta"), c.arg("b"), c.arg("lanes")
	mask := c.mask(c.arg("width"))
	dt, in, low, sum, skip := c.vec(0), c.vec(1), c.vec(2), c.vec(3), c.vec(4)
	c.set(expLow, low)
	// Several states are computed at a time, so that they do not wait for each other. Each has six vectors.
	const each = 6
	together := 1
	if c.lanes == 16 {
		together = 2
		c.holdExp(5 + each*together)
	}
	x := func(s int) reg.Register { return c.vec(5 + each*s) }
	t := func(s int) reg.Register { return c.vec(6 + each*s) }
	scratch := func(s int) []reg.Register {
		return []reg.Register{c.vec(7 + each*s), c.vec(8 + each*s), c.vec(9 + each*s), c.vec(10 + each*s)}
	}
	var out, cc reg.GPVirtual
	if outputs {
		out, cc = c.arg("y"), c.arg("c")
		d := c.arg("d")
		c.load(Mem{Base: d}, skip, mask)
	} else {
		out = c.arg("work")
	}
	i, at, left := c.GP64(), c.GP64(), c.GP64()
	states := func(count int) {
		of := func(s, part int) Mem { return Mem{Base: at, Disp: s*scanStride + part} }
		var exps [][]func()
		for s := range count {
			c.VMULPS(of(s, scanA), dt, x(s))
			exps = append(exps, c.expSteps(x(s), low, nil, scratch(s)))
		}
		for step := range exps[0] {
			for s := range count {
				exps[s][step]()
			}
		}
		for s := range count {
			b := float(b, i).Offset(4 * s)
			if c.lanes == 16 {
				c.VMULPS_BCST(b, in, t(s))
			} else {
				c.VBROADCASTSS(b, t(s))
				c.VMULPS(in, t(s), t(s))
			}
		}
		for s := range count {
			if outputs {
				c.VFMADD231PS(of(s, scanH), x(s), t(s))
				cc := float(cc, i).Offset(4 * s)
				if c.lanes == 16 {
					c.VFMADD231PS_BCST(cc, t(s), sum)
				} else {
					c.VBROADCASTSS(cc, x(s))
					c.VFMADD231PS(t(s), x(s), sum)
				}
			} else {
				h := scratch(s)[0]
				c.VMOVUPS(of(s, scanH), h)
				c.VMOVUPS(h, Mem{Base: out, Disp: workH})
				c.VMOVUPS(x(s), Mem{Base: out, Disp: workDecay})
				c.VFMADD231PS(h, x(s), t(s))
				c.ADDQ(I32(scanStride), out)
			}
			c.VMOVUPS(t(s), of(s, scanH))
		}
		c.ADDQ(I32(count*scanStride), at)
		c.ADDQ(U8(count), i)
	}

	c.Label("row")
	c.load(Mem{Base: delta}, dt, mask)
	c.load(Mem{Base: u}, in, mask)
	if outputs {
		c.VMULPS(skip, in, sum)
	}
	c.VMULPS(dt, in, in)
	c.XORQ(i, i)
	c.MOVQ(lanes, at)
	c.MOVQ(n, left)
	if together > 1 {
		c.SUBQ(U8(together), left)
		c.JL(LabelRef("rest"))
		c.Label("states")
		states(together)
		c.subtract(left, U8(together), c.JGE, "states")
		c.Label("rest")
		c.ADDQ(U8(together), left)
		c.JZ(LabelRef("next"))
	}
	c.Label("state")
	states(1)
	c.countDown(left, "state")
	c.Label("next")
	c.ADDQ(step, u)
	c.ADDQ(step, delta)
	c.ADDQ(stride, b)
	if outputs {
		c.store(sum, mask, Mem{Base: out})
		c.ADDQ(step, out)
		c.ADDQ(stride, cc)
	}
	c.countDown(rows, "row")
	c.end()
}

func (c vector) scanBack() {
	c.function("scanBack",
		"func(rows, n, width int, du, ddelta, dy, u, delta *float32, step int, b, c *float32, stride int, "+
			"d, dd, lanes, work *float32)",
		"computes ScanLanes.Back for width channels, as many as a vector has at most. Sums over the states are in "+
			"their order.")
	dt, in, dIn, dDt, dy := c.vec(0), c.vec(1), c.vec(2), c.vec(3), c.vec(4)
	h, decay, g, bb, t := c.vec(5), c.vec(6), c.vec(7), c.vec(8), c.vec(9)
	skip, dSkip, u := c.vec(10), c.vec(11), c.vec(12)
	rows, n, step, stride := c.arg("rows"), c.arg("n"), c.bytes("step"), c.bytes("stride")
	mask := c.mask(c.arg("width"))
	b, cc, lanes, work := c.arg("b"), c.arg("c"), c.arg("lanes"), c.arg("work")
	row, at, i, p := c.GP64(), c.GP64(), c.GP64(), c.GP64()
	array := func(name string) Mem {
		c.MOVQ(c.param(name), p)
		return Mem{Base: p, Index: row, Scale: 1}
	}
	c.load(Mem{Base: c.arg("d")}, skip, mask)
	c.load(Mem{Base: c.arg("dd")}, dSkip, mask)
	// All pointers begin at the last position.
	c.LEAQ(Mem{Base: rows, Disp: -1}, i)
	c.MOVQ(step, row)
	c.IMULQ(i, row)
	c.MOVQ(stride, p)
	c.IMULQ(i, p)
	c.ADDQ(p, b)
	c.ADDQ(p, cc)
	c.MOVQ(n, p)
	c.IMULQ(i, p)
	c.SHLQ(U8(8), p)
	c.ADDQ(p, work)

	c.Label("row")
	c.load(array("delta"), dt, mask)
	c.load(array("u"), u, mask)
	c.load(array("dy"), dy, mask)
	c.VMULPS(dt, u, in)
	c.VFMADD231PS(dy, u, dSkip)
	c.zero(dIn)
	c.zero(dDt)
	c.XORQ(i, i)
	c.MOVQ(lanes, at)
	c.Label("state")
	c.VMOVUPS(Mem{Base: work, Disp: workH}, h)
	c.VMOVUPS(Mem{Base: work, Disp: workDecay}, decay)
	c.VBROADCASTSS(float(b, i), bb)
	c.VBROADCASTSS(float(cc, i), t)
	c.VMOVUPS(Mem{Base: at, Disp: scanHGrad}, g)
	c.VFMADD231PS(t, dy, g)
	c.VMULPS(in, bb, t)
	c.VFMADD231PS(decay, h, t) // the state after the step
	c.VFMADD213PS(Mem{Base: work, Disp: workCGrad}, dy, t)
	c.VMOVUPS(t, Mem{Base: work, Disp: workCGrad})
	c.VMOVUPS(Mem{Base: work, Disp: workBGrad}, t)
	c.VFMADD231PS(g, in, t)
	c.VMOVUPS(t, Mem{Base: work, Disp: workBGrad})
	c.VFMADD231PS(g, bb, dIn)
	c.VMULPS(decay, g, g)
	c.VMOVUPS(g, Mem{Base: at, Disp: scanHGrad})
	c.VMULPS(h, g, g) // the gradient of the decay, times the decay
	c.VFMADD231PS(Mem{Base: at, Disp: scanA}, g, dDt)
	c.VFMADD213PS(Mem{Base: at, Disp: scanAGrad}, dt, g)
	c.VMOVUPS(g, Mem{Base: at, Disp: scanAGrad})
	c.ADDQ(I32(scanStride), at)
	c.ADDQ(I32(scanStride), work)
	c.INCQ(i)
	c.branch(i, c.JLT, n, "state")
	c.MOVQ(n, i) // to the work of the previous position
	c.SHLQ(U8(9), i)
	c.SUBQ(i, work)
	c.load(array("du"), t, mask)
	c.VFMADD231PS(dt, dIn, t)
	c.VFMADD231PS(dy, skip, t)
	c.store(t, mask, Mem{Base: p, Index: row, Scale: 1})
	c.load(array("ddelta"), t, mask)
	c.VFMADD231PS(u, dIn, t)
	c.VADDPS(dDt, t, t)
	c.store(t, mask, Mem{Base: p, Index: row, Scale: 1})
	c.SUBQ(step, row)
	c.SUBQ(stride, b)
	c.SUBQ(stride, cc)
	c.countDown(rows, "row")
	c.MOVQ(c.param("dd"), p)
	c.store(dSkip, mask, Mem{Base: p})
	c.end()
}
