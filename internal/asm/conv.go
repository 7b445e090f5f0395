package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// rowBytes is the size of a row: the real or the imaginary parts of a point for 16 channels.
const rowBytes = 64

// spillBytes is the size of 8 points of one AVX2 vector.
const spillBytes = 8 * 2 * 32

// conv generates the passes of the transform that package kernel uses for convolutions: see pass there.
func conv(ctx *build.Context, s isa) {
	c := asm{ctx, s}
	for _, f := range []struct {
		name, args string
		radices    []int
		emit       func(*passCode)
		doc        string
	}{
		{"dif", "radix int, re, im *float32, step, count, blocks int, w *float32",
			[]int{8, 5, 4, 3}, (*passCode).dif,
			"transforms, for each of blocks blocks of radix·step floats, the points q + j·step/16, j < radix, " +
				"and rotates them by " +
				"w[q·radix+j], for q < count. All numbers are at least 1. Points 0 stay as they are: " +
				"w[q·radix] is taken for 1."},
		{"dit", "radix int, re, im *float32, step, count, blocks int, w *float32",
			[]int{8, 5, 4, 3}, (*passCode).dit,
			"does what dif does in reverse order: rotations, then transforms, which take 8 points " +
				"in the order they leave them in."},
		{"first",
			"radix int, re, im *float32, step int, x *float32, xstep, xnext, ahead, count, rows int, in, w *float32",
			[]int{8, 4}, (*passCode).first,
			"is dif for one block, of the real rows x[j·xstep+q·xnext] times in[j], j < rows ≤ radix; " +
				"other points are zero. Points 0 are " +
				"rotated. It asks for the lines of x[j·xstep+q·xnext+ahead]."},
		{"last",
			"radix int, re, im *float32, step int, x *float32, xstep, xnext, ahead, count, rows int, out, w *float32",
			[]int{8, 4}, (*passCode).last,
			"is dit for one block, with points 0 rotated, up to x[j·xstep+q·xnext] = Im(z)·re(out[j]) + " +
				"Re(z)·im(out[j]) of the " +
				"results z for j < rows ≤ radix. It leaves re and im as they are, and asks for the lines of " +
				"x[j·xstep+q·xnext+ahead]."},
		{"lastAdd",
			"radix int, re, im *float32, step int, x *float32, xstep, xnext, ahead, count, rows int, out, w *float32",
			[]int{8, 4}, (*passCode).lastAdd,
			"is last, but that it adds to x."},
		{"lastStream",
			"radix int, re, im *float32, step int, x *float32, xstep, xnext, ahead, count, rows int, out, w *float32",
			[]int{8, 4}, (*passCode).lastStream,
			"is last, but that it writes x, whose rows begin at multiples of 64 bytes, past the caches. " +
				"A fence must follow."},
		{"middle", "radix int, re, im, kre, kim *float32, count int", []int{8, 5, 4, 3}, (*passCode).middle,
			"transforms count groups of radix points, multiplies by k and transforms back, but for a factor radix."},
		{"middleGrad", "radix int, re, im, kre, kim, ure, uim, sre, sim *float32, count int", []int{8, 5, 4, 3},
			(*passCode).middleGrad,
			"transforms count groups of radix points, adds their product with conj(u) to s, multiplies them by " +
				"conj(k) and " +
				"transforms back, but for a factor radix."},
		{"middleGradFirst", "radix int, re, im, kre, kim, ure, uim, sre, sim *float32, count int", []int{8, 5, 4, 3},
			(*passCode).middleGradFirst,
			"is middleGrad, but that it sets s to the product. s may be u."},
	} {
		c.function(f.name, "func("+f.args+")", f.doc)
		radix := c.arg("radix")
		for _, r := range f.radices[:len(f.radices)-1] {
			c.branch(radix, c.JE, U8(r), fmt.Sprintf("radix%d", r))
		}
		for i := len(f.radices) - 1; i >= 0; i-- {
			c.Label(fmt.Sprintf("radix%d", f.radices[i]))
			p := &passCode{pool: newPool(c), radix: f.radices[i], room: 2}
			if p.spills() {
				p.stack = c.GP64()
				c.LEAQ(c.AllocLocal(spillBytes+32).Offset(31), p.stack)
				c.ANDQ(I8(-32), p.stack)
			}
			f.emit(p)
			c.end()
		}
	}
	c.fence()
	c.products()
	c.constantTable()
}

