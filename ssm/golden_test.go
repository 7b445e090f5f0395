package ssm

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/hippo-ssm/hippo/internal/testkit/golden"
)

// The tolerances come from the reference, which states them with its results in testdata/golden.
const (
	tolDiscretize = 1e-10
	tolKernel     = 1e-9
	tolInit       = 1e-12
	tolInitLegs   = 1e-6 // the reference computes legs in float32
)

// complexes returns NAME_re and NAME_im as complex numbers.
func complexes(c golden.Case, name string) []complex128 {
	re, im := c.F64(name+"_re"), c.F64(name+"_im")
	z := make([]complex128, len(re))
	for i := range z {
		z[i] = complex(re[i], im[i])
	}
	return z
}

// pairs returns a tensor whose last axis is (re, im).
func pairs(c golden.Case, name string) []complex128 {
	x := c.F64(name)
	z := make([]complex128, len(x)/2)
	for i := range z {
		z[i] = complex(x[2*i], x[2*i+1])
	}
	return z
}

// reals returns a real tensor as complex numbers.
func reals(c golden.Case, name string) []complex128 {
	x := c.F64(name)
	z := make([]complex128, len(x))
	for i, v := range x {
		z[i] = complex(v, 0)
	}
	return z
}

// row returns row i of x, viewed as (rows, size).
func row[T any](x []T, i, size int) []T { return x[i*size : (i+1)*size] }

func TestGoldenDiscretize(t *testing.T) {
	golden.Run(t, "01_discretize", func(t *testing.T, c golden.Case) {
		compared := 0
		for _, name := range c.Names() { // system/dt/method/Ad
			result, found := strings.CutSuffix(name, "/Ad")
			if !found {
				continue
			}
			path := strings.Split(result, "/")
			dt, err := strconv.ParseFloat(path[1], 64)
			check(t, err)
			method, err := ParseMethod(path[2])
			check(t, err)
			b := c.F64(path[0] + "/B")
			a := mat.NewDense(len(b), len(b), c.F64(path[0]+"/A"))
			Abar, Bbar, err := Discretize(a, b, dt, method)
			check(t, err)
			golden.Close(t, name, Abar.RawMatrix().Data, c.F64(name), tolDiscretize)
			golden.Close(t, result+"/Bd", Bbar, c.F64(result+"/Bd"), tolDiscretize)
			compared++
		}
		if compared == 0 {
			t.Error("no tensor is named system/dt/method/Ad")
		}
	})
}

func TestGoldenDiagonalInit(t *testing.T) {
	conventions := map[string]Convention{"h3": ConventionH3, "s4": ConventionS4}
	golden.Run(t, "01_s4d_init", func(t *testing.T, c golden.Case) {
		compared := 0
		for _, name := range c.Names() { // convention/init/n/A_re
			base, found := strings.CutSuffix(name, "/A_re")
			if !found {
				continue
			}
			path := strings.Split(base, "/")
			n, err := strconv.Atoi(path[2])
			check(t, err)
			conv, known := conventions[path[0]]
			if !known {
				t.Fatalf("%s: unknown convention %q", name, path[0])
			}
			A, B, err := DiagonalInit(path[1], n, conv)
			check(t, err)
			tol, wantB := tolInit, complexes(c, base+"/B")
			if path[1] == "legs" {
				tol = tolInitLegs
				// The reference's eigenvectors have a real first entry of either sign, and so has B.
				for k, b := range wantB {
					if real(b) < 0 {
						wantB[k] = -b
					}
				}
			}
			golden.Close(t, base+"/A", ReIm(A), ReIm(complexes(c, base+"/A")), tol)
			golden.Close(t, base+"/B", ReIm(B), ReIm(wantB), tol)
			compared++
		}
		if compared == 0 {
			t.Error("no tensor is named convention/init/n/A_re")
		}
	})
}

