package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The layout of 64 integer rows, keys or values, for products with a few vectors, as in rowtile.go of package kernel.
const (
	tileKeys   = 64           // rows of a tile
	tileSteps  = tileKeys / 4 // steps of sums over rows: 4 terms each
	tileStep   = 4 * tileKeys // bytes of a step of keys: 4 terms of each row
	tileWeight = 2 * tileKeys // bytes of a row of weights: their high digits, then the low ones
	digitBits  = 7            // bits of a low digit of a weight
	digits     = 1<<digitBits - 1
	topWeight  = 1<<(2*digitBits) - 1
)

// tileNames lists the kernels that multiply such rows, or reorder them for that.
var tileNames = []string{"tileKeys", "tileValues", "tileDots", "tileSums"}

// tiles generates the products of tiles of rows with vectors. For vectors of 512 bits and for AVX2 it also generates
// the reordering of rows.
func (c asm) tiles() {
	c.tileDots()
	c.tileSums()
	if c.lanes == 8 && c.vnni {
		return // the order is that for AVX2
	}
	c.orderKeys()
	c.orderValues()
	c.maskTable()
}

// tileCode writes products of a few vectors of x with a tile.
type tileCode struct {
	packedCode
	vecs int  // vectors of sums of a row of x
	dots bool // x is signed and, with VNNI, the tile's bytes are 128 above their values; else x is unsigned
}

// tileRows returns the largest number of rows of x.
func (s isa) tileRows(dots bool) int {
	switch {
	case s.lanes == 16:
		return 6
	case dots:
		return 4
	}
	return 2
}

func (p *tileCode) sum(i, v int) reg.Register { return p.vec(i*p.vecs + v) }

// part returns a register for the words of a step, and spare another one.
func (p *tileCode) part(v int) reg.Register  { return p.vec(p.tileRows(p.dots)*p.vecs + v) }
func (p *tileCode) spare(i int) reg.Register { return p.part(p.vecs + i) }

// each calls f for each vector of sums of each row.
func (p *tileCode) each(f func(i, v int)) {
	for i := range p.rows {
		for v := range p.vecs {
			f(i, v)
		}
	}
}

// ones fills a spare register with 16-bit ones if sums of products need them.
func (p *tileCode) ones() {
	if !p.vnni {
		p.VPCMPEQW(p.spare(2), p.spare(2), p.spare(2))
		p.VPSRLW(U8(15), p.spare(2), p.spare(2))
	}
}

// multiply adds the products of steps. The words of consecutive steps of the tile are bytes apart.
func (p *tileCode) multiply(label string, bytes int) {
	x, t, ones := p.spare(0), p.spare(1), p.spare(2)
	p.loopOver(label, 4, bytes, func() {
		for v := range p.vecs {
			p.VMOVUPS(Mem{Base: p.w, Disp: 4 * p.lanes * v}, p.part(v))
		}
		for i := range p.rows {
			p.VPBROADCASTD(p.term(i, 0), x)
			if p.dots && !p.vnni {
				p.VPABSB(x, p.spare(3))
			}
			for v := range p.vecs {
				switch {
				case p.vnni && p.dots:
					p.dot(x, p.part(v), p.sum(i, v))
				case p.vnni:
					p.dot(p.part(v), x, p.sum(i, v))
				case p.dots: // |x| times the integers with the sign of x: two products fit into 16 bits
					p.VPSIGNB(x, p.part(v), t)
					p.VPMADDUBSW(t, p.spare(3), t)
				default:
					p.VPMADDUBSW(p.part(v), x, t)
				}
				if !p.vnni {
					p.VPMADDWD(ones, t, t)
					p.VPADDD(t, p.sum(i, v), p.sum(i, v))
				}
			}
		}
	})
}

