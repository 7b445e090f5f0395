package mixer

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/testkit/golden"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// softplusOf is the function log(1 + eˣ).
var softplusOf = pointwise(func(x float64) float64 { return math.Log1p(math.Exp(x)) })

// filtered returns the short filter of a sequence: silu(bias + Σ_j w[j] x[t-taps+1+j]).
func filtered(c *shortConv, x matrix) matrix {
	w, bias := read(c.weight.Tensor), read(c.bias.Tensor)
	taps := len(w) / len(bias)
	out := make(matrix, len(x))
	for t := range x {
		out[t] = make([]float64, len(bias))
		for i := range out[t] {
			out[t][i] = float64(bias[i])
			for j := range taps {
				if from := t - taps + 1 + j; from >= 0 {
					out[t][i] += float64(w[i*taps+j]) * x[from][i]
				}
			}
		}
	}
	return out.each(siluOf)
}

// mambaBySteps computes Mamba for a sequence whose position t is r[t] steps after the previous one: h[t] =
// exp(r[t]·Δ[t]·A) h[t-1] + r[t]·Δ[t]·B[t]·x[t].
func mambaBySteps(m *Mamba, u matrix, r []float64) matrix {
	n, d := m.opt.DState, m.d
	xz := u.each(affine(m.In))
	x := filtered(&m.Conv, xz.columns(0, d))
	p := x.each(affine(m.X))
	dt := p.columns(0, m.opt.DtRank).each(affine(m.Dt)).each(softplusOf)
	a, skip, h := read(m.ALog.Tensor), read(m.D.Tensor), make([]float64, d*n)
	out := make(matrix, len(u))
	for t := range u {
		out[t] = make([]float64, d)
		gate := siluOf(xz[t][d:])
		b, c := p[t][m.opt.DtRank:][:n], p[t][m.opt.DtRank+n:]
		for i := range d {
			step, y := r[t]*dt[t][i], float64(skip[i])*x[t][i]
			for k := range n {
				h[i*n+k] = math.Exp(-step*math.Exp(float64(a[i*n+k])))*h[i*n+k] + step*b[k]*x[t][i]
				y += c[k] * h[i*n+k]
			}
			out[t][i] = y * gate[i]
		}
	}
	return out.each(affine(m.Out))
}

// mamba2BySteps is the same for Mamba-2 with one group and without a norm.
func mamba2BySteps(m *Mamba2, u matrix, r []float64) matrix {
	n, d, hd := m.opt.DState, m.d, m.opt.HeadDim
	in := u.each(affine(m.In))
	xbc := filtered(&m.Conv, in.columns(d, 2*d+2*n))
	bias, a, skip := read(m.DtBias.Tensor), read(m.ALog.Tensor), read(m.D.Tensor)
	h, out := make([]float64, d*n), make(matrix, len(u))
	for t := range u {
		out[t] = make([]float64, d)
		gate := siluOf(in[t][:d])
		b, c := xbc[t][d:][:n], xbc[t][d+n:]
		for i := range d {
			head, x := i/hd, xbc[t][i]
			step := r[t] * softplusOf([]float64{in[t][2*d+2*n+head] + float64(bias[head])})[0]
			y := float64(skip[head]) * x
			for k := range n {
				h[i*n+k] = math.Exp(-step*math.Exp(float64(a[head])))*h[i*n+k] + step*b[k]*x
				y += c[k] * h[i*n+k]
			}
			out[t][i] = y * gate[i]
		}
	}
	return out.each(affine(m.Out))
}

