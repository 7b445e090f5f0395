package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mmcloughlin/avo/gotypes"
)

// The code for arm64 is written by the few functions of this file and of neon_instructions.go, since avo supports amd64
// only. The code for amd64 has already declared each kernel's signature and contract, so neon.function needs only its
// name.
//
// Go's assembler lacks most vector instructions. They are written as words, followed by a comment in Arm's own syntax:
// a test compares the two with LLVM's assembler. Other instructions are written in Go's syntax, and also kept in Arm's
// for llvm-mca, see bounds.go.

// The instruction sets of arm64. As on amd64, the end of a kernel's name tells which instructions it may use.
var (
	neonISA = isa{name: "NEON", lanes: 4}    // Advanced SIMD, which every arm64 has
	dotISA  = isa{name: "DOTPROD", lanes: 4} // and SDOT
	i8mmISA = isa{name: "I8MM", lanes: 4}    // and USDOT
)

// armByAge is byAge for arm64.
var armByAge = []isa{i8mmISA, dotISA, neonISA}

// xreg is a register for integers and pointers, vreg a vector register.
type (
	xreg int
	vreg int
)

// String returns the register's name in Go's syntax.
func (r xreg) String() string { return fmt.Sprintf("R%d", int(r)) }

// arm returns the register's name in Arm's syntax.
func (r xreg) arm() string { return fmt.Sprintf("x%d", int(r)) }

// mostX is the first register that kernels may not use: 18 is the system's, 26 and 27 the linker's and the assembler's,
// the rest Go's.
const mostX = 26

// line is an instruction or a label in both syntaxes. arm is empty if llvm-mca does not need it.
type line struct{ code, arm string }

// armFile is the code of a file for arm64, and armFunction that of a function.
type (
	armFile struct {
		name      string
		functions []*armFunction
		kernels   kernels
	}
	armFunction struct {
		kernel *kernel
		isa    isa
		lines  []line
		loops  []armLoop
	}
	// armLoop is an inner loop, lines from first to last. Its bound is computed unless it has no name. It does the
	// given number of multiply-adds or elements, and reads the given number of bytes from memory.
	armLoop struct {
		name         string
		first, last  int
		work         int
		unit         string
		bytes        int
		instructions []string // those by which the processor's units bound the loop: products
	}
)

// neon writes the code of a function for arm64.
type neon struct {
	isa
	file *armFile
	f    *armFunction
	sig  *gotypes.Signature
	next xreg
	used int // number of numbered labels
}

// function begins the code of the kernel for the instruction set.
func (file *armFile) function(name string, s isa) *neon {
	k := file.kernels.find(name)
	if k == nil {
		panic("no code for amd64 has declared " + name)
	}
	sig, err := gotypes.ParseSignature("func" + k.signature)
	if err != nil {
		panic(err)
	}
	f := &armFunction{kernel: k, isa: s}
	file.functions = append(file.functions, f)
	k.arms = append(k.arms, s)
	slices.SortFunc(k.arms, func(a, b isa) int { return slices.Index(armByAge, a) - slices.Index(armByAge, b) })
	return &neon{isa: s, file: file, f: f, sig: sig}
}

// text returns the file in Go's syntax.
func (file *armFile) text() string {
	var w strings.Builder
	w.WriteString(dispatchHead + "#include \"textflag.h\"\n")
	for _, f := range file.functions {
		fmt.Fprintf(&w, "\n// func %s%s%s\nTEXT ·%[1]s%[2]s(SB), NOSPLIT, $0-%[4]d\n", f.kernel.name, f.isa.name,
			f.kernel.signature, f.kernel.arguments)
		for _, l := range f.lines {
			if l.code != "" {
				w.WriteString(l.code + "\n")
			}
		}
	}
	return w.String()
}

// stubs returns the declarations of the file's functions.
func (file *armFile) stubs() string {
	var w strings.Builder
	w.WriteString(dispatchHead + "package kernel\n")
	for _, f := range file.functions {
		fmt.Fprintf(&w, "\n//go:noescape\nfunc %s%s%s\n", f.kernel.name, f.isa.name, f.kernel.signature)
	}
	return w.String()
}