// tileDots computes the products of up to 6 vectors and 64 rows or, for AVX2, of up to 4 vectors and 16 rows at a time.
func (c asm) tileDots() {
	c.function("tileDots",
		"func(m, steps int, x *int8, ldx int, w *uint8, start *int32, factor, scale, y *float32, ldy int)",
		"sets y[i·ldy + j] = (factor[i]·scale[j])·Σ_p x[i·ldx + p]·W[j,p] for i < m, at most 6 in vectors of 512 bits "+
			"and 4 in those of 256, j < 64, and p < 4·steps. The inner sum is exact, and everything else rounded to "+
			"float32. x is -127 at least.",
		"",
		"W[j,p] is w[(p/4)·256 + 4j + p%4] as tileKeys stores it, for VNNI plus 128, which start[i] takes away from the "+
			"sum.")
	c.forRows(c.tileRows(true), func(rows int) {
		p := tileCode{packedCode{asm: c, rows: rows}, 2, true}
		if c.lanes == 16 {
			p.vecs = 4
		}
		label := func(s string) string { return fmt.Sprintf("%s_%d", s, rows) }
		p.operands(0)
		factor, scale, y, ldy, left := p.arg("factor"), p.arg("scale"), p.arg("y"), p.bytes("ldy"), p.GP64()
		from := p.arg("w")
		p.MOVQ(U32(tileKeys/(p.vecs*p.lanes)), left)
		p.ones()
		p.Label(label("columns"))
		start := p.arg("start")
		p.each(func(i, v int) {
			if p.vnni {
				p.VPBROADCASTD(Mem{Base: start, Disp: 4 * i}, p.sum(i, v))
			} else {
				p.zero(p.sum(i, v))
			}
		})
		p.again(0)
		p.MOVQ(from, p.w)
		p.multiply(label("steps"), tileStep)
		at := p.GP64()
		p.MOVQ(y, at)
		for i := range rows {
			p.VBROADCASTSS(Mem{Base: factor, Disp: 4 * i}, p.spare(0))
			for v := range p.vecs {
				p.VCVTDQ2PS(p.sum(i, v), p.sum(i, v))
				p.VMULPS(Mem{Base: scale, Disp: 4 * p.lanes * v}, p.spare(0), p.spare(1))
				p.VMULPS(p.spare(1), p.sum(i, v), p.sum(i, v))
				p.VMOVUPS(p.sum(i, v), Mem{Base: at, Disp: 4 * p.lanes * v})
			}
			if i < rows-1 {
				p.ADDQ(ldy, at)
			}
		}
		for _, next := range []reg.Register{from, scale, y} {
			p.ADDQ(U32(4*p.lanes*p.vecs), next)
		}
		p.countDown(left, label("columns"))
	})
}

// again moves back to byte disp of the vectors of x, and to the first step.
func (p *tileCode) again(disp int) {
	p.Load(p.Param("x"), p.x)
	if disp > 0 {
		p.ADDQ(U8(disp), p.x)
	}
	if p.rows > 4 {
		p.LEAQ(Mem{Base: p.x, Index: p.ldx, Scale: 4}, p.x4)
	}
	p.Load(p.Param("steps"), p.steps)
}

// tileSums computes the sums of 64 columns of a tile, or of 32 for AVX2, weighted by the rows of x.
func (c asm) tileSums() {
	c.function("tileSums",
		"func(m, steps, k int, x, w *uint8, factor, y *float32, ldy int, add bool)",
		"sets y[i·ldy + j] = factor[i]·Σ_t (128·x[128i + t] + x[128i + 64 + t])·V[t,j] for i < m, at most 6 in "+
			"vectors of 512 bits and 2 in those of 256, j < k, a positive multiple of 16, and t < 4·steps, at most 64, "+
			"or adds that to y. The inner sum is exact, and everything else rounded to float32. x is 127 at most, and V "+
			"in w as tileValues "+
			"stores it.")
	c.forRows(c.tileRows(false), func(rows int) {
		p := tileCode{packedCode{asm: c, rows: rows}, 4, false}
		label := func(s string) string { return fmt.Sprintf("%s_%d", s, rows) }
		p.x, p.x4, p.ldx, p.ldx3, p.w, p.steps = p.GP64(), p.GP64(), p.GP64(), p.GP64(), p.GP64(), p.GP64()
		p.MOVQ(U32(tileWeight), p.ldx)
		p.MOVQ(U32(3*tileWeight), p.ldx3)
		factor, y, ldy, left, from := p.arg("factor"), p.arg("y"), p.bytes("ldy"), p.arg("k"), p.arg("w")
		p.ones()
		p.Label(label("columns"))
		p.each(func(i, v int) { p.zero(p.sum(i, v)) })
		p.again(0)
		p.MOVQ(from, p.w)
		p.multiply(label("high"), 16*p.lanes)
		p.each(func(i, v int) { p.VPSLLD(U8(digitBits), p.sum(i, v), p.sum(i, v)) })
		p.again(tileKeys)
		p.MOVQ(from, p.w)
		p.multiply(label("low"), 16*p.lanes)
		at := p.GP64()
		p.MOVQ(y, at)
		for i := range rows {
			p.inOrder(i)
			p.VBROADCASTSS(Mem{Base: factor, Disp: 4 * i}, p.spare(0))
			stored := label(fmt.Sprintf("stored%d", i))
			for v := range p.vecs {
				if column := v * p.lanes; column > 0 && column%16 == 0 {
					p.branch(left, p.JLE, U8(column), stored)
				}
				to, sum := Mem{Base: at, Disp: 4 * p.lanes * v}, p.sum(i, v)
				p.VCVTDQ2PS(sum, sum)
				p.VMULPS(p.spare(0), sum, sum)
				set := label(fmt.Sprintf("set%d_%d", i, v))
				p.CMPB(p.param("add"), U8(0))
				p.JE(LabelRef(set))
				p.VADDPS(to, sum, sum)
				p.Label(set)
				p.VMOVUPS(sum, to)
			}
			p.Label(stored)
			if i < rows-1 {
				p.ADDQ(ldy, at)
			}
		}
		p.ADDQ(U32(tileSteps*16*p.lanes), from)
		p.ADDQ(U32(16*p.lanes), y)
		p.subtract(left, U8(4*p.lanes), p.JG, label("columns"))
	})
}