// TestMixersGoBySteps checks that with the times between positions as steps, outputs and gradients are those of the
// formula in float64 whose discretization steps are multiplied by them, for whole sequences, recorded or not, and
// position by position. Steps of 1 change no bit. Mixers whose traits do not have Steps ignore them.
func TestMixersGoBySteps(t *testing.T) {
	const b, l, eps = 2, 40, 1e-3
	rng := rand.New(rand.NewPCG(8, 9))
	steps, wideSteps := make([]float32, b*l), make([]float64, b*l)
	for i := range steps {
		steps[i] = float32(math.Exp(rng.NormFloat64()))
		wideSteps[i] = float64(steps[i])
	}
	u := sequences(3, b, l)
	weight := make([]float64, u.Len()) // weights of the outputs in the loss whose gradients are checked
	for i := range weight {
		weight[i] = rng.NormFloat64()
	}
	for _, c := range []struct {
		variant
		formula func(m Mixer, u matrix, r []float64) matrix
		params  func(m Mixer) []*nn.Param
	}{
		{variant{name: "mamba", build: MambaInfo.New, cfg: Config{Options: Options{"d_state": "4"}}},
			func(m Mixer, u matrix, r []float64) matrix { return mambaBySteps(m.(*Mamba), u, r) },
			func(m Mixer) []*nn.Param { return []*nn.Param{m.(*Mamba).Dt.Bias, m.(*Mamba).ALog} }},
		{variant{name: "mamba2", build: Mamba2Info.New, cfg: Config{Options: Options{"d_state": "4", "headdim": "8",
			"rmsnorm": "false"}}},
			func(m Mixer, u matrix, r []float64) matrix { return mamba2BySteps(m.(*Mamba2), u, r) },
			func(m Mixer) []*nn.Param { return []*nn.Param{m.(*Mamba2).DtBias, m.(*Mamba2).ALog} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := c.mixer(t)
			formula := func() (all []float64) {
				for i := range b {
					part := rowsFrom(u.Data()[i*l*dModel:(i+1)*l*dModel], dModel)
					all = append(all, c.formula(m, part, wideSteps[i*l:(i+1)*l]).flat()...)
				}
				return all
			}
			want := formula()
			rows := equalRows(b, l)
			rows.Steps = steps
			tape := recording()
			golden.Close(t, "y", read(m.Forward(newTape(), u, rows)), want, formulaTol)
			y := m.Forward(tape, u, rows)
			golden.Close(t, "y, recorded", read(y), want, formulaTol)
			golden.Close(t, "y, position by position", byPosition(m, u, l, steps), want, formulaTol)

			g := make([]float32, len(weight))
			for i, w := range weight {
				g[i] = float32(w)
			}
			tape.BackwardFrom(y, tensor.FromSlice(g, y.Shape()...))
			for _, p := range c.params(m) {
				got := gradient(tape, p.Tensor)
				x := read(p.Tensor)
				for i := range min(2, len(x)) {
					loss := func(by float32) (sum float64) {
						changed := slices.Clone(x)
						changed[i] += by
						p.CopyFrom(changed)
						for k, v := range formula() {
							sum += v * weight[k]
						}
						p.CopyFrom(x)
						return sum
					}
					slope := (loss(eps) - loss(-eps)) / (2 * eps)
					if math.Abs(slope-float64(got[i])) > 1e-3*(1+math.Abs(slope)) {
						t.Errorf("gradient %d: found %g, want %g", i, got[i], slope)
					}
				}
			}

			rows.Steps = filled(b*l, 1)
			same := read(m.Forward(newTape(), u, rows))
			if !slices.Equal(same, read(m.Forward(newTape(), u, equalRows(b, l)))) {
				t.Error("steps of 1 change the outputs")
			}
		})
	}
	for _, v := range variants() {
		m, rows := v.mixer(t), equalRows(b, l)
		plain := read(m.Forward(newTape(), u, rows))
		rows.Steps = steps
		if same := slices.Equal(plain, read(m.Forward(newTape(), u, rows))); same == m.Traits().Steps {
			t.Errorf("%s: steps change nothing: %v, though it says that it goes by them: %v", v.name, same,
				m.Traits().Steps)
		}
	}
}

