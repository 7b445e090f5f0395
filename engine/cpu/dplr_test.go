package cpu

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/ssm"
	"github.com/hippo-ssm/hippo/tensor"
)

// randomTensor returns a tensor of random elements.
func randomTensor(rng *rand.Rand, shape ...int) *tensor.Tensor {
	x := tensor.New(shape...)
	for i := range x.Data() {
		x.Data()[i] = float32(rng.NormFloat64())
	}
	return x
}

// randomDPLR returns parameters of rank 1.
func randomDPLR(rng *rand.Rand, h, n, l int) *engine.DPLRParams {
	return &engine.DPLRParams{LogDt: randomTensor(rng, h), InvAReal: randomTensor(rng, h, n),
		AImag: randomTensor(rng, h, n), B: randomTensor(rng, h, n, 2),
		P: randomTensor(rng, 1, h, n, 2), Ct: randomTensor(rng, h, n, 2), L: l}
}

// TestDPLRLongKernel checks that the kernel follows the definition at a length where angles need float64.
func TestDPLRLongKernel(t *testing.T) {
	const n, l = 64, 4096
	for _, measure := range []string{"legs", "legt", "fout"} {
		normal, _, err := ssm.NPLR(measure, n)
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(2, 7))
		flat := func(z []complex128) (x []float32) {
			for _, v := range ssm.ReIm(z) {
				x = append(x, float32(v))
			}
			return x
		}
		round := func(x []float32) (z []complex128) {
			for i := range len(x) / 2 {
				z = append(z, pair(x, i))
			}
			return z
		}
		var re, im, ct, pp []float32
		for _, v := range normal.Lambda {
			re, im = append(re, float32(math.Log(0.5))), append(im, float32(imag(v)))
			ct = append(ct, float32(rng.NormFloat64()), float32(rng.NormFloat64()))
		}
		s := &ssm.DPLR{Dt: math.Exp(float64(float32(math.Log(0.01)))), B: round(flat(normal.B)), C: round(ct)}
		for i := range re {
			s.Lambda = append(s.Lambda, complex(-math.Exp(float64(re[i])), float64(im[i])))
		}
		for _, row := range normal.P {
			pp = append(pp, flat(row)...)
			s.P = append(s.P, round(flat(row)))
		}
		if s.C, err = s.UntruncatedC(l); err != nil {
			t.Fatal(err)
		}
		p := &engine.DPLRParams{LogDt: tensor.FromSlice([]float32{float32(math.Log(0.01))}, 1),
			InvAReal: tensor.FromSlice(re, 1, n/2),
			AImag:    tensor.FromSlice(im, 1, n/2), B: tensor.FromSlice(flat(normal.B), 1, n/2, 2),
			P: tensor.FromSlice(pp, len(normal.P), 1, n/2, 2), Ct: tensor.FromSlice(ct, 1, n/2, 2), L: l}
		tape := NewTape()
		compare(t, measure, tape.KernelRows(tape.DPLRKernel(tape.DPLRSystem(p), l), 1).Data(), s.Kernel(l), 2e-6)
	}
}

// TestDPLRKeepsKernels checks that without gradients, kernels that were computed before are used again for the same
// number of steps or fewer, until a parameter changes or more steps are wanted.
func TestDPLRKeepsKernels(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 9))
	const h, n, l = 3, 2, 90
	p := randomDPLR(rng, h, n, l)
	tape := NewTape()
	check := func(l int) {
		t.Helper()
		u, r := randomTensor(rng, l, h), engine.NewRows(l)
		got := tape.DPLRSSM(u, tape.DPLRSystem(p), nil, r, nil)
		fresh := &engine.DPLRParams{LogDt: p.LogDt, InvAReal: p.InvAReal, AImag: p.AImag, B: p.B, P: p.P, Ct: p.Ct,
			L: p.L}
		want := tape.DPLRSSM(u, tape.DPLRSystem(fresh), nil, r, nil)
		if !slices.Equal(got.Data(), want.Data()) {
			t.Errorf("%d steps: found other outputs than with new kernels", l)
		}
	}
	check(70)
	first := dplrOf(tape.DPLRSystem(p)).given.Load()
	check(70)
	check(66)
	if dplrOf(tape.DPLRSystem(p)).given.Load() != first {
		t.Error("found kernels made again, want those that were kept")
	}
	check(l)
	p.Ct.CopyFrom(randomTensor(rng, h, n, 2).Data())
	check(l)
}

// TestDPLRSystemsTakeTurns checks that a system with gradients that reuses the memory of another with as many numbers
// has its own shapes.
func TestDPLRSystemsTakeTurns(t *testing.T) {
	rng, tape := rand.New(rand.NewPCG(3, 1)), NewTape()
	tape.Record(true)
	for _, h := range []int{4, 2, 8} {
		p := randomDPLR(rng, h, 8/h, 5)
		p.Ct.SetNeedsGrad(true)
		s := tape.DPLRSystem(p)
		if got, want := s.Lambda.Shape(), []int{h, 8 / h, 2}; !slices.Equal(got, want) {
			t.Errorf("Λ is of shape %v, want %v", got, want)
		}
		if got, want := s.P.Shape(), []int{1, h, 8 / h, 2}; !slices.Equal(got, want) {
			t.Errorf("P is of shape %v, want %v", got, want)
		}
		tape.Reset()
	}
}

// TestWideStorage checks that Like returns storage of the requested size, and that values that are not finite are found
// in both parts of a number.
func TestWideStorage(t *testing.T) {
	if n := (&complexes{}).Like(6).Len(); n != 6 {
		t.Errorf("storage for 6 numbers has %d", n)
	}
	inf, nan := math.Inf(1), math.NaN()
	for x, want := range map[complex128]bool{1 - 2i: true, complex(inf, 0): false, complex(0, -inf): false,
		complex(nan, 0): false, complex(0, nan): false} {
		if got := finiteWide(&complexes{x: []complex128{0, x}}); got != want {
			t.Errorf("%v: finite is %v, want %v", x, got, want)
		}
	}
}
