package action

import (
	"math"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// scalarMemory is an sLSTM whose gates and factors tanh(z)/z are held fixed. W, R and b are only the part z:
//
//	c[t] = ā·c[t-1] + ī·(tanh(z)/z)·(W x[t] + R y[t-1] + b),   y[t] = (σ(o)/n[t])·c[t]
type scalarMemory struct {
	engine            engine.Engine
	w, r, bias        *tensor.Tensor // (d, d) twice, (d)
	keep, write, read []*tensor.Tensor
}

// newScalarMemory computes the gates from the inputs and the results y of one sequence, from its start.
func newScalarMemory(eng engine.Engine, x *engine.SLSTM, y []float32) *scalarMemory {
	d, n := x.X.Dim(-1), x.HeadDim()
	in, r, bias := x.X.Floats(), x.R.Floats(), x.Bias.Floats()
	var w [4][]float32
	for g := range w {
		w[g] = x.W[g].Floats()
	}
	m := &scalarMemory{engine: eng}
	dense, back, shift := make([]float32, d*d), make([]float32, d*d), make([]float32, d)
	for c := range d {
		shift[c] = bias[(c/n*4+2)*n+c%n]
		for k := range n {
			at := c*d + c/n*n + k
			dense[at], back[at] = w[2][c*n+k], r[(c/n*n+k)*4*n+2*n+c%n]
		}
	}
	m.w, m.r, m.bias = tensor.FromSlice(dense, d, d), tensor.FromSlice(back, d, d), tensor.FromSlice(shift, d)
	norm, most := make([]float64, d), make([]float64, d) // n and m
	for t := range x.X.Rows() {
		keep, write, read := make([]float32, d), make([]float32, d), make([]float32, d)
		for c := range d {
			var raw [4]float64
			for g := range raw {
				raw[g] = float64(bias[(c/n*4+g)*n+c%n])
				for k := range n {
					raw[g] += float64(w[g][c*n+k]) * float64(in[t*d+c/n*n+k])
					if t > 0 {
						raw[g] += float64(r[(c/n*n+k)*4*n+g*n+c%n]) * float64(y[(t-1)*d+c/n*n+k])
					}
				}
			}
			kept := most[c] - math.Log1p(math.Exp(-math.Min(raw[1], engine.SLSTMForgets)))
			next := math.Max(kept, raw[0])
			if t == 0 {
				next = raw[0]
			}
			a, i := math.Exp(math.Min(0, kept-next)), math.Exp(raw[0]-next)
			norm[c], most[c] = a*norm[c]+i, next
			factor := 1.0
			if math.Abs(raw[2]) > 1e-12 {
				factor = math.Tanh(raw[2]) / raw[2]
			}
			keep[c], write[c], read[c] = float32(a), float32(i*factor), float32(1/(1+math.Exp(-raw[3]))/norm[c])
		}
		m.keep, m.write = append(m.keep, tensor.FromSlice(keep, 1, d)), append(m.write, tensor.FromSlice(write, 1, d))
		m.read = append(m.read, tensor.FromSlice(read, 1, d))
	}
	return m
}

// run computes the recurrence for other inputs.
func (m *scalarMemory) run(x *tensor.Tensor) *tensor.Tensor {
	eng := m.engine
	in := eng.Linear(x, m.w, m.bias, engine.None)
	var c *tensor.Tensor
	var all []*tensor.Tensor
	for t := range x.Rows() {
		z := eng.Slice(in, t, 1)
		if t > 0 {
			z = eng.Add(z, eng.Linear(all[t-1], m.r, nil, engine.None))
			c = eng.Add(eng.Mul(c, m.keep[t]), eng.Mul(z, m.write[t]))
		} else {
			c = eng.Mul(z, m.write[t])
		}
		all = append(all, eng.Mul(c, m.read[t]))
	}
	if len(all) == 1 {
		return all[0]
	}
	return eng.Stack(all...)
}