func TestGoldenShift(t *testing.T) {
	golden.Run(t, "04_shift_kernel", func(t *testing.T, c golden.Case) {
		shape := c.Shape("in/u")
		batch, channels, l := shape[0], shape[1], shape[2]
		B, C, g := c.F64("param/kernel.B"), c.F64("param/kernel.C"), c.F64("G")
		u, state0 := c.F64("in/u"), c.F64("in/state0")
		n := len(B) / channels

		var k, dB, dC, y, final, forward []float64
		for h := range channels {
			s := &Shift{B: row(B, h, n), C: row(C, h, n)}
			k = append(k, s.Kernel(l)...)
			gB, gC := s.KernelGrad(row(g, h, l))
			dB, dC = append(dB, gB...), append(dC, gC...)
		}
		for r := range batch * channels { // rows of (batch, channels)
			h := r % channels
			s := &Shift{B: row(B, h, n), C: row(C, h, n)}
			ur, x0 := row(u, r, l), row(state0, r, n)
			forward = append(forward, s.FinalState(x0, ur)...)
			echo := s.ZeroInput(x0, l)
			x := slices.Clone(x0)
			yr := s.Scan(x, ur)
			y, final = append(y, yr...), append(final, x...)
			near(t, "kernel * u + echo", floats.AddTo(echo, echo, Convolve(s.Kernel(l), ur)), yr, 1e-13)
		}
		golden.Close(t, "K", k, c.F64("out/K"), tolKernel)
		golden.Close(t, "dB", dB, c.F64("grad/kernel.B"), tolKernel)
		golden.Close(t, "dC", dC, c.F64("grad/kernel.C"), tolKernel)
		golden.Close(t, "y", y, c.F64("out/y_step_from_state0"), tolKernel)
		golden.Close(t, "state", final, c.F64("out/state_final"), tolKernel)
		golden.Close(t, "state in one sum", forward, c.F64("out/forward_state"), tolKernel)
	})
}

// h3Channel returns channel h of an H3 diagonal kernel from the form in a checkpoint.
func h3Channel(c golden.Case, h, modes int) *Diagonal {
	re, im := row(c.F64("param/kernel.inv_A_real"), h, modes), row(c.F64("param/kernel.A_imag"), h, modes)
	s := &Diagonal{
		A: make([]complex128, modes), B: row(pairs(c, "param/kernel.B"), h, modes),
		C:  row(pairs(c, "param/kernel.C"), h, modes),
		Dt: math.Exp(c.F64("param/kernel.log_dt")[h]), Pairs: true,
	}
	for i := range s.A {
		s.A[i] = complex(-math.Exp(re[i]), im[i])
	}
	return s
}

func TestGoldenH3Diagonal(t *testing.T) {
	golden.Run(t, "04_h3_diag_kernel", func(t *testing.T, c golden.Case) {
		shape, modes := c.Shape("in/u"), c.Shape("param/kernel.A_imag")[1]
		batch, channels, l := shape[0], shape[1], shape[2]
		u, state0 := c.F64("in/u"), complexes(c, "in/state0")

		var k, echo, y []float64
		var final []complex128
		for h := range channels {
			k = append(k, h3Channel(c, h, modes).Kernel(Bilinear, l)...)
		}
		for r := range batch * channels { // rows of (batch, channels)
			s := h3Channel(c, r%channels, modes)
			x := slices.Clone(row(state0, r, modes))
			echo = append(echo, s.ZeroInput(Bilinear, x, l)...)
			y = append(y, s.Scan(Bilinear, x, row(u, r, l))...)
			final = append(final, x...)
		}
		golden.Close(t, "K", k, c.F64("out/K"), tolKernel)
		golden.Close(t, "K_state", echo, c.F64("out/K_state"), tolKernel)
		golden.Close(t, "y", y, c.F64("out/y_step_from_state0"), tolKernel)
		golden.Close(t, "state", ReIm(final), ReIm(complexes(c, "out/state_final")), tolKernel)
		golden.Close(t, "forward state", ReIm(final), ReIm(complexes(c, "out/forward_state")), tolKernel)
	})
}

