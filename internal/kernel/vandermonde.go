package kernel

import (
	"math"
	"math/cmplx"
)

// Vandermonde fills k[l] = scale · Re Σ_n c[n]·z[n]^l: the kernel of one channel of a diagonal SSM (S4D, arXiv:2206.11893,
// §3.3). scale is 2 where z stands for conjugate pairs, else 1; 0^0 is 1. c and z have the same length, and work has at
// least VandermondeWork(len(k), len(c)) floats.
//
// With l = iT + j this is a real matrix product, k[i, j] = Σ_n Re P[i, n]·Re Q[n, j] - Im P[i, n]·Im Q[n, j], of
// P = scale·c·z^{iT} and Q = z^j. Both are built by multiplication in float64, so that angles stay exact to some 1e-11 even
// at l = 64k, and rounded once: the error is about 1e-6 of Σ_n |c z^l|.
func Vandermonde(k []float32, c, z []complex128, scale float64, work []float32) {
	if len(k) == 0 {
		return
	}
	t, n := vandermondeBlock(len(k)), len(c)
	rows := (len(k) + t - 1) / t
	q, p := work[:2*n*t], work[2*n*t:][:rows*2*n]
	for m := range c {
		zt := powers(q[2*m*t:][:t], q[(2*m+1)*t:][:t], z[m])
		x := scaled(scale, c[m])
		for i := range rows {
			p[i*2*n+2*m], p[i*2*n+2*m+1] = narrow(real(x)), narrow(-imag(x))
			x = times(x, zt)
		}
	}
	whole := len(k) / t
	GemmInline(NN, whole, t, 2*n, p, 2*n, q, t, k, t, nil, false)
	if rest := len(k) - whole*t; rest > 0 {
		GemmInline(NN, 1, rest, 2*n, p[whole*2*n:], 2*n, q, t, k[whole*t:], rest, nil, false)
	}
}

// VandermondeBackward adds to dc and dz the gradients of a loss whose derivative by the k of Vandermonde is dk. Real parts
// are derivatives by the real part, imaginary parts by the imaginary part:
//
//	dc[n] += scale · conj(Σ_l dk[l]·z^l),  dz[n] += scale · conj(c[n] · Σ_l dk[l]·l·z^{l-1}).
//
// Within blocks of T, Σ_j dk[iT+j]·z^j and Σ_j dk[iT+j]·j·z^{j-1} are one real matrix product; over blocks the sums run in
// float64. work is as for Vandermonde.
func VandermondeBackward(dc, dz []complex128, dk []float32, c, z []complex128, scale float64, work []float32) {
	if len(dk) == 0 {
		return
	}
	t, n := vandermondeBlock(len(dk)), len(c)
	rows := (len(dk) + t - 1) / t
	// Q (4n, t): the real and imaginary parts of z^j and of j·z^{j-1}. U (rows, 4n) = dk Qᵀ.
	q, u := work[:4*n*t], work[4*n*t:][:rows*4*n]
	for m := range c {
		q := q[4*m*t:][:4*t]
		powers(q[:t], q[t:2*t], z[m])
		for j := 1; j < t; j++ {
			q[2*t+j], q[3*t+j] = float32(j)*q[j-1], float32(j)*q[t+j-1]
		}
		q[2*t], q[3*t] = 0, 0
	}
	whole := len(dk) / t
	GemmInline(NT, whole, 4*n, t, dk, t, q, t, u, 4*n, nil, false)
	if rest := len(dk) - whole*t; rest > 0 {
		GemmInline(NT, 1, 4*n, rest, dk[whole*t:], rest, q, t, u[whole*4*n:], 4*n, nil, false)
	}
	for m := range c {
		// With b = iT: Σ_l dk·z^l = Σ_i z^b·U_i and Σ_l dk·l·z^{l-1} = Σ_i z^b·U'_i + b·z^{b-1}·U_i.
		zt1 := power(z[m], t-1) // z^{T-1}, kept apart from z^T so that nothing is divided by z
		zt := times(zt1, z[m])
		zb, zb1 := complex(1, 0), complex(0, 0) // z^b and z^{b-1}; the latter counts from i = 1 on
		var s, ds complex128
		for i := range rows {
			u := u[(i*n+m)*4:][:4]
			u0, u1 := complex(float64(u[0]), float64(u[1])), complex(float64(u[2]), float64(u[3]))
			s += times(zb, u0)
			ds += times(zb, u1) + scaled(float64(i*t), times(zb1, u0))
			zb, zb1 = times(zb, zt), times(zb, zt1)
		}
		dc[m] += cmplx.Conj(scaled(scale, s))
		dz[m] += cmplx.Conj(scaled(scale, times(c[m], ds)))
	}
}

// VandermondeWork returns the number of floats that Vandermonde and VandermondeBackward need as work for a kernel of length
// l and n modes.
func VandermondeWork(l, n int) int {
	if l == 0 {
		return 0
	}
	t := vandermondeBlock(l)
	return 4 * n * (t + (l+t-1)/t)
}

// vandermondeBlock returns T for a kernel of length l: about its square root, where P and Q together are smallest.
func vandermondeBlock(l int) int {
	t := 32
	for t < 256 && t*t < l {
		t *= 2
	}
	return min(t, l)
}

// powers fills re + i·im with z^j for j < len(re), and returns the next power.
func powers(re, im []float32, z complex128) complex128 {
	im = im[:len(re)]
	x := complex(1, 0)
	for j := range re {
		re[j], im[j] = narrow(real(x)), narrow(imag(x))
		x = times(x, z)
	}
	return x
}

// power returns z^n by squaring.
func power(z complex128, n int) complex128 {
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
