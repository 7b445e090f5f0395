package kernel

import (
	"math"
	"unsafe"
)

// powerMatrix is the matrix z[n]^l of a few modes z, factored so that products with it are cheap. With l = iT + j, z^l
// = w^i·z^j for w = z^T, so that products with it are real products of matrices with about √l rows,
//
//	k[iT + j] = Re Σ_n c w^i·z^j = Σ_n Re(c w^i)·Re z^j - Im(c w^i)·Im z^j.
//
// Angles are accurate to about 1e-11 even at l = 64k, because powers are computed in float64. They are then rounded to
// float32, and at most four of them are multiplied: the error is about 1e-6 of Σ_n |c z^l|.
type powerMatrix struct {
	n, t, rows int
	q, w, qt   []float32 // rows of modes z^j and w^i; the former transposed (2n, t)
	u, v       []float32 // rows of modes by i: conj(c·w^i), or sums; sums by j
	sums       []float32
	block      []float32 // (rows, t)
	next       Modes     // w
	c, ends    Modes
	buf        []float32
	powered    bool // w is computed
	transposed bool // qt is computed
}

// set sets v to the matrix with l ≥ 1 rows of the modes z.
func (v *powerMatrix) set(z Modes, l int) {
	v.n = z.N()
	v.t = rowLength(l)
	v.rows = ceil(l, v.t)
	v.carve()
	v.powers(v.q, v.t, z, nil, v.next)
	v.powered, v.transposed = false, false
}

// rowLength returns T for a kernel of length l: about √l, of whole vectors.
func rowLength(l int) int {
	for _, t := range []int{16, 32, 96} {
		if l <= 2*t*t {
			return t
		}
	}
	return VandermondePad
}

// VandermondePad is the largest T.
const VandermondePad = 192

const powerRows = 4 // powers are computed in multiples of this many rows

func (v *powerMatrix) carve() {
	width, rows := 2*v.n, roundUp(v.rows, powerRows)
	parts := []struct {
		x    *[]float32
		size int
	}{{&v.q, v.t * width}, {&v.w, rows * width}, {&v.qt, v.t * width}, {&v.u, rows * width}, {&v.v, v.t * width},
		{&v.block, v.rows * v.t}, {&v.sums, 2 * 2 * width}}
	size := 0
	for _, p := range parts {
		size += p.size + Lanes
	}
	if cap(v.buf) < size {
		v.buf = make([]float32, size)
	}
	rest := v.buf[:size]
	for _, p := range parts { // leave a cache line between, so that not all parts begin in the same cache set
		*p.x, rest = rest[:p.size:p.size], rest[p.size+Lanes:]
	}
	v.next, v.c, v.ends = room(v.next, width), room(v.c, width), room(v.ends, width)
}

// apply sets k[l] = Re Σ_n c[n]·z[n]^l, with zeros beyond the rows of the matrix, or adds that to k; 0^0 is 1. It is
// faster if k has VandermondePad more elements than rows were set; the values of those are undefined.
func (v *powerMatrix) apply(k []float32, c Modes, add bool) {
	if !v.transposed {
		Transpose(v.t, 2*v.n, v.qt, v.t, v.q, 2*v.n)
		v.transposed = true
	}
	v.c.conj(c)
	v.ends.conj(v.next)
	v.powers(v.u, roundUp(v.rows, powerRows), v.ends, v.c, v.c)
	size, out := v.rows*v.t, k
	if len(k) < size {
		out = v.block
	}
	GemmInline(Product{
		Op: NN, M: v.rows, N: v.t, K: 2 * v.n, A: v.u, LDA: 2 * v.n, B: v.qt, LDB: v.t,
		C: out, LDC: v.t, Add: add && len(k) >= size,
	})
	switch {
	case len(k) >= size && !add:
		clear(k[size:])
	case len(k) < size && add:
		Add(k, out[:len(k)])
	case len(k) < size:
		copy(k, out)
	}
}

