package ssm

import (
	"math"
	"slices"
	"testing"

	"github.com/hippo-ssm/hippo/internal/testkit/golden"
)

const tolCauchy = 1e-7

// dplrChannel returns channel h of an S4 kernel with row ch of C: Λ = -exp(A_real) - i A_imag. C is C~.
func dplrChannel(c golden.Case, ch, h int) *DPLR {
	shape := c.Shape("param/A_real")
	channels, modes := shape[0], shape[1]
	s := &DPLR{
		Lambda: make([]complex128, modes), B: row(pairs(c, "param/B"), h, modes),
		C:  row(pairs(c, "param/C"), ch*channels+h, modes),
		Dt: math.Exp(c.F64("param/inv_dt")[h]),
	}
	im := row(c.F64("param/A_imag"), h, modes)
	for i, re := range row(c.F64("param/A_real"), h, modes) {
		s.Lambda[i] = complex(-math.Exp(re), -im[i])
	}
	p := pairs(c, "param/P")
	for r := range c.Shape("param/P")[0] {
		s.P = append(s.P, row(p, r*channels+h, modes))
	}
	return s
}

func TestGoldenS4DPLR(t *testing.T) {
	golden.Run(t, "03_s4_dplr", func(t *testing.T, c golden.Case) {
		shape := c.Shape("out/K")
		rows, channels, l := shape[0], shape[1], shape[2]
		modes, trained := c.Shape("param/A_real")[1], int(c.I64("param/l_kernel")[0]) // the length of C~'s kernel
		u, state0, g := c.F64("in/u"), complexes(c, "in/state0"), c.F64("G")

		var kernel []float64
		var steps []*DPLR // with the true C
		for r := range rows * channels {
			s := dplrChannel(c, r/channels, r%channels)
			kernel = append(kernel, s.CauchyKernel(trained)[:l]...)
			var err error
			s.C, err = s.UntruncatedC(trained)
			check(t, err)
			steps = append(steps, s)
		}
		golden.Close(t, "K", kernel, c.F64("out/K"), tolCauchy)
		compareDerived(t, c, steps[:channels], steps)

		var y, echo []float64
		var final, fromState0 []complex128
		for b := range c.Shape("in/u")[0] {
			for r, s := range steps {
				at := b*channels + r%channels
				zero, x0 := make([]complex128, modes), slices.Clone(row(state0, at, modes))
				y = append(y, s.Scan(zero, row(u, at, l))...)
				echo = append(echo, s.ZeroInput(x0, l)...)
				s.Scan(x0, row(u, at, l))
				if r < channels { // the state does not depend on the row of C
					final, fromState0 = append(final, withConjugates(zero)...), append(fromState0, x0...)
				}
			}
		}
		golden.Close(t, "y", y, c.F64("out/y_step"), tolCauchy)
		golden.Close(t, "y by convolution", y, c.F64("out/y_conv"), tolCauchy)
		golden.Close(t, "K_state", echo, c.F64("out/K_state"), tolCauchy)
		golden.Close(t, "state", ReIm(final), ReIm(complexes(c, "out/state_final")), tolCauchy)
		golden.Close(t, "state from state0", ReIm(fromState0), ReIm(complexes(c, "out/state_after_u_from_state0")),
			tolCauchy)

		// These are gradients in the parameters as a checkpoint stores them. The rows of C share B, P, A and dt.
		var dC []float64
		dDt, dRe, dIm := make([]float64, channels), make([]float64, channels*modes), make([]float64, channels*modes)
		dB, dP := make([]complex128, channels*modes), make([]complex128, len(steps[0].P)*channels*modes)
		for r := range rows * channels {
			s, h := dplrChannel(c, r/channels, r%channels), r%channels
			d := s.CauchyKernelGrad(append(slices.Clone(row(g, r, l)), make([]float64, trained-l)...))
			dC = append(dC, ReIm(d.C)...)
			dDt[h] += d.Dt * s.Dt
			for i, v := range d.Lambda {
				dRe[h*modes+i] += real(v) * real(s.Lambda[i])
				dIm[h*modes+i] -= imag(v)
				dB[h*modes+i] += d.B[i]
				for k, p := range d.P {
					dP[(k*channels+h)*modes+i] += p[i]
				}
			}
		}
		golden.Close(t, "grad/C", dC, c.F64("grad/C"), tolCauchy)
		golden.Close(t, "grad/inv_dt", dDt, c.F64("grad/inv_dt"), tolCauchy)
		golden.Close(t, "grad/A_real", dRe, c.F64("grad/A_real"), tolCauchy)
		golden.Close(t, "grad/A_imag", dIm, c.F64("grad/A_imag"), tolCauchy)
		golden.Close(t, "grad/B", ReIm(dB), c.F64("grad/B"), tolCauchy)
		golden.Close(t, "grad/P", ReIm(dP), c.F64("grad/P"), tolCauchy)
	})
}

// compareDerived compares the sampled system of each channel, in the complex numbers (x, x̄) of the release, and C
// before it is truncated to a kernel's length. Our real system has the real and imaginary parts (Re x_0, Im x_0, Re
// x_1, …).
func compareDerived(t *testing.T, c golden.Case, systems, rows []*DPLR) {
	t.Helper()
	var dA, dB, dC, before []complex128
	for _, s := range systems {
		own := s.Continuous()
		Abar, Bbar, err := Discretize(own.A, own.B, s.Dt, Bilinear)
		check(t, err)
		n := len(s.Lambda)
		// Entry i < n is x_i = r_2i + i·r_2i+1, and entry n+i its conjugate.
		entry := func(i int, column []float64) complex128 {
			z := complex(column[2*(i%n)], column[2*(i%n)+1])
			if i >= n {
				z = complex(real(z), -imag(z))
			}
			return z
		}
		for i := range 2 * n {
			for j := range 2 * n {
				// These are the real numbers of x_j alone: (x + x̄)/2 and (x - x̄)/2i.
				re, im := make([]float64, 2*n), make([]float64, 2*n)
				for k := range 2 * n {
					re[k], im[k] = Abar.At(k, 2*(j%n)), Abar.At(k, 2*(j%n)+1)
				}
				turn := complex(0, -0.5)
				if j >= n {
					turn = complex(0, 0.5)
				}
				dA = append(dA, entry(i, re)/2+entry(i, im)*turn)
			}
			dB = append(dB, entry(i, Bbar))
		}
	}
	for _, s := range rows {
		dC, before = append(dC, withConjugates(s.C)...), append(before, s.C...)
	}
	golden.Close(t, "derived/dA", ReIm(dA), ReIm(complexes(c, "derived/dA")), tolCauchy)
	golden.Close(t, "derived/dB", ReIm(dB), ReIm(complexes(c, "derived/dB")), tolCauchy)
	golden.Close(t, "derived/dC", ReIm(dC), ReIm(complexes(c, "derived/dC")), tolCauchy)
	golden.Close(t, "C before setup", ReIm(before), c.F64("info/C_before_setup"), tolCauchy)
}
