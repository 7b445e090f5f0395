package ssm

import (
	"math"
	"math/cmplx"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestDSSKernels checks that the softmax kernel is a softmax over time, for Λ on either side of the imaginary axis, and
// that for Re Λ < 0 it is the exp kernel with other weights: the same family of kernels. DSS, proposition 1.
func TestDSSKernels(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := drawRNG(t)
		n, l := rapid.IntRange(1, 5).Draw(t, "n"), rapid.IntRange(1, 40).Draw(t, "l")
		dt := rapid.Float64Range(0.01, 0.3).Draw(t, "dt")
		s := &DSS{Lambda: complexNormals(rng, n), W: complexNormals(rng, n), DtRe: dt, DtIm: dt}
		want := make([]float64, l)
		for i, lambda := range s.Lambda {
			if math.Abs(real(lambda)) < 0.1 { // then the sum is nearly 0 for some Im Λ, and the softmax ill-conditioned
				lambda += 0.2
				s.Lambda[i] = lambda
			}
			var sum complex128
			for k := range l {
				sum += cmplx.Exp(complex(dt*float64(k), 0) * lambda)
			}
			for k := range l {
				want[k] += real(s.W[i] / lambda * cmplx.Exp(complex(dt*float64(k), 0)*lambda) / sum)
			}
		}
		near(t, "softmax", s.SoftmaxKernel(l, 0), want, 1e-9)

		for i, lambda := range s.Lambda {
			s.Lambda[i] = complex(-math.Abs(real(lambda)), imag(lambda))
		}
		scaled := *s
		scaled.W = slices.Clone(s.W)
		for i, lambda := range s.Lambda {
			scaled.W[i] /= expm1(complex(float64(l)*dt, 0) * lambda)
		}
		near(t, "exp of other weights", scaled.ExpKernel(l), s.SoftmaxKernel(l, 0), 1e-9)
	})
}

// TestGSSKernelIsDiagonal checks that the exp kernel is a diagonal model with zero-order hold, B = 1 and C = W and,
// without its scale, the kernel of W (exp(Λ Dt) - 1)/Λ. GSS is the case of a step of 1.
func TestGSSKernelIsDiagonal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawDiagonal(t)
		d.Pairs = false
		if rapid.Bool().Draw(t, "gss") {
			d.Dt = 1
		}
		l := rapid.IntRange(0, 30).Draw(t, "l")
		s := &DSS{Lambda: d.A, W: d.C, DtRe: d.Dt, DtIm: d.Dt}
		d.B = slices.Repeat([]complex128{1}, len(d.A))
		want := d.Kernel(ZOH, l)
		near(t, "exp", s.ExpKernel(l), want, 1e-11)
		s.W = slices.Clone(s.W)
		for i, z := range d.A {
			s.W[i] *= expm1(z*complex(d.Dt, 0)) / z
		}
		near(t, "unscaled", s.UnscaledKernel(l), want, 1e-11)
	})
}

func normalRows(rng *rand.Rand, l, n int) [][]float64 {
	return slices.Collect(slices.Chunk(normals(rng, l*n), n))
}

func zeroRows(l, n int) [][]float64 {
	return slices.Collect(slices.Chunk(make([]float64, l*n), n))
}

// TestLinearAttentionForms checks that the parallel and the recurrent form agree, also if the sequence is divided in
// two, and that no output depends on the future.
func TestLinearAttentionForms(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := drawRNG(t)
		l, e, m := rapid.IntRange(1, 20).Draw(t, "l"), rapid.IntRange(1, 4).Draw(t, "e"),
			rapid.IntRange(1, 4).Draw(t, "m")
		q, k, v := normalRows(rng, l, e), normalRows(rng, l, e), normalRows(rng, l, m)
		phi := ELU1
		if rapid.Bool().Draw(t, "exp") {
			phi = math.Exp
		}
		a := &LinearAttention{Phi: phi, Epsilon: 1e-6}
		want := a.Attend(q, k, v)
		S, z := zeroRows(e, m), make([]float64, e)
		cut := rapid.IntRange(0, l).Draw(t, "cut")
		y := a.Scan(S, z, q[:cut], k[:cut], v[:cut])
		y = append(y, a.Scan(S, z, q[cut:], k[cut:], v[cut:])...)
		near(t, "y", flat(y), flat(want), 1e-11)
		if cut < l {
			v[cut][0]++
			after := a.Attend(q, k, v)
			near(t, "past", flat(after[:cut]), flat(want[:cut]), 0)
		}
	})
}