// x returns an unused register.
func (c *neon) x() xreg {
	if c.next == 18 {
		c.next++
	}
	if c.next == mostX {
		panic("no register is left for " + c.f.kernel.name)
	}
	c.next++
	return c.next - 1
}

// both writes an instruction in both syntaxes.
func (c *neon) both(code, arm string) { c.f.lines = append(c.f.lines, line{"\t" + code, arm}) }

// comment writes a comment.
func (c *neon) comment(format string, a ...any) {
	c.f.lines = append(c.f.lines, line{"\t// " + fmt.Sprintf(format, a...), ""})
}

// label marks a place to go to.
func (c *neon) label(name string) { c.f.lines = append(c.f.lines, line{"\n" + name + ":", name + ":"}) }

// fresh returns an unused label.
func (c *neon) fresh(name string) string {
	c.used++
	return fmt.Sprintf("%s%d", name, c.used)
}

// argInto loads an integer, a pointer or a bool from the stack into r.
func (c *neon) argInto(name string, r xreg) {
	p, err := c.sig.Params().Lookup(name).Resolve()
	if err != nil {
		panic(err) // no such argument in the signature
	}
	move := "MOVD"
	if p.Type.String() == "bool" {
		move = "MOVBU"
	}
	c.both(fmt.Sprintf("%s %s+%d(FP), %v", move, name, p.Addr.Disp, r), "")
}

// floatArg loads a float32 into all elements of v.
func (c *neon) floatArg(name string, v vreg) {
	p, err := c.sig.Params().Lookup(name).Resolve()
	if err != nil {
		panic(err)
	}
	c.both(fmt.Sprintf("FMOVS %s+%d(FP), F%d", name, p.Addr.Disp, int(v)), "")
	c.dup(v, v, 0)
}

// doubleArg loads a float64 into the first element of v.
func (c *neon) doubleArg(name string, v vreg) {
	p, err := c.sig.Params().Lookup(name).Resolve()
	if err != nil {
		panic(err)
	}
	c.both(fmt.Sprintf("FMOVD %s+%d(FP), F%d", name, p.Addr.Disp, int(v)), "")
}

// result stores the first element of v as the result, in the type of the result.
func (c *neon) result(v vreg) {
	p, err := c.sig.Results().At(0).Resolve()
	if err != nil {
		panic(err) // the signature has none
	}
	move := map[string]string{"float32": "FMOVS", "float64": "FMOVD"}[p.Type.String()]
	c.both(fmt.Sprintf("%s F%d, ret+%d(FP)", move, int(v), p.Addr.Disp), "")
}

// interleave writes the code that body writes for each slot, alternating between the slots. Slots use registers of
// their own, so a processor finds enough to do while it waits for results.
func (c *neon) interleave(slots int, body func(slot int)) {
	first, longest := len(c.f.lines), 0
	var parts [][]line
	for slot := range slots {
		body(slot)
		parts = append(parts, append([]line(nil), c.f.lines[first:]...))
		longest = max(longest, len(parts[slot]))
		c.f.lines = c.f.lines[:first]
	}
	for i := range longest {
		for _, p := range parts {
			if i < len(p) {
				c.f.lines = append(c.f.lines, p[i])
			}
		}
	}
}

// arg loads an integer, a pointer or a bool into a new register.
func (c *neon) arg(name string) xreg {
	r := c.x()
	c.argInto(name, r)
	return r
}

// bytes loads an argument that counts floats and converts it to bytes.
func (c *neon) bytes(name string) xreg {
	r := c.arg(name)
	c.lsl(r, r, 2)
	return r
}

// mov sets d to n, and set sets it to a constant.
func (c *neon) mov(d, n xreg) {
	c.both(fmt.Sprintf("MOVD %v, %v", n, d), fmt.Sprintf("mov %s, %s", d.arm(), n.arm()))
}
func (c *neon) set(d xreg, v int) {
	c.both(fmt.Sprintf("MOVD $%d, %v", v, d), fmt.Sprintf("mov %s, #%d", d.arm(), v))
}

