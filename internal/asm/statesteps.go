package main

import (
	"strconv"

	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The steps of states use states as lanes. The instructions of one channel wait for its own results for longer than a
// processor looks ahead, so the instructions of several channels are interleaved.

// stepChannels is the number of channels that are stepped, and whose sums are added up, at a time.
const stepChannels = 4

// stepAhead is how far ahead states are prefetched, in bytes: a processor does not prefetch beyond a page by itself,
// and the states of many sequences are in no cache.
const stepAhead = 4096

// eachChannels writes a loop over the d channels of a step. body computes count of them from channel v on: stepChannels
// as long as there are as many, then 1. Labels begin with name.
func (c vector) eachChannels(body func(name string, v reg.GPVirtual, count int)) {
	v := c.GP64()
	c.XORQ(v, v)
	for _, count := range []int{stepChannels, 1} {
		name, end := "channels"+strconv.Itoa(count), c.GP64()
		c.Label(name)
		c.LEAQ(Mem{Base: v, Disp: count}, end)
		c.branch(end, c.JGT, c.param("d"), name+"_end")
		body(name, v, count)
		c.ADDQ(U8(count), v)
		c.JMP(LabelRef(name))
		c.Label(name + "_end")
	}
}

// sameState returns the index of the same state in count channels of n states each; i is that of the first.
func (c vector) sameState(i, n reg.GPVirtual, count int) []reg.GPVirtual {
	at := []reg.GPVirtual{i}
	for range count - 1 {
		next := c.GP64()
		c.LEAQ(Mem{Base: at[len(at)-1], Index: n, Scale: 1}, next)
		at = append(at, next)
	}
	return at
}

// foldChannels adds up the lanes of each sum, in the order of fold, and leaves the result of channel j in lane j of
// sums[0]. t is scratch.
func (c vector) foldChannels(sums []reg.Register, t reg.Register) {
	if len(sums) == 1 {
		c.fold(c.VADDPS, sums[0], t)
		return
	}
	// halves adds the results of two shuffles of a and b.
	halves := func(shuffle func(...Op), low, high uint64, a, b, to, t reg.Register) {
		shuffle(U8(high), b, a, t)
		shuffle(U8(low), b, a, to)
		c.VADDPS(t, to, to)
	}
	even, odd, s := c.part(sums[0], 0), c.part(sums[1], 0), sums
	if c.lanes == 16 {
		halves(c.VSHUFF64X2, 0x44, 0xee, s[0], s[2], s[0], t)
		halves(c.VSHUFF64X2, 0x44, 0xee, s[1], s[3], s[1], t)
		halves(c.VSHUFF64X2, 0x88, 0xdd, s[0], s[1], s[0], t)
		even, odd, t = c.part(s[0], 1), c.part(s[1], 1), c.part(t, 1)
		c.VEXTRACTF64X4(U8(1), s[0], odd)
	} else {
		parts := func(ops ...Op) { c.VPERM2F128(ops[0], ops[1], ops[2], ops[3]) }
		halves(parts, 0x20, 0x31, s[0], s[2], even, t)
		halves(parts, 0x20, 0x31, s[1], s[3], odd, t)
	}
	halves(c.VSHUFPS, 0x44, 0xee, even, odd, even, t) // of channels 0 and 1, then of 2 and 3
	c.VEXTRACTF128(U8(1), even, c.xmm(odd))
	halves(c.VSHUFPS, 0x88, 0xdd, c.xmm(even), c.xmm(odd), c.xmm(even), c.xmm(t))
}

// channels returns the address of channel v of the array that an argument points to.
func (c vector) channels(arg string, v reg.GPVirtual) Mem { return float(c.arg(arg), v) }

func (c vector) scanStep() {
	c.function("scanStep", "func(d, n int, y, h, a, u, delta, b, c, skip *float32)",
		"computes ScanStep. The sum over the states has one strand for each lane; then halves are added",
		"onto one another.")
	n, h, a, delta, b, cc := c.arg("n"), c.arg("h"), c.arg("a"), c.arg("delta"), c.arg("b"), c.arg("c")
	s := c.span(n)
	// Vectors: the sums, five for each of the interleaved channels, a bound and constants of exp.
	const each = 5
	together := 2
	if c.lanes == 16 {
		together = 4
	}
	of := func(j, i int) reg.Register { return c.vec(stepChannels + each*(j%together) + i) }
	low := of(together-1, each)
	c.set(expLow, low)
	c.holdExp(stepChannels + each*together + 1)
	c.eachChannels(func(name string, v reg.GPVirtual, count int) {
		var sums []reg.Register
		for j := range count {
			sums = append(sums, c.vec(j))
			c.zero(sums[j])
		}
		for first := 0; first < count; first += together {
			some := min(count, first+together) - first
			c.each(name+"_"+strconv.Itoa(first), s, func(i reg.GPVirtual, mask reg.Register) {
				var exps [][]func()
				at := c.sameState(i, n, some)
				for j, i := range at {
					x, t, dt := of(j, 0), of(j, 1), float(delta, v).Offset(4*(first+j))
					c.load(float(a, i), x, mask)
					c.byFloat(dt, x, t)
					c.PREFETCHT0(float(h, i).Offset(stepAhead))
					exps = append(exps, c.expSteps(x, low, nil, []reg.Register{t, of(j, 2), of(j, 3), of(j, 4)}))
				}
				for step := range exps[0] {
					for j := range at {
						exps[j][step]()
					}
				}
				u := c.channels("u", v)
				for j, i := range at {
					x, t, in := of(j, 0), of(j, 1), of(j, 2)
					c.load(float(h, i), t, mask)
					c.VMULPS(x, t, t)
					c.VBROADCASTSS(u.Offset(4*(first+j)), in)
					c.byFloat(float(delta, v).Offset(4*(first+j)), in, x)
					c.load(float(b, at[0]), x, mask)
					c.VFMADD231PS(in, x, t)
					c.store(t, mask, float(h, i))
					c.load(float(cc, at[0]), x, mask)
					c.VFMADD231PS(t, x, sums[first+j])
				}
			})
			for range some {
				c.LEAQ(float(h, n), h)
				c.LEAQ(float(a, n), a)
			}
		}
		t, x := of(0, 0), of(0, 1)
		c.foldChannels(sums, t)
		sum := c.xmm(sums[0])
		if count == 1 {
			c.VMOVSS(c.channels("skip", v), c.xmm(t))
			c.VMOVSS(c.channels("u", v), c.xmm(x))
			c.VFMADD231SS(c.xmm(x), c.xmm(t), sum)
			c.VMOVSS(sum, c.channels("y", v))
			return
		}
		c.VMOVUPS(c.channels("skip", v), c.xmm(t))
		c.VMOVUPS(c.channels("u", v), c.xmm(x))
		c.VFMADD231PS(c.xmm(x), c.xmm(t), sum)
		c.VMOVUPS(sum, c.channels("y", v))
	})
	c.end()
}

// byFloat multiplies v by a float in memory. t is scratch.
func (c vector) byFloat(m Mem, v, t reg.Register) {
	if c.lanes == 16 {
		c.VMULPS_BCST(m, v, v)
		return
	}
	c.VBROADCASTSS(m, t)
	c.VMULPS(t, v, v)
}

func (c vector) ssdStep() {
	c.function("ssdStep", "func(d, n int, y, h, x, b, c *float32, decay float32)",
		"computes SSDStep. The sum over the states has one strand for each lane; then halves are added",
		"onto one another.")
	n, h, x, y, b, cc := c.arg("n"), c.arg("h"), c.arg("x"), c.arg("y"), c.arg("b"), c.arg("c")
	s := c.span(n)
	decay, v := c.vec(3*stepChannels), c.vec(3*stepChannels+1)
	c.VBROADCASTSS(c.param("decay"), decay)
	c.eachChannels(func(name string, channel reg.GPVirtual, count int) {
		var sums, in, t []reg.Register
		for j := range count {
			sums, in, t = append(sums, c.vec(j)), append(in, c.vec(stepChannels+j)), append(t, c.vec(2*stepChannels+j))
			c.zero(sums[j])
			c.VBROADCASTSS(float(x, channel).Offset(4*j), in[j])
		}
		c.each(name, s, func(i reg.GPVirtual, mask reg.Register) {
			at := c.sameState(i, n, count)
			c.load(float(b, i), v, mask)
			for j, i := range at {
				c.load(float(h, i), t[j], mask)
				c.PREFETCHT0(float(h, i).Offset(stepAhead))
				c.VMULPS(decay, t[j], t[j])
				c.VFMADD231PS(in[j], v, t[j])
				c.store(t[j], mask, float(h, i))
			}
			c.load(float(cc, i), v, mask)
			for j := range at {
				c.VFMADD231PS(t[j], v, sums[j])
			}
		})
		c.endChannels(sums, v, float(y, channel), h, n)
	})
	c.end()
}

// endChannels sets y to the folded sums of channels, and moves h past their states of n words. t is scratch.
func (c vector) endChannels(sums []reg.Register, t reg.Register, y Mem, h, n reg.GPVirtual) {
	c.foldChannels(sums, t)
	if len(sums) == 1 {
		c.VMOVSS(c.xmm(sums[0]), y)
	} else {
		c.VMOVUPS(c.xmm(sums[0]), y)
	}
	for range sums {
		c.LEAQ(float(h, n), h)
	}
}

// ssdStepHalves generates SSDStep for words of two bfloat16 numbers. A shift converts one to float32, a mask the other,
// so that the elements of B and C at even indices and those at odd ones are stored separately.
func (c vector) ssdStepHalves() {
	c.function("ssdStepHalves", "func(d, words int, y *float32, h *uint16, x, b, c *float32, decay float32)",
		"computes SSDStepHalves for words numbers at even places and as many at odd ones. The sum over the states has",
		"one strand for each lane; then halves are added onto one another.")
	n, h, x, y, b, cc := c.arg("words"), c.arg("h"), c.arg("x"), c.arg("y"), c.arg("b"), c.arg("c")
	s := c.span(n)
	v := func(i int) reg.Register { return c.vec(stepChannels + i) }
	decay, in, t := v(0), v(1), v(2)
	numbers, bs, cs := []reg.Register{v(3), v(4)}, []reg.Register{v(5), v(6)}, []reg.Register{v(7), v(8)}
	c.VBROADCASTSS(c.param("decay"), decay)
	const upper, half, last = 0xffff0000, 0x7fff, 1
	if c.lanes == 16 {
		c.held = map[uint32]reg.Register{}
		for i, bits := range []uint32{upper, half, last} {
			c.held[bits] = v(9 + i)
			c.VPBROADCASTD(c.word(bits), v(9+i))
		}
	}
	c.eachChannels(func(name string, channel reg.GPVirtual, count int) {
		for j := range count {
			c.zero(c.vec(j))
		}
		c.each(name, s, func(i reg.GPVirtual, mask reg.Register) {
			odd := c.GP64()
			c.LEAQ(Mem{Base: i, Index: n, Scale: 1}, odd)
			for k, at := range []reg.GPVirtual{i, odd} {
				c.load(float(b, at), bs[k], mask)
				c.load(float(cc, at), cs[k], mask)
			}
			for j, i := range c.sameState(i, n, count) {
				c.load(float(h, i), numbers[1], mask)
				c.PREFETCHT0(float(h, i).Offset(stepAhead))
				c.VBROADCASTSS(float(x, channel).Offset(4*j), in)
				c.VPSLLD(U8(16), numbers[1], numbers[0])
				c.withBits(upper, c.VANDPS, c.VANDPS_BCST, numbers[1], numbers[1])
				for k, x := range numbers {
					c.VMULPS(decay, x, x)
					c.VFMADD231PS(in, bs[k], x)
					c.VFMADD231PS(x, cs[k], c.vec(j))
				}
				for _, x := range numbers { // to nearest, ties to even
					c.VPSRLD(U8(16), x, t)
					c.withBits(last, c.VANDPS, c.VANDPS_BCST, t, t)
					c.VPADDD(t, x, x)
					c.withBits(half, c.VPADDD, c.VPADDD_BCST, x, x)
				}
				c.VPSRLD(U8(16), numbers[0], numbers[0])
				c.withBits(upper, c.VANDPS, c.VANDPS_BCST, numbers[1], numbers[1])
				c.VORPS(numbers[0], numbers[1], numbers[1])
				c.store(numbers[1], mask, float(h, i))
			}
		})
		var sums []reg.Register
		for j := range count {
			sums = append(sums, c.vec(j))
		}
		c.endChannels(sums, t, float(y, channel), h, n)
	})
	c.end()
}