func drawSelective(t *rapid.T, rng *rand.Rand, l int) *Selective {
	n := rapid.IntRange(1, 4).Draw(t, "n")
	s := &Selective{A: complexNormals(rng, n), D: rng.NormFloat64(), Pairs: rapid.Bool().Draw(t, "pairs")}
	for i, a := range s.A {
		s.A[i] = complex(-math.Abs(real(a)), 3*imag(a))
	}
	for range l {
		s.B, s.C = append(s.B, complexNormals(rng, n)), append(s.C, complexNormals(rng, n))
		s.Dt = append(s.Dt, rng.ExpFloat64())
	}
	return s
}

// TestSelectiveScanForms checks that the scan step by step, in chunks, by a parallel prefix and as a matrix agree.
func TestSelectiveScanForms(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := drawRNG(t)
		l := rapid.IntRange(1, 40).Draw(t, "l")
		s := drawSelective(t, rng, l)
		u, x0 := normals(rng, l), complexNormals(rng, len(s.A))
		x := slices.Clone(x0)
		want := s.Scan(x, u)

		cut := rapid.IntRange(0, l).Draw(t, "cut")
		piece := slices.Clone(x0)
		y := s.Slice(0, cut).Scan(piece, u[:cut])
		y = append(y, s.Slice(cut, l).Scan(piece, u[cut:])...)
		near(t, "chunks", y, want, 0)

		y, states := s.ParallelScan(x0, u)
		near(t, "parallel", y, want, 1e-12)
		near(t, "last state", ReIm(states[l-1]), ReIm(x), 1e-12)
		near(t, "matrix", mulVec(s.Matrix(), u), s.Scan(nil, u), 1e-12)
	})
}

// TestConstantSelectionIsDiagonal checks that a selective model with the same B, C and dt at every step is a diagonal
// one whose Bbar is dt B.
func TestConstantSelectionIsDiagonal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawDiagonal(t)
		const l = 20
		s := &Selective{A: d.A, Dt: slices.Repeat([]float64{d.Dt}, l), Pairs: d.Pairs}
		for range l {
			s.B, s.C = append(s.B, slices.Clone(d.B)), append(s.C, d.C)
		}
		for i, z := range d.A { // undo the effect of zero-order hold on B
			z *= complex(d.Dt, 0)
			d.B[i] *= z / expm1(z)
		}
		u := normals(drawRNG(t), l)
		near(t, "y", s.Scan(nil, u), d.Scan(ZOH, nil, u), 1e-11)
	})
}

// TestSSDForms checks that the recurrence, the attention form and blocks of any size agree, and that a head of SSD with
// one channel is a selective model.
func TestSSDForms(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := drawRNG(t)
		l, n, p := rapid.IntRange(1, 30).Draw(t, "l"), rapid.IntRange(1, 4).Draw(t, "n"),
			rapid.IntRange(1, 3).Draw(t, "p")
		s := &SSD{B: normalRows(rng, l, n), C: normalRows(rng, l, n)}
		for range l {
			s.LogDecay = append(s.LogDecay, -rng.ExpFloat64())
		}
		x := normalRows(rng, l, p)
		near(t, "attention", flat(s.Attend(x)), flat(s.Scan(zeroRows(p, n), x)), 1e-12)

		h, blocks := normalRows(rng, p, n), [][]float64(nil)
		for _, row := range h {
			blocks = append(blocks, slices.Clone(row))
		}
		want := s.Scan(h, x)
		near(t, "blocks", flat(s.Chunked(blocks, x, rapid.IntRange(1, 12).Draw(t, "block"))), flat(want), 1e-12)
		near(t, "state", flat(blocks), flat(h), 1e-12)

		one := &Selective{A: slices.Repeat([]complex128{-1}, n)}
		u := make([]float64, l)
		for k := range l {
			dt := -s.LogDecay[k]
			one.Dt = append(one.Dt, dt)
			one.B, one.C = append(one.B, padded(s.B[k], n)), append(one.C, padded(s.C[k], n))
			u[k] = x[k][0] / dt
		}
		first := make([]float64, l)
		for k, y := range s.Attend(x) {
			first[k] = y[0]
		}
		near(t, "selective", one.Scan(nil, u), first, 1e-12)
	})
}
