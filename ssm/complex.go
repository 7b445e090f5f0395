package ssm

import (
	"math"
	"math/cmplx"
	"slices"

	"gonum.org/v1/gonum/mat"
)

// ReIm returns complex numbers as Re z_0, Im z_0, Re z_1, ...: with a trailing axis of 2, as in checkpoints.
func ReIm(z []complex128) []float64 {
	x := make([]float64, 0, 2*len(z))
	for _, v := range z {
		x = append(x, real(v), imag(v))
	}
	return x
}

// dot returns Σ a_i b_i, without a conjugate.
func dot(a, b []complex128) complex128 {
	var sum complex128
	for i, v := range a {
		sum += v * b[i]
	}
	return sum
}

func conjugates(z []complex128) []complex128 {
	c := make([]complex128, len(z))
	for i, v := range z {
		c[i] = cmplx.Conj(v)
	}
	return c
}

func withConjugates(z []complex128) []complex128 { return append(slices.Clone(z), conjugates(z)...) }

// fromReIm is the inverse of ReIm.
func fromReIm(x []float64) []complex128 {
	z := make([]complex128, len(x)/2)
	for i := range z {
		z[i] = complex(x[2*i], x[2*i+1])
	}
	return z
}

// padded returns x as complex numbers, followed by zeros up to length n.
func padded(x []float64, n int) []complex128 {
	z := make([]complex128, n)
	for i, v := range x {
		z[i] = complex(v, 0)
	}
	return z
}

func realParts(z []complex128) []float64 {
	x := make([]float64, len(z))
	for i, v := range z {
		x[i] = real(v)
	}
	return x
}

// solveComplex solves a x = b, with a given by rows, as the real system [Re -Im; Im Re] of twice the size.
func solveComplex(a [][]complex128, b []complex128) []complex128 {
	n := len(b)
	m := mat.NewDense(2*n, 2*n, nil)
	v := mat.NewVecDense(2*n, ReIm(b))
	for i := range n {
		for j, z := range a[i] {
			setComplex(m, i, j, z)
		}
	}
	var x mat.VecDense
	if err := x.SolveVec(m, v); err != nil { // at a pole: the result is not finite, as in a division by zero
		return slices.Repeat([]complex128{cmplx.NaN()}, n)
	}
	return fromReIm(x.RawVector().Data)
}

// setComplex writes the complex entry (i, j) into a real matrix of twice the size: z times x + iy is [Re z -Im z; Im z
// Re z] times (x, y).
func setComplex(m *mat.Dense, i, j int, z complex128) {
	m.Set(2*i, 2*j, real(z))
	m.Set(2*i, 2*j+1, -imag(z))
	m.Set(2*i+1, 2*j, imag(z))
	m.Set(2*i+1, 2*j+1, real(z))
}

// expm1 returns exp(z) - 1 without the cancellation near z = 0, from exp(x) cos y - 1 = (exp(x) - 1) cos y - 2
// sin²(y/2).
func expm1(z complex128) complex128 {
	x, y := real(z), imag(z)
	half := math.Sin(y / 2)
	return complex(math.Expm1(x)*math.Cos(y)-2*half*half, math.Exp(x)*math.Sin(y))
}