// s4dChannel returns channel h of an S4D kernel with row ch of C: A = -exp(A_real) - i A_imag, with the minus sign of
// the S4 repository. Its real kernels have no A_imag and a real B and C, and are doubled too.
func s4dChannel(c golden.Case, ch, h int) *Diagonal {
	shape := c.Shape("param/A_real")
	channels, modes := shape[0], shape[1]
	imag, numbers := make([]float64, channels*modes), reals
	if c.Has("param/A_imag") {
		imag, numbers = c.F64("param/A_imag"), pairs
	}
	s := &Diagonal{
		A: make([]complex128, modes), B: row(numbers(c, "param/B"), h, modes),
		C:  row(numbers(c, "param/C"), ch*channels+h, modes),
		Dt: math.Exp(c.F64("param/inv_dt")[h]), Pairs: true,
	}
	for i, re := range row(c.F64("param/A_real"), h, modes) {
		s.A[i] = complex(-math.Exp(re), -imag[h*modes+i])
	}
	return s
}

func TestGoldenS4D(t *testing.T) {
	for _, c := range golden.Cases(t, "03_s4d") {
		if !c.Has("param/inv_dt") {
			continue // 03_s4d_layer, which is a layer and not a kernel
		}
		t.Run(c.Name, func(t *testing.T) { goldenS4D(t, c.With(t)) })
	}
}

func goldenS4D(t *testing.T, c golden.Case) {
	var config struct{ Disc string }
	c.Config(&config)
	method, err := ParseMethod(config.Disc)
	check(t, err)
	shape := c.Shape("out/K")
	rows, channels, l := shape[0], shape[1], shape[2]

	var k []float64
	for r := range rows * channels {
		k = append(k, s4dChannel(c, r/channels, r%channels).Kernel(method, l)...)
	}
	golden.Close(t, "K", k, c.F64("out/K"), tolKernel)
	if !c.Has("in/u") {
		return // the real kernels have no recurrence
	}

	u, state0 := c.F64("in/u"), complexes(c, "in/state0")
	modes := c.Shape("in/state0_re")[2]
	var y, echo []float64
	var final, finalFromState0 []complex128
	for b := range c.Shape("in/u")[0] {
		for r := range rows * channels {
			s := s4dChannel(c, r/channels, r%channels)
			at := b*channels + r%channels
			zero, x0 := make([]complex128, modes), slices.Clone(row(state0, at, modes))
			y = append(y, s.Scan(method, zero, row(u, at, l))...)
			echo = append(echo, s.ZeroInput(method, x0, l)...)
			s.Scan(method, x0, row(u, at, l))
			if r < channels { // the state does not depend on the row of C
				final, finalFromState0 = append(final, zero...), append(finalFromState0, x0...)
			}
		}
	}
	golden.Close(t, "y", y, c.F64("out/y_step"), tolKernel)
	golden.Close(t, "y by convolution", y, c.F64("out/y_conv"), tolKernel)
	var dA, dB, dC []complex128 // the sampled systems of the channels, and all rows of C
	for r := range rows * channels {
		s := s4dChannel(c, r/channels, r%channels)
		if dC = append(dC, s.C...); r < channels {
			Abar, Bbar := s.Discretize(method)
			dA, dB = append(dA, Abar...), append(dB, Bbar...)
		}
	}
	golden.Close(t, "derived/dA", ReIm(dA), ReIm(complexes(c, "derived/dA")), tolKernel)
	golden.Close(t, "derived/dB", ReIm(dB), ReIm(complexes(c, "derived/dB")), tolKernel)
	golden.Close(t, "derived/dC", ReIm(dC), ReIm(complexes(c, "derived/dC")), tolKernel)
	golden.Close(t, "K_state", echo, c.F64("out/K_state"), tolKernel)
	golden.Close(t, "state", ReIm(final), ReIm(complexes(c, "out/state_final")), tolKernel)
	golden.Close(t, "state from state0", ReIm(finalFromState0),
		ReIm(complexes(c, "out/state_after_u_from_state0")), tolKernel)
}