// add sets d to n + m, addShifted to n + m·2^shift, addImm to n + v.
func (c *neon) add(d, n, m xreg) {
	c.both(fmt.Sprintf("ADD %v, %v, %v", m, n, d), fmt.Sprintf("add %s, %s, %s", d.arm(), n.arm(), m.arm()))
}
func (c *neon) addShifted(d, n, m xreg, shift int) {
	c.both(fmt.Sprintf("ADD %v<<%d, %v, %v", m, shift, n, d),
		fmt.Sprintf("add %s, %s, %s, lsl #%d", d.arm(), n.arm(), m.arm(), shift))
}
func (c *neon) addImm(d, n xreg, v int) {
	if v < 0 {
		c.both(fmt.Sprintf("SUB $%d, %v, %v", -v, n, d), fmt.Sprintf("sub %s, %s, #%d", d.arm(), n.arm(), -v))
		return
	}
	c.both(fmt.Sprintf("ADD $%d, %v, %v", v, n, d), fmt.Sprintf("add %s, %s, #%d", d.arm(), n.arm(), v))
}

// sub sets d to n - m.
func (c *neon) sub(d, n, m xreg) {
	c.both(fmt.Sprintf("SUB %v, %v, %v", m, n, d), fmt.Sprintf("sub %s, %s, %s", d.arm(), n.arm(), m.arm()))
}

// mul sets d to n·m.
func (c *neon) mul(d, n, m xreg) {
	c.both(fmt.Sprintf("MUL %v, %v, %v", m, n, d), fmt.Sprintf("mul %s, %s, %s", d.arm(), n.arm(), m.arm()))
}

// lsl shifts n.
func (c *neon) lsl(d, n xreg, shift int) {
	c.both(fmt.Sprintf("LSL $%d, %v, %v", shift, n, d), fmt.Sprintf("lsl %s, %s, #%d", d.arm(), n.arm(), shift))
}

// jump jumps to a label, ifZero does so if n is 0, ifClear if a bit of n is 0.
func (c *neon) jump(to string) { c.both("JMP "+to, "b "+to) }
func (c *neon) ifZero(n xreg, to string) {
	c.both(fmt.Sprintf("CBZ %v, %s", n, to), fmt.Sprintf("cbz %s, %s", n.arm(), to))
}
func (c *neon) ifClear(n xreg, bit int, to string) {
	c.both(fmt.Sprintf("TBZ $%d, %v, %s", bit, n, to), fmt.Sprintf("tbz %s, #%d, %s", n.arm(), bit, to))
}

// ifLess jumps to a label if n < v, and ifGreater if n > v.
func (c *neon) ifLess(n xreg, v int, to string) {
	c.both(fmt.Sprintf("CMP $%d, %v", v, n), fmt.Sprintf("cmp %s, #%d", n.arm(), v))
	c.both("BLT "+to, "b.lt "+to)
}
func (c *neon) ifGreater(n xreg, v int, to string) {
	c.both(fmt.Sprintf("CMP $%d, %v", v, n), fmt.Sprintf("cmp %s, #%d", n.arm(), v))
	c.both("BGT "+to, "b.gt "+to)
}

// subtract subtracts v from n and jumps to a label unless the result is 0; whileLeast jumps while at least v is left.
func (c *neon) subtract(n xreg, v int, to string) {
	c.both(fmt.Sprintf("SUBS $%d, %v, %v", v, n, n), fmt.Sprintf("subs %s, %s, #%d", n.arm(), n.arm(), v))
	c.both("BNE "+to, "b.ne "+to)
}
func (c *neon) whileLeast(n xreg, v int, to string) {
	c.addImm(n, n, -v)
	c.both(fmt.Sprintf("CMP $%d, %v", v, n), fmt.Sprintf("cmp %s, #%d", n.arm(), v))
	c.both("BGE "+to, "b.ge "+to)
}

// end returns from the function.
func (c *neon) end() { c.both("RET", "") }

// loop writes a loop with a label, whose bound is computed. body ends with the jump back.
func (c *neon) loop(label string, l armLoop, body func()) {
	c.label(label)
	l.first = len(c.f.lines)
	body()
	if l.last = len(c.f.lines); l.name != "" {
		c.f.loops = append(c.f.loops, l)
	}
}