// passCode emits one pass. Offsets and strides are in bytes.
type passCode struct {
	*pool
	radix            int
	re, re4, im, im4 reg.GPVirtual // rows 0 and 4 of the points in work
	step, step3      reg.GPVirtual // from row to row, and three times that; none if rows are adjacent
	x, x4            reg.GPVirtual // rows 0 and 4 of the real sequence
	xstep, xstep3    reg.GPVirtual // steps of the real sequence
	w, inOut, q      reg.GPVirtual
	stack            reg.GPVirtual // space for 8 points of 2 vectors, if needed
	room             int           // how many of four points need no such space
	unread           bool          // the real sequence is written past the caches
	at               int           // offset in a row
	label            int
}

// start loads the arguments that all passes share.
func (p *passCode) start() {
	p.re, p.im, p.w, p.q = p.arg("re"), p.arg("im"), p.arg("w"), p.arg("count")
	p.step, p.step3 = p.steps("step")
	p.re4, p.im4 = p.fourth(p.re, p.step), p.fourth(p.im, p.step)
}

// steps loads a step and computes three times that.
func (p *passCode) steps(arg string) (step, step3 reg.GPVirtual) {
	step, step3 = p.bytes(arg), p.GP64()
	p.LEAQ(Mem{Base: step, Index: step, Scale: 2}, step3)
	return step, step3
}

// fourth returns the address of row 4 from at, or nil if there is no such row.
func (p *passCode) fourth(at, step reg.GPVirtual) reg.GPVirtual {
	if p.radix <= 4 {
		return nil
	}
	at4 := p.GP64()
	p.LEAQ(Mem{Base: at, Index: step, Scale: 4}, at4)
	return at4
}

// rowAt returns row j of points, from the pointers to rows 0 and 4.
func (p *passCode) rowAt(row0, row4 reg.GPVirtual, j int) Mem {
	if p.step == nil {
		return Mem{Base: row0, Disp: rowBytes*j + p.at}
	}
	if j >= 4 {
		row0 = row4
	}
	return stride(row0, p.step, p.step3, j%4).Offset(p.at)
}

// realRow returns row j of the real sequence.
func (p *passCode) realRow(j int) Mem {
	row := p.x
	if j >= 4 {
		row = p.x4
	}
	return stride(row, p.xstep, p.xstep3, j%4).Offset(p.at)
}

func (p *passCode) load(j int) point {
	x := point{p.take(), p.take()}
	p.VMOVUPS(p.rowAt(p.re, p.re4, j), x.re)
	p.VMOVUPS(p.rowAt(p.im, p.im4, j), x.im)
	return x
}

func (p *passCode) store(j int, x point) {
	p.VMOVUPS(x.re, p.rowAt(p.re, p.re4, j))
	p.VMOVUPS(x.im, p.rowAt(p.im, p.im4, j))
	p.give(x.re, x.im)
}

// halves calls f for each vector of a row.
func (p *passCode) halves(f func()) {
	for p.at = 0; p.at < rowBytes; p.at += 4 * p.lanes {
		f()
	}
	p.at = 0
}

// advance moves the pointers to the next point.
func (p *passCode) advance(pointers ...reg.GPVirtual) {
	for _, r := range pointers {
		if r != nil {
			p.ADDQ(U8(rowBytes), r)
		}
	}
	p.ADDQ(U8(8*p.radix), p.w)
}

// spills reports whether there are too few registers for 8 points.
func (p *passCode) spills() bool { return p.radix == 8 && p.lanes < 16 }

// spill stores a point in slot j of 8 if there are too few registers, and unspill restores it. The first few of every
// four points stay in registers.
func (p *passCode) spill(j int, x point) point {
	if p.spills() && j%4 >= p.room {
		p.VMOVAPS(x.re, Mem{Base: p.stack, Disp: 64 * j})
		p.VMOVAPS(x.im, Mem{Base: p.stack, Disp: 64*j + 32})
		p.give(x.re, x.im)
	}
	return x
}

func (p *passCode) unspill(j int, x point) point {
	if p.spills() && j%4 >= p.room {
		x = point{p.take(), p.take()}
		p.VMOVAPS(Mem{Base: p.stack, Disp: 64 * j}, x.re)
		p.VMOVAPS(Mem{Base: p.stack, Disp: 64*j + 32}, x.im)
	}
	return x
}

