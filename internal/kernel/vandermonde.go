package kernel

import (
	"math"
	"math/cmplx"
)

// Vandermonde fills k[l] = scale · Re Σ_n c[n]·z[n]^l: the kernel of one channel of a diagonal SSM (S4D, arXiv:2206.11893,
// §3.3). scale is 2 where z stands for conjugate pairs, else 1; 0^0 is 1. c and z have the same length, and work has at
// least VandermondeWork(len(k), len(c)) floats.
//
// With l = iT + j this is a real matrix product, k[i, j] = Σ_n Re P[n, i]·Re Q[n, j] + Im P[n, i]·Im Q[n, j], of
// P = scale·conj(c·z^{iT}) and Q = z^j. Both are built by multiplication in float64, so that angles stay exact to some 1e-11
// even at l = 64k, and rounded once: the error is about 1e-6 of Σ_n |c z^l|.
func Vandermonde(k []float32, c, z []complex128, scale float64, work []float32) {
	if len(k) == 0 {
		return
	}
	b := blocksOf(len(k))
	q, p := work[:2*len(c)*b.cols], work[2*len(c)*b.cols:][:2*len(c)*b.rows]
	for m := range c {
		powers(q[2*m*b.cols:][:b.cols], q[(2*m+1)*b.cols:][:b.cols], 1, z[m])
		powers(p[2*m*b.rows:][:b.rows], p[(2*m+1)*b.rows:][:b.rows], cmplx.Conj(scaled(scale, c[m])), cmplx.Conj(Power(z[m], b.t)))
	}
	whole := len(k) / b.t
	GemmInline(TN, whole, b.t, 2*len(c), p, b.rows, q, b.cols, k, b.t, nil, false)
	if rest := len(k) - whole*b.t; rest > 0 {
		GemmInline(TN, 1, rest, 2*len(c), p[whole:], b.rows, q, b.cols, k[whole*b.t:], rest, nil, false)
	}
}

// VandermondeBackward adds to dc and dz the gradients of a loss whose derivative by the k of Vandermonde is dk. Real parts
// are derivatives by the real part, imaginary parts by the imaginary part:
//
//	dc[n] += scale · conj(Σ_l dk[l]·z^l),  dz[n] += scale · conj(c[n] · Σ_l (l+1)·dk[l+1]·z^l).
//
// Within blocks of T both sums are one real matrix product of dk and of (l+1)·dk[l+1] with z^j; over blocks they run in
// float64, by Horner's rule for z^T. work is as for Vandermonde.
func VandermondeBackward(dc, dz []complex128, dk []float32, c, z []complex128, scale float64, work []float32) {
	if len(dk) == 0 {
		return
	}
	b := blocksOf(len(dk))
	blocks, n := ceil(len(dk), b.t), ceil(len(c), polynomialLanes)*polynomialLanes
	take := func(floats int) (x []float32) {
		x, work = work[:floats], work[floats:]
		return x
	}
	// Q (2n, cols): the real parts of z^j, then the imaginary ones. G (2·blocks, t): dk, then (l+1)·dk[l+1]. U = G Qᵀ.
	q, g, u := take(2*n*b.cols), take(2*blocks*b.t), take(2*blocks*2*n)
	for m := range n {
		re, im := q[m*b.cols:][:b.cols], q[(n+m)*b.cols:][:b.cols]
		if m < len(c) {
			powers(re, im, 1, z[m])
		} else {
			clear(re)
			clear(im)
		}
	}
	copy(g, dk)
	clear(g[len(dk) : blocks*b.t])
	e := g[blocks*b.t:]
	for l, d := range dk[1:] {
		e[l] = float32(l+1) * d
	}
	clear(e[len(dk)-1:])
	GemmInline(NT, 2*blocks, 2*n, b.t, g, b.t, q, b.cols, u, 2*n, nil, false)
	var y [2][polynomialLanes]float64
	var s [4][polynomialLanes]float64
	for m := 0; m < len(c); m += polynomialLanes {
		lanes := min(polynomialLanes, len(c)-m)
		for v, z := range z[m:][:lanes] {
			zt := Power(z, b.t)
			y[0][v], y[1][v] = real(zt), imag(zt)
		}
		polynomials(&s, u[m:], u[blocks*2*n+m:], 2*n, n, blocks, &y)
		for v := range lanes {
			dc[m+v] += cmplx.Conj(scaled(scale, complex(s[0][v], s[1][v])))
			dz[m+v] += cmplx.Conj(scaled(scale, times(c[m+v], complex(s[2][v], s[3][v]))))
		}
	}
}

