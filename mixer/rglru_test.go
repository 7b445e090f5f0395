package mixer

import (
	"math"
	"testing"

	"github.com/hippo-ssm/hippo/internal/testkit/golden"
)

// TestRGLRUIsItsFormula compares with the paper's equations in float64, computed step by step, with a filter of three
// taps, including the first position of a sequence.
func TestRGLRUIsItsFormula(t *testing.T) {
	golden.Of(t, "rg-lru")
	const l, width, heads, taps = 12, 6, 2, 3
	m := variant{"rg_lru", RGLRUInfo.New,
		Config{NumHeads: heads, Options: Options{"width": "6", "d_conv": "3"}}, true}.mixer(t).(*RGLRU)
	x := sequences(3, 1, l)
	rows := rowsFrom(read(x), dModel)
	in, y := rows.each(affine(m.X)), rows.each(affine(m.Y)).each(pointwise(geluTanh64))
	taken, bias := read(m.Conv.weight.Tensor), read(m.Conv.bias.Tensor)
	h, lambda := make([]float64, width), wide(read(m.Lambda.Tensor))
	var out matrix
	for t := range l {
		u, gated := make([]float64, width), make([]float64, width)
		for c := range u {
			u[c] = float64(bias[c])
			for k := range taps {
				if at := t - taps + 1 + k; at >= 0 {
					u[c] += float64(taken[c*taps+k]) * in[at][c]
				}
			}
		}
		for c := range u {
			head, part := c/(width/heads), c%(width/heads)
			block := u[head*(width/heads):][:width/heads]
			gate := func(g blockGate) float64 {
				z := float64(read(g.bias.Tensor)[c])
				for j, v := range block {
					z += float64(read(g.weight.Tensor)[(head*len(block)+j)*len(block)+part]) * v
				}
				return 1 / (1 + math.Exp(-z))
			}
			r, i := gate(m.Recurrent), gate(m.Input)
			a := math.Exp(-8 * r * math.Log1p(math.Exp(lambda[c])))
			h[c] = a*h[c] + math.Sqrt(1-a*a)*i*u[c]
			if t == 0 {
				h[c] = i * u[c]
			}
			gated[c] = h[c] * y[t][c]
		}
		out = append(out, affine(m.Out)(gated))
	}
	got := m.Forward(newTape(), x, equalRows(1, l))
	golden.Close(t, "y", read(got), out.flat(), formulaTol)
}

// geluTanh64 returns the tanh approximation of GELU.
func geluTanh64(x float64) float64 {
	return x / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
}
