package main

import (
	"fmt"
	"math"
)

// armOp is a vector instruction: its mnemonic, the shapes of its operands, and its word without registers.
type armOp struct {
	name    string
	d, n, m string // empty if there is no such operand
	word    uint32
}

// Instructions whose operands are whole registers.
var (
	fmlaV   = armOp{"fmla", "4s", "4s", "4s", 0x4e20cc00}
	fmlsV   = armOp{"fmls", "4s", "4s", "4s", 0x4ea0cc00}
	fmulV   = armOp{"fmul", "4s", "4s", "4s", 0x6e20dc00}
	faddV   = armOp{"fadd", "4s", "4s", "4s", 0x4e20d400}
	fsubV   = armOp{"fsub", "4s", "4s", "4s", 0x4ea0d400}
	fdivV   = armOp{"fdiv", "4s", "4s", "4s", 0x6e20fc00}
	fmaxV   = armOp{"fmax", "4s", "4s", "4s", 0x4e20f400}
	fminV   = armOp{"fmin", "4s", "4s", "4s", 0x4ea0f400}
	faddpV  = armOp{"faddp", "4s", "4s", "4s", 0x6e20d400}
	addV    = armOp{"add", "4s", "4s", "4s", 0x4ea08400}
	andV    = armOp{"and", "16b", "16b", "16b", 0x4e201c00}
	eorV    = armOp{"eor", "16b", "16b", "16b", 0x6e201c00}
	orrV    = armOp{"orr", "16b", "16b", "16b", 0x4ea01c00}
	zip1V   = armOp{"zip1", "4s", "4s", "4s", 0x4e803800}
	zip2V   = armOp{"zip2", "4s", "4s", "4s", 0x4e807800}
	zip1B   = armOp{"zip1", "16b", "16b", "16b", 0x4e003800}
	zip2B   = armOp{"zip2", "16b", "16b", "16b", 0x4e007800}
	zip1H   = armOp{"zip1", "8h", "8h", "8h", 0x4e403800}
	zip2H   = armOp{"zip2", "8h", "8h", "8h", 0x4e407800}
	sdotV   = armOp{"sdot", "4s", "16b", "16b", 0x4e809400}
	zip1D   = armOp{"zip1", "2d", "2d", "2d", 0x4ec03800}
	zip2D   = armOp{"zip2", "2d", "2d", "2d", 0x4ec07800}
	scvtfV  = armOp{"scvtf", "4s", "4s", "", 0x4e21d800}
	fcvtlV  = armOp{"fcvtl", "4s", "4h", "", 0x0e217800}
	fnegV   = armOp{"fneg", "4s", "4s", "", 0x6ea0f800}
	fabsV   = armOp{"fabs", "4s", "4s", "", 0x4ea0f800}
	umaxV   = armOp{"umax", "4s", "4s", "4s", 0x6ea06400}
	fcvtlD  = armOp{"fcvtl", "2d", "2s", "", 0x0e617800}
	fcvtl2D = armOp{"fcvtl2", "2d", "4s", "", 0x4e617800}
	faddD   = armOp{"fadd", "2d", "2d", "2d", 0x4e60d400}
	fmlaD   = armOp{"fmla", "2d", "2d", "2d", 0x4e60cc00}
	fsubD   = armOp{"fsub", "2d", "2d", "2d", 0x4ee0d400}
	fdivD   = armOp{"fdiv", "2d", "2d", "2d", 0x6e60fc00}
	fmlsD   = armOp{"fmls", "2d", "2d", "2d", 0x4ee0cc00}
	fsqrtD  = armOp{"fsqrt", "2d", "2d", "", 0x6ee1f800}
	fsqrtV  = armOp{"fsqrt", "4s", "4s", "", 0x6ea1f800}
	fcvtnD  = armOp{"fcvtn", "2s", "2d", "", 0x0e616800}
	rev64V  = armOp{"rev64", "4s", "4s", "", 0x4ea00800}
	trn1V   = armOp{"trn1", "4s", "4s", "4s", 0x4e802800}
	trn2V   = armOp{"trn2", "4s", "4s", "4s", 0x4e806800}
	fcvtnsV = armOp{"fcvtns", "4s", "4s", "", 0x4e21a800}
	bitV    = armOp{"bit", "16b", "16b", "16b", 0x6ea01c00}
	uminV   = armOp{"umin", "4s", "4s", "4s", 0x6ea06c00}
	cmhsV   = armOp{"cmhs", "4s", "4s", "4s", 0x6ea03c00}
	fcmgtV  = armOp{"fcmgt", "4s", "4s", "4s", 0x6ea0e400}
	fcmgeV  = armOp{"fcmge", "4s", "4s", "4s", 0x6e20e400}
	mulV    = armOp{"mul", "4s", "4s", "4s", 0x4ea09c00}
	uzp1H   = armOp{"uzp1", "8h", "8h", "8h", 0x4e401800}
	uzp1B   = armOp{"uzp1", "16b", "16b", "16b", 0x4e001800}
)