// inOrder puts the sums of row i in column order: quarter l of vector v has columns 16l + 4v to 16l + 4v + 3.
func (p *tileCode) inOrder(i int) {
	s := func(v int) reg.Register { return p.sum(i, v) }
	t := func(v int) reg.Register { return p.part(v) }
	if p.lanes == 8 {
		for v := range 4 {
			p.VMOVAPS(s(v), t(v))
		}
		for v := range 2 {
			p.VPERM2F128(U8(0x20), t(2*v+1), t(2*v), s(v))
			p.VPERM2F128(U8(0x31), t(2*v+1), t(2*v), s(2+v))
		}
		return
	}
	p.VSHUFF32X4(U8(0x44), s(1), s(0), t(0))
	p.VSHUFF32X4(U8(0xee), s(1), s(0), t(1))
	p.VSHUFF32X4(U8(0x44), s(3), s(2), t(2))
	p.VSHUFF32X4(U8(0xee), s(3), s(2), t(3))
	p.VSHUFF32X4(U8(0x88), t(2), t(0), s(0))
	p.VSHUFF32X4(U8(0xdd), t(2), t(0), s(1))
	p.VSHUFF32X4(U8(0x88), t(3), t(1), s(2))
	p.VSHUFF32X4(U8(0xdd), t(3), t(1), s(3))
}

// orderKeys transposes words of 4 bytes.
func (c asm) orderKeys() {
	c.function("tileKeys", "func(groups, k int, w *int8, flip uint32, to *uint8, ahead *int8, half bool)",
		"sets byte b of word to[p·256 + 4j] to w[j·k + 4p + b], for j < 16·groups, at least 1 and at most 64, p < k/4 "+
			"and b < 4, and changes the bits of each word that are set in flip. k is a positive multiple of 16. Meanwhile "+
			"it fetches as many bytes from ahead on, or half as many.")
	s := square{asm: c, rows: 0, spare: c.lanes}
	flip := c.vec(24)
	if c.lanes == 8 {
		flip = c.vec(10)
	}
	c.VBROADCASTSS(c.param("flip"), flip)
	groups, k, first, to := c.arg("groups"), c.arg("k"), c.arg("w"), c.arg("to")
	if c.lanes == 8 {
		c.SHLQ(U8(1), groups)
	}
	k3, next := c.GP64(), c.GP64()
	c.LEAQ(Mem{Base: k, Index: k, Scale: 2}, k3)
	base := make([]reg.GPVirtual, c.lanes/4)
	for i := range base {
		base[i] = c.GP64()
	}
	at, left, ahead := c.GP64(), c.GP64(), c.arg("ahead")
	c.Label("rows")
	for i, b := range base {
		if i == 0 {
			c.MOVQ(first, b)
		} else {
			c.LEAQ(Mem{Base: base[i-1], Index: k, Scale: 4}, b)
		}
	}
	c.LEAQ(Mem{Base: base[len(base)-1], Index: k, Scale: 4}, next)
	c.MOVQ(to, at)
	c.MOVQ(k, left)
	c.SHRQ(U8(2), left)
	columns := func(mask reg.Register) {
		masked := "whole"
		if mask != nil {
			masked = "masked"
		}
		c.fetchLines(ahead, 4*c.lanes*c.lanes, masked)
		s.load(func(i int) Mem { return stride(base[i/4], k, k3, i%4) }, mask)
		for q := range s.quarters() {
			if mask != nil && q > 0 {
				c.branch(left, c.JLE, U8(4*q), "next")
			}
			for e, v := range s.columns(q) {
				if c.lanes == 16 {
					c.VPXORD(flip, v, v)
				} else {
					c.VXORPS(flip, v, v)
				}
				c.VMOVUPS(v, Mem{Base: at, Disp: tileStep * (4*q + e)})
			}
		}
	}
	c.Label("words")
	c.branch(left, c.JLT, U8(c.lanes), "few")
	columns(nil)
	for _, b := range base {
		c.ADDQ(U8(4*c.lanes), b)
	}
	c.ADDQ(U32(tileStep*c.lanes), at)
	c.subtract(left, U8(c.lanes), c.JNZ, "words")
	c.JMP(LabelRef("next"))
	c.Label("few")
	n := c.GP64()
	c.MOVQ(left, n)
	columns(c.mask(n))
	c.Label("next")
	c.MOVQ(next, first)
	c.ADDQ(U8(4*c.lanes), to)
	c.countDown(groups, "rows")
	c.end()
}

