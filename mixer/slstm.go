package mixer

import (
	"math/rand/v2"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// SLSTM is the layer of "xLSTM: Extended Long Short-Term Memory" (arXiv:2405.04517, §2.2) with a scalar memory and
// exponential gates, as in TiRex (arXiv:2505.23719):
//
//	(i, f, z, o) = W x[t] + R h[t-1] + b;   f' = log σ(min(f, 15));   m[t] = max(f' + m[t-1], i)
//	c[t] = e^(f'+m[t-1]-m[t])·c[t-1] + e^(i-m[t])·tanh(z), n[t] likewise of 1;   h[t] = σ(o)·c[t]/n[t]
//	y = Out( LayerNorm(h) )
//
// W and R are block diagonal, with a block for each head. The norm is over each head, with weights 1 + w and no biases.
// Since the recurrence goes through h, it is computed position by position. The state is h, c, n and m, (d_model) each.
//
// Deliberate difference: Out. The published layer has no last projection; out_proj=false omits it.
type SLSTM struct {
	W            [4]*nn.Param // of i, f, z and o: (heads, d/heads, d/heads)
	R, Bias      *nn.Param
	Norm         *nn.Param
	Out          *nn.Linear // nil for none
	opt          slstmOptions
	d            int
	plusOne, not func() *tensor.Tensor
}

// SLSTMInfo describes SLSTM.
var SLSTMInfo = Info{
	Name:   "slstm",
	Paper:  "xLSTM: Extended Long Short-Term Memory, arXiv:2405.04517",
	Time:   "l·d²·(8/heads + 1), one position after the other",
	State:  "4·d",
	Causal: true, Recurrent: true, Builder: builder(slstmDefaults, newSLSTM),
	Tiny: Tiny{DModel: 128, NLayer: 4, DInner: 640},
}

type slstmOptions struct {
	NumHeads int     `json:"num_heads" help:"heads, which do not see each other's states"`
	OutProj  bool    `json:"out_proj" help:"a last projection, which the published layer does not have"`
	NormEps  float64 `json:"norm_eps" min:"0" help:"epsilon of the norm"`
}

func slstmDefaults(c Config) slstmOptions {
	return slstmOptions{NumHeads: c.NumHeads, OutProj: true, NormEps: 1e-5}
}

// newSLSTM returns an sLSTM mixer whose parameters have no values yet.
func newSLSTM(cfg Config, o slstmOptions) (Mixer, error) {
	d := cfg.DModel
	if err := checkHeads(o.NumHeads, d); err != nil {
		return nil, err
	}
	n := d / o.NumHeads
	m := &SLSTM{
		R: nn.NewParam(nn.SSM, nn.Constant(0), o.NumHeads, n, 4*n), Bias: nn.NewParam(nn.Bias, slstmStart(n), 4*d),
		Norm: nn.NewParam(nn.Norm, nn.Constant(0), d), opt: o, d: d, plusOne: ones(d), not: zeros(d),
	}
	for i := range m.W {
		m.W[i] = nn.NewParam(nn.Mixing, nn.Normal(nn.InitStd), o.NumHeads, n, n)
	}
	if o.OutProj {
		m.Out = projection(d, d, cfg.NLayer, false)
	}
	return m, nil
}

// slstmStart returns an Init in which forget gates start open, from 3 to 6 over the n channels of a head, and others at
// 0.
func slstmStart(n int) func(*rand.Rand, []float32) {
	return func(rng *rand.Rand, x []float32) {
		clear(x)
		for ; len(x) > 0; x = x[4*n:] {
			evenly(3, 6)(rng, x[n:2*n])
		}
	}
}

// Forward maps the rows of u (n, d_model) to y of the same shape.
func (m *SLSTM) Forward(t *autograd.Tape, u *tensor.Tensor, r *Rows) *tensor.Tensor {
	x := engine.SLSTM{X: u, R: m.R.Tensor, Bias: m.Bias.Tensor, Heads: m.opt.NumHeads}
	for i, w := range m.W {
		x.W[i] = w.Tensor
	}
	h := t.SLSTM(x, r.Rows, engine.SLSTMSlots{Y: r.fixed(0), C: r.fixed(1), N: r.fixed(2), M: r.fixed(3)})
	y := t.LayerNorm(h, t.Add(m.Norm.Tensor, m.plusOne()), m.not(), m.opt.NumHeads, m.opt.NormEps)
	if m.Out == nil {
		return y
	}
	return m.Out.Forward(t, y)
}

// NewState returns the state before the first position, zeros.
func (m *SLSTM) NewState() State {
	d := []int{m.d}
	return newFixedState([]string{"y", "c", "n", "m"}, d, d, d, d)
}

// Traits returns the traits of a recurrence.
func (m *SLSTM) Traits() Traits { return Traits{} }

// Params visits the parameters under their official names. In the release, the tensor named after the forget gate
// controls the input gate and vice versa, since it joins them in one order and splits them in another.
func (m *SLSTM) Params(prefix string, visit nn.Visitor) {
	for i, gate := range []string{"fgate", "igate", "zgate", "ogate"} {
		visit(prefix+gate+".weight", m.W[i])
	}
	visit(prefix+"slstm_cell._recurrent_kernel_", m.R)
	visit(prefix+"slstm_cell._bias_", m.Bias)
	visit(prefix+"group_norm.weight", m.Norm)
	if m.Out != nil {
		m.Out.Params(prefix+"out_proj.", visit)
	}
}

func (m *SLSTM) last() (**nn.Linear, Interior) { return &m.Out, Interior{Heads: m.opt.NumHeads} }

// stateRules returns the rules that no part is linear: all go through the gates, which depend on the output.
func (m *SLSTM) stateRules(*autograd.Tape) map[string]StateRule {
	not := StateRule{NotLinear: true}
	return map[string]StateRule{"y": not, "c": not, "n": not, "m": not}
}