// TestInputsAreHeld checks that a position r steps after the previous one has the outputs of a system that gets its
// input r times, by convolution, for whole sequences and position by position. Systems that normally use the bilinear
// rule are compared with zero-order hold. H3's shift ignores steps: it has none greater than 1.
func TestInputsAreHeld(t *testing.T) {
	const b, l = 2, 40
	rng := rand.New(rand.NewPCG(10, 11))
	zoh := func(d *Diagonal) { d.params.Disc = engine.ZOH }
	for _, c := range []struct {
		variant
		even func(m Mixer)
		most int
	}{
		{variant{name: "s4d", build: S4DInfo.New,
			cfg: Config{DState: 8, Options: Options{"train_b": "true", "channels": "2"}}}, nil, 4},
		{variant{name: "bilinear s4d", build: S4DInfo.New,
			cfg: Config{DState: 8, Options: Options{"disc": "bilinear"}}},
			func(m Mixer) { m.(*S4D).systems[0] = s4dByZOH(m.(*S4D)) }, 4},
		{variant{name: "real s4d", build: S4DInfo.New,
			cfg: Config{DState: 8, Options: Options{"real": "true"}}}, nil, 4},
		{variant{name: "dss", build: DSSInfo.New, cfg: Config{DState: 8}}, nil, 4},
		{variant{name: "gss", build: GSSInfo.New, cfg: Config{DState: 8}}, func(m Mixer) { zoh(&m.(*GSS).Diag) }, 4},
		{variant{name: "h3", build: H3Info.New, cfg: Config{DState: 8, HeadDim: 1}},
			func(m Mixer) { zoh(&m.(*H3).Diag) }, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := c.mixer(t)
			u := sequences(3, b, l)
			steps, held := make([]float32, b*l), &Rows{Rows: &engine.Rows{}}
			var long, last []float32 // the inputs, each repeated for its duration; where each ends
			for i := range b {
				from := len(long)
				for at := i * l; at < (i+1)*l; at++ {
					steps[at] = float32(1 + rng.IntN(c.most))
					for range int(steps[at]) {
						long = append(long, u.Data()[at*dModel:][:dModel]...)
					}
					last = append(last, float32(len(long)/dModel-1))
				}
				held.Add((len(long)-from)/dModel, 0)
			}
			rows := equalRows(b, l)
			rows.Steps = steps
			uneven, one := read(m.Forward(newTape(), u, rows)), byPosition(m, u, l, steps)
			if c.even != nil {
				c.even(m)
			}
			all := read(m.Forward(newTape(), tensor.FromSlice(long, len(long)/dModel, dModel), held))
			var want []float64
			for _, at := range last {
				for _, x := range all[int(at)*dModel:][:dModel] {
					want = append(want, float64(x))
				}
			}
			golden.Close(t, "y", uneven, want, formulaTol)
			golden.Close(t, "y, position by position", one, want, formulaTol)
			if !m.Traits().Steps {
				t.Error("it does not say that it goes by steps")
			}
		})
	}
}

// s4dByZOH returns the first system of m, discretized by zero-order hold.
func s4dByZOH(m *S4D) system {
	params := &engine.DiagParams{LogDt: m.LogDt.Tensor, InvAReal: m.LogAReal.Tensor, AImag: m.AImag.Tensor,
		C: m.C[0].Tensor, Disc: engine.ZOH}
	of := func(t *autograd.Tape) *engine.DiagSystem { return t.DiagSystem(params) }
	return diagonalSystem(of, of)
}

// byPosition returns the output of a mixer that reads its sequences position by position.
func byPosition(m Mixer, u *tensor.Tensor, l int, steps []float32) []float32 {
	b, tape := u.Rows()/l, newTape()
	y := make([]float32, u.Len())
	for i := range b {
		states := Begin(m.NewState())
		for at := range l {
			r := &Rows{Rows: &engine.Rows{}, States: states, Steps: steps[i*l+at:][:1]}
			r.Add(1, at)
			lo := (i*l + at) * dModel
			one := tensor.FromSlice(slices.Clone(u.Data()[lo:lo+dModel]), 1, dModel)
			copy(y[lo:], read(m.Forward(tape, one, r)))
		}
	}
	return y
}