// fetchLines prefetches the cache lines of the next bytes, or of half as many.
func (c asm) fetchLines(ahead reg.Register, bytes int, label string) {
	half := func() {
		for at := 0; at < bytes/2; at += 64 {
			c.PREFETCHT0(Mem{Base: ahead, Disp: at})
		}
		c.ADDQ(U32(bytes/2), ahead)
	}
	half()
	c.CMPB(c.param("half"), U8(0))
	c.JNE(LabelRef(label + "half"))
	half()
	c.Label(label + "half")
}

// orderValues puts the bytes of 4 rows side by side.
func (c asm) orderValues() {
	c.function("tileValues", "func(steps, k int, w *int8, to *uint8, ahead *int8, half bool)",
		"puts 4·steps rows of w, which are k bytes apart, in the order of tileSums: for each 64 columns, or 32 in vectors "+
			"of 256 bits, 16 steps of 4 vectors, of which vector v of step t has in quarter l bytes of rows 4t to 4t+3 of "+
			"columns 16l + 4v to 16l + 4v + 3. steps is at least 1 and at most 16, and k a positive multiple of 16. Columns "+
			"from k on become zero. "+
			"Meanwhile it fetches as many bytes from ahead on, or half as many.")
	k, first, to, left := c.arg("k"), c.arg("w"), c.arg("to"), c.GP64()
	k3, from, at, steps, n, ahead := c.GP64(), c.GP64(), c.GP64(), c.GP64(), c.GP64(), c.arg("ahead")
	c.LEAQ(Mem{Base: k, Index: k, Scale: 2}, k3)
	c.MOVQ(k, left)
	c.SHRQ(U8(2), left)
	rows := func(label string, mask reg.Register) {
		c.Label(label)
		c.fetchLines(ahead, 16*c.lanes, label)
		for i := range 4 {
			c.load(stride(from, k, k3, i), c.vec(i), mask)
		}
		a, b, t := c.vec(0), c.vec(2), c.vec(4)
		c.VPUNPCKLBW(c.vec(1), a, t)
		c.VPUNPCKHBW(c.vec(1), a, a)
		c.VPUNPCKLBW(c.vec(3), b, c.vec(5))
		c.VPUNPCKHBW(c.vec(3), b, b)
		c.VPUNPCKLWD(c.vec(5), t, c.vec(6))
		c.VPUNPCKHWD(c.vec(5), t, c.vec(7))
		c.VPUNPCKLWD(b, a, c.vec(8))
		c.VPUNPCKHWD(b, a, c.vec(9))
		for v := range 4 {
			c.VMOVUPS(c.vec(6+v), Mem{Base: at, Disp: 4 * c.lanes * v})
		}
		c.LEAQ(Mem{Base: from, Index: k, Scale: 4}, from)
		c.ADDQ(U32(16*c.lanes), at)
		c.countDown(steps, label)
	}
	c.Label("columns")
	c.MOVQ(first, from)
	c.MOVQ(to, at)
	c.Load(c.Param("steps"), steps)
	c.branch(left, c.JLT, U8(c.lanes), "few")
	rows("whole", nil)
	c.ADDQ(U8(4*c.lanes), first)
	c.ADDQ(U32(tileSteps*16*c.lanes), to)
	c.subtract(left, U8(c.lanes), c.JNZ, "columns")
	c.JMP(LabelRef("end"))
	c.Label("few")
	c.MOVQ(left, n)
	rows("part", c.mask(n))
	c.Label("end")
	c.end()
}