// blocks emits the loops of dif and dit around body.
func (p *passCode) blocks(body func()) {
	p.start()
	skip, blocks := p.GP64(), p.GP64() // from the end of the points of a block to the next block
	p.IMUL3Q(U8(p.radix), p.step, skip)
	t := p.GP64()
	p.MOVQ(p.q, t)
	p.SHLQ(U8(6), t)
	p.SUBQ(t, skip)
	p.Load(p.Param("blocks"), blocks)
	loop := fmt.Sprintf("loop%d", p.radix)
	p.Label(loop)
	p.halves(body)
	p.advance(p.re, p.re4, p.im, p.im4)
	p.countDown(p.q, loop)
	for _, r := range []reg.GPVirtual{p.re, p.re4, p.im, p.im4} {
		if r != nil {
			p.ADDQ(skip, r)
		}
	}
	p.Load(p.Param("w"), p.w)
	p.Load(p.Param("count"), p.q)
	p.countDown(blocks, loop)
}

// rotate multiplies by w[k].
func (p *passCode) rotate(x point, k int) point {
	if p.lanes == 16 {
		im := p.take()
		wr, wi := Mem{Base: p.w, Disp: 8 * k}, Mem{Base: p.w, Disp: 8*k + 4}
		p.VMULPS_BCST(wi, x.re, im)
		p.VMULPS_BCST(wr, x.re, x.re)
		p.VFNMADD231PS_BCST(wi, x.im, x.re)
		p.VFMADD231PS_BCST(wr, x.im, im)
		p.give(x.im)
		return point{x.re, im}
	}
	wr, wi, im := p.take(), p.take(), p.take()
	p.VBROADCASTSS(Mem{Base: p.w, Disp: 8 * k}, wr)
	p.VBROADCASTSS(Mem{Base: p.w, Disp: 8*k + 4}, wi)
	p.VMULPS(wi, x.re, im)
	p.VMULPS(wr, x.re, x.re)
	p.VFNMADD231PS(wi, x.im, x.re)
	p.VFMADD231PS(wr, x.im, im)
	p.give(wr, wi, x.im)
	return point{x.re, im}
}

// pair returns the sum and the difference of points j and j + radix/2.
func (p *passCode) pair(j int) (sum, diff point) { return p.sumDiff(p.load(j), p.load(j+p.radix/2)) }

// forward transforms radix points that come in pairs, if radix is even, and calls put with each result.
func (p *passCode) forward(pair func(j int) (sum, diff point), put func(k int, y point)) {
	switch p.radix {
	case 3, 5:
		var x []point
		for j := range p.radix {
			x = append(x, p.load(j))
		}
		f := p.transform3
		if p.radix == 5 {
			f = p.transform5
		}
		for k, y := range f(x) {
			put(k, y)
		}
	case 4:
		s0, d0 := pair(0)
		s1, d1 := pair(1)
		y0, y2 := p.sumDiff(s0, s1)
		y1, y3 := p.sumDiffTurned(d0, d1)
		for k, y := range []point{y0, y1, y2, y3} {
			put(k, y)
		}
	case 8:
		var sum, diff [4]point
		for j := range sum {
			sum[j], diff[j] = pair(j)
			diff[j] = p.spill(j, diff[j])
		}
		for k, y := range p.transform4(sum[:]) {
			put(k, y)
		}
		for j := range diff {
			diff[j] = p.unspill(j, diff[j])
		}
		for k, y := range p.odd4(diff[:]) {
			put(4+k, y)
		}
	}
}

// backward transforms radix points, each brought by get, and calls put with the results.
func (p *passCode) backward(get func(k int) point, put func(j int, y point)) {
	four := func(first int) []point {
		var x []point
		for k := range 4 {
			x = append(x, get(first+k))
		}
		return p.transform4(x)
	}
	switch p.radix {
	case 3, 5:
		var x []point
		for k := range p.radix {
			x = append(x, get(k))
		}
		f := p.transform3
		if p.radix == 5 {
			f = p.transform5
		}
		for j, y := range f(x) {
			put(j, y)
		}
	case 4:
		for j, y := range four(0) {
			put(j, y)
		}
	case 8:
		odd := four(4)
		for j := range odd {
			odd[j] = p.spill(j, odd[j])
		}
		for j, even := range four(0) {
			a, b := p.join8(j, even, p.unspill(j, odd[j]))
			put(j, a)
			put(4+j, b)
		}
	}
}

func (p *passCode) dif() {
	p.blocks(func() {
		p.forward(p.pair, func(k int, y point) {
			if k > 0 {
				y = p.rotate(y, k)
			}
			p.store(k, y)
		})
	})
}

func (p *passCode) dit() {
	p.blocks(func() {
		p.backward(func(k int) point {
			x := p.load(k)
			if k > 0 {
				x = p.rotate(x, k)
			}
			return x
		}, p.store)
	})
}