// VandermondeWork returns the number of floats that Vandermonde and VandermondeBackward need as work for a kernel of length
// l and n modes.
func VandermondeWork(l, n int) int {
	if l == 0 {
		return 0
	}
	b := blocksOf(l)
	blocks, wide := ceil(l, b.t), ceil(n, polynomialLanes)*polynomialLanes
	return max(2*n*(b.cols+b.rows), 2*wide*b.cols+2*blocks*(b.t+2*wide))
}

// blocking cuts a kernel of length l into rows of t, about its square root, where P and Q together are smallest. rows and
// cols are the number of rows and t, as multiples of what powers wants.
type blocking struct{ t, rows, cols int }

func blocksOf(l int) blocking {
	t := 32
	for t < 256 && t*t < l {
		t *= 2
	}
	t = min(t, l)
	return blocking{t, ceil(ceil(l, t), powerLanes) * powerLanes, ceil(t, powerLanes) * powerLanes}
}

const (
	powerLanes      = 8 // powers come in multiples of so many
	polynomialLanes = 8 // polynomials are evaluated side by side
)

// powersPortable sets re + i·im to c·z^j for j < len(re).
func powersPortable(re, im []float32, c, z complex128) {
	im = im[:len(re)]
	x := c
	for j := range re {
		re[j], im[j] = narrow(real(x)), narrow(imag(x))
		x = times(x, z)
	}
}

// polynomialsPortable computes Σ_i (u[i·ld+v] + i·u[i·ld+im+v])·y^i, i < n, for each number y = y[0][v] + i·y[1][v], and the
// same with w in the place of u: s has the real and imaginary parts of the one, then of the other.
func polynomialsPortable(s *[4][polynomialLanes]float64, u, w []float32, ld, im, n int, y *[2][polynomialLanes]float64) {
	for v := range polynomialLanes {
		y, a, b := complex(y[0][v], y[1][v]), complex128(0), complex128(0)
		for at := (n-1)*ld + v; at >= 0; at -= ld {
			a = times(a, y) + complex(float64(u[at]), float64(u[at+im]))
			b = times(b, y) + complex(float64(w[at]), float64(w[at+im]))
		}
		s[0][v], s[1][v], s[2][v], s[3][v] = real(a), imag(a), real(b), imag(b)
	}
}

// Power returns z^n, n ≥ 0, by squaring.
func Power(z complex128, n int) complex128 {
	x := complex(1, 0)
	for ; n > 0; n /= 2 {
		if n%2 == 1 {
			x = times(x, z)
		}
		z = times(z, z)
	}
	return x
}

// scaled returns a·x, each product rounded: see times.
func scaled(a float64, x complex128) complex128 {
	return complex(float64(a*real(x)), float64(a*imag(x)))
}

// times returns x·y, each product rounded before the sum, where the operator * may fuse them on some machines.
func times(x, y complex128) complex128 {
	a, b, c, d := real(x), imag(x), real(y), imag(y)
	return complex(float64(a*c)-float64(b*d), float64(a*d)+float64(b*c))
}

// narrow rounds x to float32, to zero where only a denormal would be left: those are slow on many machines.
func narrow(x float64) float32 {
	if math.Abs(x) < 0x1p-126 {
		return 0
	}
	return float32(x)
}