// sumsOf sets s[n] = Σ_l dk[l]·z[n]^l, and, unless ds is nil, ds[n] = Σ_l l·dk[l]·z[n]^(l-1), the derivative by z. It
// is faster if dk has VandermondePad more elements, all zero. It sums over one index at a time,
//
//	U[i] = Σ_j dk[iT+j]·z^j,  V[j] = Σ_i dk[iT+j]·w^i,
//
// which are real matrix products,
//
//	s = Σ_i U[i]·w^i,  ds = T z^(T-1) Σ_i i·U[i]·w^(i-1) + Σ_j j·V[j]·z^(j-1).
func (v *powerMatrix) sumsOf(s, ds Modes, dk []float32) {
	n, width := v.n, 2*v.n
	size := v.rows * v.t
	x := dk
	if len(x) < size {
		x = v.block
		clear(x[copy(x, dk):])
	}
	if !v.powered {
		v.powers(v.w, roundUp(v.rows, powerRows), v.next, nil, v.ends)
		v.powered = true
	}
	GemmInline(Product{Op: NN, M: v.rows, N: width, K: v.t, A: x, LDA: v.t, B: v.q, LDB: width, C: v.u, LDC: width})
	byRow := v.sums[:2*width]
	v.modeSums(byRow, v.u, v.w, v.rows)
	for i, x := range byRow[:width] {
		s[i] = float64(x)
	}
	if ds == nil {
		return
	}
	GemmInline(Product{Op: TN, M: v.t, N: width, K: v.rows, A: x, LDA: v.t, B: v.w, LDB: width, C: v.v, LDC: width})
	byCol := v.sums[2*width:]
	v.modeSums(byCol, v.v, v.q, v.t)
	last := v.q[(v.t-1)*width:]
	for i := range n {
		a, b := float64(byRow[width+i])*float64(v.t), float64(byRow[width+n+i])*float64(v.t)
		c, d := float64(last[i]), float64(last[n+i])
		ds[i] = float64(byCol[width+i]) + (float64(a*c) - float64(b*d))
		ds[n+i] = float64(byCol[width+n+i]) + (float64(a*d) + float64(b*c))
	}
}

// powers sets row j of out to start·z^j, j < rows, and last, which may be z or start, to start·z^rows. A nil start
// means 1.
func (v *powerMatrix) powers(out []float32, rows int, z, start, last Modes) {
	if !cpu.has(powerRowsCode) {
		powersPortable(out, rows, z, start, last)
	} else {
		vecPowerRows(v.n, rows, &out[0], &z[0], unsafe.SliceData(start), &last[0])
	}
}

func powersPortable(out []float32, rows int, z, start, last Modes) {
	n := z.N()
	for m := range n {
		x, by := complex(1, 0), z.at(m)
		if start != nil {
			x = start.at(m)
		}
		for j := range rows {
			out[2*n*j+m], out[2*n*j+n+m] = narrow(real(x)), narrow(imag(x))
			x = times(x, by)
		}
		last.set(m, x)
	}
}

// modeSums sets s to Σ_i u[i]·w[i], i < rows, followed by Σ_i i·u[i]·w[i-1].
func (v *powerMatrix) modeSums(s, u, w []float32, rows int) {
	if cpu.has(modeSumsCode) {
		vecModeSums(v.n, rows, &s[0], &u[0], &w[0])
		return
	}
	n := v.n
	clear(s)
	for i := range rows {
		u, w, last := u[2*n*i:][:2*n], w[2*n*i:][:2*n], w[2*n*max(i-1, 0):][:2*n]
		for m := range n {
			re, im := u[m], u[n+m]
			s[m] += float32(re*w[m]) - float32(im*w[n+m])
			s[n+m] += float32(re*w[n+m]) + float32(im*w[m])
			re, im = re*float32(i), im*float32(i)
			s[2*n+m] += float32(re*last[m]) - float32(im*last[n+m])
			s[3*n+m] += float32(re*last[n+m]) + float32(im*last[m])
		}
	}
}

// leastPower is the magnitude below which parts of powers are set to zero: their products could be denormal, which is
// slow on many machines.
const leastPower = 0x1p-100

// narrow rounds x to float32.
func narrow(x float64) float32 {
	if math.Abs(x) < leastPower {
		return 0
	}
	return float32(x)
}
