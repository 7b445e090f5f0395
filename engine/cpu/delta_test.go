package cpu

import (
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/tensor"
)

// randomDelta returns inputs of l positions for a form: "gated", "free" or "decay", with decays by row if rows is set.
func randomDelta(rng *rand.Rand, form string, rows bool, l, h, dk, dv int) engine.Delta {
	change := func(x *tensor.Tensor, f func(v float64) float64) *tensor.Tensor {
		for i, v := range x.Data() {
			x.Data()[i] = float32(f(float64(v)))
		}
		return x
	}
	unit := func(v float64) float64 { return v / math.Sqrt(float64(dk)) }
	x := engine.Delta{Q: change(randomTensor(rng, l, h*dk), unit), K: change(randomTensor(rng, l, h*dk), unit),
		V: randomTensor(rng, l, h*dv), Heads: h, KeyHeads: h}
	g := h
	if rows {
		g = h * dk
	}
	x.G = change(randomTensor(rng, l, g), func(v float64) float64 { return -0.1 * math.Exp(v) })
	switch form {
	case "gated":
		x.Beta = change(randomTensor(rng, l, h), func(v float64) float64 { return 1 / (1 + math.Exp(-v)) })
	case "free":
		x.A, x.B = change(randomTensor(rng, l, h*dk), unit), change(randomTensor(rng, l, h*dk), unit)
		for i, v := range x.B.Data() {
			x.A.Data()[i] = -0.5 * v
		}
	}
	return x
}

// TestDeltaSegments checks that a row that is longer than the segment for which backward holds states has, to the bit,
// the gradients of the same row in two calls, of which the second begins with the state after the first. The same holds
// on many cores, where heads that share a key head are computed separately and no scores are kept.
func TestDeltaSegments(t *testing.T) {
	const h, dk, dv, cut, l = 2, 5, 3, deltaBlock * deltaSegment, deltaBlock*deltaSegment*2 + 40
	for _, form := range []string{"gated", "free", "decay"} {
		for _, rows := range []bool{false, true} {
			rng := rand.New(rand.NewPCG(5, 1))
			x := randomDelta(rng, form, rows, l, h, dk, dv)
			x.KeyHeads = 1
			x.Q, x.K = randomTensor(rng, l, dk), randomTensor(rng, l, dk)
			for i := range x.K.Data() {
				x.K.Data()[i] /= 3
			}
			first, dy := randomTensor(rng, h, dk, dv), randomTensor(rng, l, h*dv)
			gradients := func(ends ...int) (grads [][]float32) {
				tape := NewTape()
				tape.Record(true)
				start := tensor.FromSlice(first.Data(), h, dk, dv)
				start.SetNeedsGrad(true)
				slots := engine.Slots{&engine.Slot{X: start}}
				grads = append(grads, make([]float32, first.Len()))
				for _, u := range x.Inputs() {
					grads = append(grads, make([]float32, u.Len()))
				}
				var parts []engine.Delta
				from := 0
				for _, end := range ends {
					part := x
					of := func(u *tensor.Tensor) *tensor.Tensor {
						if u == nil {
							return nil
						}
						n := u.Dim(-1)
						u = tensor.FromSlice(u.Data()[from*n:end*n], end-from, n)
						u.SetNeedsGrad(true)
						return u
					}
					part.Q, part.K, part.V, part.G = of(x.Q), of(x.K), of(x.V), of(x.G)
					part.Beta, part.A, part.B = of(x.Beta), of(x.A), of(x.B)
					y := tape.DeltaRule(part, engine.NewRows(end-from), slots)
					tape.Seed(y, dy.Data()[from*h*dv:end*h*dv])
					parts, from = append(parts, part), end
				}
				tape.BackwardSeeded()
				tape.Grad(start, grads[0])
				from = 0
				for i, part := range parts {
					for j, u := range part.Inputs() {
						tape.Grad(u, grads[1+j][from*u.Dim(-1):])
					}
					from = ends[i]
				}
				return grads
			}
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
			whole, cuts := gradients(l), gradients(cut, l)
			runtime.GOMAXPROCS(4)
			apart := gradients(l)
			for i := range whole {
				if !slices.Equal(whole[i], apart[i]) {
					t.Errorf("%s, decays by row %v: gradient %d differs on many cores", form, rows, i)
				}
				if !slices.Equal(whole[i], cuts[i]) {
					t.Errorf("%s, decays by row %v: gradient %d of a row differs from that of its parts", form, rows, i)
				}
			}
		}
	}
}

// BenchmarkDelta measures the forward, the backward and steps of 16 heads of keys and values of 128 components along a
// sequence, and the product of a block of keys and a state for comparison.
func BenchmarkDelta(b *testing.B) {
	const h, d, l = 16, 128, 512
	rng := rand.New(rand.NewPCG(3, 1))
	each := func(b *testing.B, n int, f func()) {
		for b.Loop() {
			f()
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n*h)/1000, "µs/head")
	}
	b.Run("product", func(b *testing.B) {
		x, y, z := randomTensor(rng, 64, d), randomTensor(rng, d, d), randomTensor(rng, 64, d)
		for b.Loop() {
			kernel.GemmInline(kernel.Product{Op: kernel.NN, M: 64, N: d, K: d, A: x.Data(), LDA: d, B: y.Data(), LDB: d,
				C: z.Data(), LDC: d})
		}
		b.ReportMetric(2*64*d*d*float64(b.N)/float64(b.Elapsed().Nanoseconds()), "GF/s")
	})
	for _, form := range []string{"gated", "free", "decay"} {
		for name, rows := range map[string]bool{"": false, "_by_row": true} {
			x := randomDelta(rng, form, rows, l, h, d, d)
			b.Run(form+name+"/forward", func(b *testing.B) {
				tape, r := NewTape(), engine.NewRows(l)
				each(b, l/64, func() {
					tape.DeltaRule(x, r, nil)
					tape.Reset()
				})
			})
			b.Run(form+name+"/both", func(b *testing.B) {
				tape, r := NewTape(), engine.NewRows(l)
				tape.Record(true)
				for _, u := range x.Inputs() {
					u.SetNeedsGrad(true)
				}
				dy := randomTensor(rng, l, h*d)
				each(b, l/64, func() {
					y := tape.DeltaRule(x, r, nil)
					tape.Seed(y, dy.Data())
					tape.BackwardSeeded()
					tape.Reset()
				})
			})
			b.Run(form+name+"/step", func(b *testing.B) {
				tape, r := NewTape(), engine.NewRows(1)
				one := x
				cut := func(x *tensor.Tensor) *tensor.Tensor {
					if x == nil {
						return nil
					}
					return tensor.FromSlice(x.Data()[:x.Dim(-1)], 1, x.Dim(-1))
				}
				one.Q, one.K, one.V, one.G = cut(x.Q), cut(x.K), cut(x.V), cut(x.G)
				one.Beta, one.A, one.B = cut(x.Beta), cut(x.A), cut(x.B)
				slots := engine.Slots{&engine.Slot{X: tensor.New(h, d, d)}}
				each(b, 1, func() {
					tape.DeltaRule(one, r, slots)
					tape.Reset()
				})
			})
		}
	}
}