// Instructions that widen: bfloat16 is the upper half of a float32.
var (
	shllV  = armOp{"shll", "4s", "4h", "#16", 0x2e613800}
	shll2V = armOp{"shll2", "4s", "8h", "#16", 0x6e613800}
	sxtlB  = armOp{"sxtl", "8h", "8b", "", 0x0f08a400}
	sxtl2B = armOp{"sxtl2", "8h", "16b", "", 0x4f08a400}
	sxtlH  = armOp{"sxtl", "4s", "4h", "", 0x0f10a400}
	sxtl2H = armOp{"sxtl2", "4s", "8h", "", 0x4f10a400}
)

// Instructions whose last operand is a 32-bit element of a register.
var (
	fmlaE  = armOp{"fmla", "4s", "4s", "s", 0x4f801000}
	fmlsE  = armOp{"fmls", "4s", "4s", "s", 0x4f805000}
	fmulE  = armOp{"fmul", "4s", "4s", "s", 0x4f809000}
	sdotE  = armOp{"sdot", "4s", "16b", "4b", 0x4f80e000}
	usdotE = armOp{"usdot", "4s", "16b", "4b", 0x4f80f000}
)

// shape returns the register in some shape, in Arm's syntax.
func (v vreg) shape(s string) string { return fmt.Sprintf("v%d.%s", int(v), s) }

// word writes an instruction as its word.
func (c *neon) word(word uint32, format string, a ...any) {
	arm := fmt.Sprintf(format, a...)
	c.both(fmt.Sprintf("WORD $0x%08x // %s", word, arm), arm)
}

// v writes an instruction of two operands, or of three with m.
func (c *neon) v(i armOp, d, n vreg, m ...vreg) {
	word := i.word | uint32(n)<<5 | uint32(d)
	if len(m) == 0 {
		constant := "" // the third operand
		if i.m != "" {
			constant = ", " + i.m
		}
		c.word(word, "%s %s, %s%s", i.name, d.shape(i.d), n.shape(i.n), constant)
		return
	}
	c.word(word|uint32(m[0])<<16, "%s %s, %s, %s", i.name, d.shape(i.d), n.shape(i.n), m[0].shape(i.m))
}

// e writes an instruction with element at of m.
func (c *neon) e(i armOp, d, n, m vreg, at int) {
	c.word(i.word|uint32(at&1)<<21|uint32(at>>1)<<11|uint32(m)<<16|uint32(n)<<5|uint32(d),
		"%s %s, %s, %s[%d]", i.name, d.shape(i.d), n.shape(i.n), m.shape(i.m), at)
}

// acrossMax sets the first element of d to the largest element of n as unsigned integers, acrossSum to their sum.
func (c *neon) acrossMax(d, n vreg) {
	c.word(0x6eb0a800|uint32(n)<<5|uint32(d), "umaxv s%d, %s", int(d), n.shape("4s"))
}
func (c *neon) acrossSum(d, n vreg) {
	c.word(0x4eb1b800|uint32(n)<<5|uint32(d), "addv s%d, %s", int(d), n.shape("4s"))
}

// bits sets all elements of d to a constant. x is scratch.
func (c *neon) bits(d vreg, word uint32, x xreg) {
	c.set(x, int(word))
	c.dupX(d, x)
}

// float does the same as bits for the constant v rounded to float32.
func (c *neon) float(d vreg, v float64, x xreg) { c.bits(d, math.Float32bits(float32(v)), x) }

// keepFew clears the elements of v except the first n%4, which is 1 to 3. t is scratch.
func (c *neon) keepFew(v vreg, n xreg, t vreg) {
	c.copyV(t, v)
	c.few(n, func() {
		c.word(0x1e604000|uint32(v)<<5|uint32(v), "fmov d%d, d%[1]d", int(v))
	}, func() {
		c.word(0x6e144400|uint32(t)<<5|uint32(v), "mov %s[2], %s[2]", v.shape("s"), t.shape("s"))
	}, func() {
		c.word(0x1e204000|uint32(v)<<5|uint32(v), "fmov s%d, s%[1]d", int(v))
	})
}