// quarters writes the permutation that reorders 4 words of each of 4 vectors from quarter by quarter to vector by
// vector.
func (c vector) quarters() {
	c.data("quarters")
	for i := range 16 {
		c.AddDatum(4*i, U32(4*(i%4)+i/4))
	}
}

// tileWeights rounds weights to two digits.
func (c vector) tileWeights() {
	c.function("tileWeights", "func(m int, p *float32, ldp int, scale *float32, to *uint8, factor *float32)",
		"rounds w[i,t] = p[i·ldp + t]·scale[t], which are not negative, for i < m, at least 1, and t < 64, to integers: "+
			"w·(16383/top) to the nearest, the even one of two, where top is the largest w[i,t]. It writes their upper 7 "+
			"bits to to[128i + t], the lower 7 to to[128i + 64 + t], and top/16383 to factor[i]. If 16383/top is not "+
			"finite, integers "+
			"and factor are 0; if a number is not, integers are 0 and the factor is NaN.")
	m, x, ldp, scale, to, factor := c.arg("m"), c.arg("p"), c.bytes("ldp"), c.arg("scale"), c.arg("to"), c.arg("factor")
	vecs := tileKeys / c.lanes
	f := fitCode{c.xmm(c.vec(10)), c.vec(11), c.vec(12), c.xmm(c.vec(13)), c.xmm(c.vec(14))}
	most := c.vec(8)
	and := func(a, b, to Op) { c.VPAND(a, b, to) }
	if c.lanes == 16 {
		and = func(a, b, to Op) { c.VPANDD(a, b, to) }
	}
	var order reg.Register
	if c.lanes == 16 {
		order = c.vec(16)
		c.VMOVUPS(NewDataAddr(NewStaticSymbol("quarters"), 0), order)
	}
	c.VBROADCASTSS(c.word(digits<<16|digits), c.vec(9))
	c.Label("rows")
	for i := range vecs {
		c.VMOVUPS(Mem{Base: x, Disp: 4 * c.lanes * i}, c.vec(i))
		c.VMULPS(Mem{Base: scale, Disp: 4 * c.lanes * i}, c.vec(i), c.vec(i))
		if i == 1 {
			c.VPMAXUD(c.vec(0), c.vec(1), most)
		} else if i > 1 {
			c.VPMAXUD(c.vec(i), most, most)
		}
	}
	c.across(most, c.VPMAXUD)
	c.fit(topWeight, most, f)
	c.VMOVSS(f.factor, Mem{Base: factor})
	for i := range vecs {
		c.VMULPS(f.inverse, c.vec(i), c.vec(i))
		c.VCVTPS2DQ(c.vec(i), c.vec(i))
		and(f.ok, c.vec(i), c.vec(i))
	}
	if c.lanes == 16 {
		words := []reg.Register{c.vec(0), c.vec(2)}
		for i, v := range words {
			c.VPACKUSDW(c.vec(2*i+1), v, v)
		}
		for place, digit := range []func(words, to reg.Register){
			func(words, to reg.Register) { c.VPSRLW(U8(digitBits), words, to) },
			func(words, to reg.Register) { c.VPANDD(c.vec(9), words, to) },
		} {
			for i, v := range words {
				digit(v, c.vec(4+i))
			}
			c.VPACKUSWB(c.vec(5), c.vec(4), c.vec(4)) // in quarter l, 4 of each vector
			c.VPERMD(c.vec(4), order, c.vec(4))
			c.VMOVUPS(c.vec(4), Mem{Base: to, Disp: tileKeys * place})
		}
	} else {
		low := func(v reg.Register) reg.Register { return c.part(v, 1) }
		for i := 0; i < vecs; i += 2 {
			words, high, digit := c.vec(i), c.vec(8), c.vec(i+1)
			c.VPACKSSDW(c.vec(i+1), words, words) // 0 to 3, 8 to 11, 4 to 7, 12 to 15
			c.VPERMQ(U8(0xd8), words, words)
			for place, pick := range []func(){
				func() { c.VPSRLW(U8(digitBits), words, digit) },
				func() { c.VPAND(c.vec(9), words, digit) },
			} {
				pick()
				c.VEXTRACTI128(U8(1), digit, low(high))
				c.VPACKUSWB(low(high), low(digit), low(digit))
				c.VMOVUPS(low(digit), Mem{Base: to, Disp: tileKeys*place + 8*i})
			}
		}
	}
	c.ADDQ(ldp, x)
	c.ADDQ(U32(tileWeight), to)
	c.ADDQ(U8(4), factor)
	c.countDown(m, "rows")
	c.end()
}
