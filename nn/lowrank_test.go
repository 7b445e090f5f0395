package nn

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/engine/cpu"
	"github.com/hippo-ssm/hippo/internal/counter"
	"github.com/hippo-ssm/hippo/tensor"
)

// TestLowRankDropout checks that with dropout y = x Wᵀ + bias + α/r·(dropout(x) Aᵀ) Bᵀ, which is computed here in
// float64 with the masks as defined, which depend on the seeds of the rows and the number of the dropout. x Wᵀ has no
// dropout. Rows that do not train, and passes without rows, have the bits of no dropout.
func TestLowRankDropout(t *testing.T) {
	const n, k, r, p, scale = 4, 5, 2, 0.4, 1.5
	lengths, seeds := []int{3, 2}, []uint64{7, 9}
	rng := rand.New(rand.NewPCG(1, 2))
	values := func(count int) []float32 {
		x := make([]float32, count)
		for i := range x {
			x[i] = float32(rng.NormFloat64())
		}
		return x
	}
	m := NewLinear(k, n, 1)
	m.Weight.Change = NewLowRank(n, k, r, scale)
	c := m.Weight.Change
	w, b, down, up, x := values(n*k), values(n), values(r*k), values(n*r), values(5*k)
	for _, set := range []struct {
		p *Param
		x []float32
	}{{m.Weight, w}, {m.Bias, b}, {c.A, down}, {c.B, up}} {
		set.p.SetData(set.x)
	}
	forward := func(calls int, p float64, rows *engine.Rows) []float32 {
		tape := autograd.NewTape(cpu.Backend{})
		c.Dropout = p
		in := tape.New(5, k)
		in.CopyFrom(x)
		tape.Over(rows)
		var y *tensor.Tensor
		for range calls {
			y = m.Forward(tape, in)
		}
		out := make([]float32, y.Len())
		y.CopyTo(out)
		return out
	}
	rows := engine.NewRows(lengths...)
	rows.Train(seeds)
	for calls := 1; calls <= 2; calls++ {
		got := forward(calls, p, rows)
		for row, at := 0, 0; row < len(lengths); row++ {
			for i := range lengths[row] {
				dropped := make([]float64, k)
				for j := range k {
					if counter.Keep(rows.Seed(row, uint64(calls)), i*k+j, counter.KeepThreshold(p)) {
						dropped[j] = float64(x[at*k+j]) / (1 - p)
					}
				}
				for o := range n {
					want := float64(b[o])
					for j := range k {
						want += float64(x[at*k+j]) * float64(w[o*k+j])
						for l := range r {
							want += scale * dropped[j] * float64(down[l*k+j]) * float64(up[o*r+l])
						}
					}
					if math.Abs(float64(got[at*n+o])-want) > 1e-5 {
						t.Fatalf("call %d, position %d, output %d: found %g, want %g", calls, at, o, got[at*n+o], want)
					}
				}
				at++
			}
		}
	}
	plain := forward(1, 0, rows)
	if !slices.Equal(forward(1, p, engine.NewRows(lengths...)), plain) || !slices.Equal(forward(1, p, nil), plain) {
		t.Error("something was dropped in rows that do not train")
	}
}