// foldD adds the two float64 of n into the first element of d. fold combines the 4 float32 of v into the first element
// of v with an instruction, halves onto halves. t is scratch.
func (c *neon) foldD(d, n vreg) {
	c.word(0x7e70d800|uint32(n)<<5|uint32(d), "faddp d%d, %s", int(d), n.shape("2d"))
}
func (c *neon) fold(join armOp, v, t vreg) {
	c.v(zip2D, t, v, v)
	c.v(join, v, v, t)
	c.dup(t, v, 1)
	c.v(join, v, v, t)
}

// ushr shifts 32-bit elements to the right.
func (c *neon) ushr(d, n vreg, shift int) {
	c.word(0x6f000400|uint32(64-shift)<<16|uint32(n)<<5|uint32(d), "ushr %s, %s, #%d", d.shape("4s"),
		n.shape("4s"), shift)
}

// ifNegative replaces the elements of y by those of a where x has its sign bit set. t is scratch.
func (c *neon) ifNegative(x, a, y, t vreg) {
	c.word(0x4f000400|uint32(64-31)<<16|uint32(x)<<5|uint32(t), "sshr %s, %s, #31", t.shape("4s"), x.shape("4s"))
	c.v(bitV, y, a, t)
}

// zero clears a register.
func (c *neon) zero(d vreg) { c.bytesOf(d, 0) }

// bytesOf sets all bytes of a register to b.
func (c *neon) bytesOf(d vreg, b uint8) {
	c.word(0x4f00e400|uint32(b>>5)<<16|uint32(b&31)<<5|uint32(d), "movi %s, #%d", d.shape("16b"), b)
}

// copyV sets d to n.
func (c *neon) copyV(d, n vreg) {
	c.word(orrV.word|uint32(n)<<16|uint32(n)<<5|uint32(d), "mov %s, %s", d.shape("16b"), n.shape("16b"))
}

// dup sets all elements of d to element at of n.
func (c *neon) dup(d, n vreg, at int) {
	c.word(0x4e040400|uint32(at)<<19|uint32(n)<<5|uint32(d), "dup %s, %s[%d]", d.shape("4s"), n.shape("s"), at)
}

// ext sets d to the 16 bytes from byte at on of n followed by m.
func (c *neon) ext(d, n, m vreg, at int) {
	c.word(0x6e000000|uint32(m)<<16|uint32(at)<<11|uint32(n)<<5|uint32(d), "ext %s, %s, %s, #%d", d.shape("16b"),
		n.shape("16b"), m.shape("16b"), at)
}

// insert sets element at of d to the low 32 bits of n.
func (c *neon) insert(d vreg, at int, n xreg) {
	c.word(0x4e041c00|uint32(at)<<19|uint32(n)<<5|uint32(d), "mov %s[%d], w%d", d.shape("s"), at, int(n))
}

// double sets the first float64 of d to the integer n, and oneD to 1.
func (c *neon) double(d vreg, n xreg) {
	c.word(0x9e620000|uint32(n)<<5|uint32(d), "scvtf d%d, %s", int(d), n.arm())
}
func (c *neon) oneD(d vreg) { c.word(0x1e6e1000|uint32(d), "fmov d%d, #1.0", int(d)) }

// dupX sets all elements of d to the low 32 bits of n.
func (c *neon) dupX(d vreg, n xreg) {
	c.word(0x4e040c00|uint32(n)<<5|uint32(d), "dup %s, w%d", d.shape("4s"), int(n))
}

// ushrBytes shifts bytes to the right, shl shifts 32-bit elements to the left.
func (c *neon) ushrBytes(d, n vreg, shift int) {
	c.word(0x6f000400|uint32(16-shift)<<16|uint32(n)<<5|uint32(d), "ushr %s, %s, #%d", d.shape("16b"),
		n.shape("16b"), shift)
}
func (c *neon) shl(d, n vreg, shift int) {
	c.word(0x4f005400|uint32(32+shift)<<16|uint32(n)<<5|uint32(d), "shl %s, %s, #%d", d.shape("4s"), n.shape("4s"), shift)
}

// part is the part of a register that is loaded or stored.
type part struct {
	name        string
	bytes       int
	load, store uint32 // with an offset that counts such parts
}

var (
	whole = part{"q", 16, 0x3dc00000, 0x3d800000}
	twoFs = part{"d", 8, 0xfd400000, 0xfd000000}
	oneF  = part{"s", 4, 0xbd400000, 0xbd000000}
)

func (c *neon) access(what string, word uint32, p part, v vreg, n xreg, disp int) {
	if disp%p.bytes != 0 || disp < 0 || disp/p.bytes >= 1<<12 {
		panic(fmt.Sprintf("%d bytes cannot be an offset of %s%s", disp, what, p.name))
	}
	c.word(word|uint32(disp/p.bytes)<<10|uint32(n)<<5|uint32(v), "%s %s%d, [%s, #%d]", what, p.name,
		int(v), n.arm(), disp)
}

// load reads part of a register from n + disp and clears the rest. store writes the part.
func (c *neon) load(p part, v vreg, n xreg, disp int)  { c.access("ldr", p.load, p, v, n, disp) }
func (c *neon) store(p part, v vreg, n xreg, disp int) { c.access("str", p.store, p, v, n, disp) }

// loadAt reads a register from n + m, and storeAt writes it.
func (c *neon) loadAt(v vreg, n, m xreg)  { c.indexed("ldr", 0x3ce06800, v, n, m) }
func (c *neon) storeAt(v vreg, n, m xreg) { c.indexed("str", 0x3ca06800, v, n, m) }
func (c *neon) indexed(what string, word uint32, v vreg, n, m xreg) {
	c.word(word|uint32(m)<<16|uint32(n)<<5|uint32(v), "%s q%d, [%s, %s]", what, int(v), n.arm(), m.arm())
}

// loadPair and storePair read and write two registers; disp is below 1024.
func (c *neon) loadPair(v, w vreg, n xreg, disp int)  { c.pair("ldp", 0xad400000, v, w, n, disp) }
func (c *neon) storePair(v, w vreg, n xreg, disp int) { c.pair("stp", 0xad000000, v, w, n, disp) }
func (c *neon) pair(what string, word uint32, v, w vreg, n xreg, disp int) {
	if disp%16 != 0 || disp < -1024 || disp > 1008 {
		panic(fmt.Sprintf("%d bytes cannot be an offset of %s", disp, what))
	}
	c.word(word|uint32(disp/16)&127<<15|uint32(w)<<10|uint32(n)<<5|uint32(v), "%s q%d, q%d, [%s, #%d]", what,
		int(v), int(w), n.arm(), disp)
}

// loadLane reads the 32-bit element at of v from n. storeLane writes it.
func (c *neon) loadLane(v vreg, at int, n xreg)  { c.lane("ld1", 0x0d408000, v, at, n) }
func (c *neon) storeLane(v vreg, at int, n xreg) { c.lane("st1", 0x0d008000, v, at, n) }
func (c *neon) lane(what string, word uint32, v vreg, at int, n xreg) {
	c.word(word|uint32(at>>1)<<30|uint32(at&1)<<12|uint32(n)<<5|uint32(v), "%s { %s }[%d], [%s]", what, v.shape("s"), at,
		n.arm())
}

// broadcast sets all elements of v to the 32 bits at n.
func (c *neon) broadcast(v vreg, n xreg) {
	c.word(0x4d40c800|uint32(n)<<5|uint32(v), "ld1r { %s }, [%s]", v.shape("4s"), n.arm())
}

// broadcastNext does the same as broadcast and adds 4 to n.
func (c *neon) broadcastNext(v vreg, n xreg) {
	c.word(0x4ddfc800|uint32(n)<<5|uint32(v), "ld1r { %s }, [%s], #4", v.shape("4s"), n.arm())
}

// loadNext reads part of a register from n, and adds its size to n.
func (c *neon) loadNext(p part, v vreg, n xreg) {
	word := map[int]uint32{16: 0x3cc00400, 8: 0xfc400400, 4: 0xbc400400}[p.bytes]
	c.word(word|uint32(p.bytes)<<12|uint32(n)<<5|uint32(v), "ldr %s%d, [%s], #%d", p.name, int(v), n.arm(), p.bytes)
}

// loadFew reads the first n%4 floats, which is 1 to 3, from at, and storeFew writes them. t is scratch.
func (c *neon) loadFew(v vreg, n, at, t xreg) {
	c.few(n, func() {
		c.load(twoFs, v, at, 0)
	}, func() {
		c.addImm(t, at, 8)
		c.loadLane(v, 2, t)
	}, func() {
		c.load(oneF, v, at, 0)
	})
}
func (c *neon) storeFew(v vreg, n, at, t xreg) {
	c.few(n, func() {
		c.store(twoFs, v, at, 0)
	}, func() {
		c.addImm(t, at, 8)
		c.storeLane(v, 2, t)
	}, func() {
		c.store(oneF, v, at, 0)
	})
}

// few runs two if n%4 is 2 or 3, then third if it is 3, and one if it is 1.
func (c *neon) few(n xreg, two, third, one func()) {
	single, done := c.fresh("single"), c.fresh("done")
	c.ifClear(n, 1, single)
	two()
	c.ifClear(n, 0, done)
	third()
	c.jump(done)
	c.label(single)
	one()
	c.label(done)
}
