package mixer

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// MLSTM is the layer of xLSTM-7B (arXiv:2503.13427, §3) around the matrix memory of "xLSTM: Extended Long Short-Term
// Memory" (arXiv:2405.04517, §2.3):
//
//	q, k, v = Q(x)/√dk, K(x), V(x);   i, f = cap(I(x)), log σ(cap(F(x)));   cap(z) = 15·tanh(z/15)
//	m[t] = max(f[t] + m[t-1], i[t]);   n[t] = e^(f[t]+m[t-1]-m[t])·n[t-1] + e^(i[t]-m[t])·k[t]
//	C[t] = e^(f[t]+m[t-1]-m[t])·C[t-1] + e^(i[t]-m[t])·k[t]·v[t]ᵀ
//	h[t] = C[t]ᵀ·q[t] / (max(|n[t]·q[t]|, e^-m[t]) + ε);   y = Out( LayerNorm(h) ⊙ σ(O(x)) )
//
// for each head, with numbers i and f. The norm is over each head, without biases. The state is C (heads, dk, dv), the
// normalizer n (heads, dk) and the stabilizer m (heads).
type MLSTM struct {
	Q, K, V, O, I, F, Out *nn.Linear
	Norm                  *nn.Param // (v_dim)

	opt mlstmOptions
	no  func() *tensor.Tensor // biases of the norm
}

// MLSTMInfo describes MLSTM.
var MLSTMInfo = Info{
	Name:  "mlstm",
	Paper: "xLSTM: Extended Long Short-Term Memory, arXiv:2405.04517",
	Time:  "l·d·(dk + block) + l·d²", State: "d·dk",
	Causal: true, Recurrent: true, Builder: builder(mlstmDefaults, newMLSTM),
	Tiny: Tiny{DModel: 128, NLayer: 4, DInner: 576},
}

type mlstmOptions struct {
	NumHeads int     `json:"num_heads" help:"heads, each with a matrix memory of its own"`
	KeyDim   int     `json:"qk_dim" min:"0" max:"65536" help:"components of queries and keys; 0 for d_model/2"`
	ValueDim int     `json:"v_dim" min:"0" max:"65536" help:"components of values; 0 for d_model"`
	Cap      float64 `json:"gate_soft_cap" min:"0" help:"gates are between -cap and cap; 0 for any"`
	Eps      float64 `json:"eps" min:"0" help:"added to the denominator"`
	NormEps  float64 `json:"norm_eps" min:"0" help:"epsilon of the norm"`
}

// mlstmDefaults returns the options of xLSTM-7B.
func mlstmDefaults(c Config) mlstmOptions {
	return mlstmOptions{NumHeads: c.NumHeads, Cap: 15, Eps: 1e-6, NormEps: 1e-6}
}

// newMLSTM returns an mLSTM mixer whose parameters have no values yet.
func newMLSTM(cfg Config, o mlstmOptions) (Mixer, error) {
	d := cfg.DModel
	if o.KeyDim == 0 {
		o.KeyDim = d / 2
	}
	if o.ValueDim == 0 {
		o.ValueDim = d
	}
	switch h := o.NumHeads; {
	case h < 1 || h > maxHeads:
		return nil, fmt.Errorf("num_heads: found %d, want 1 to %d", h, maxHeads)
	case o.KeyDim < 1 || o.KeyDim%h != 0:
		return nil, fmt.Errorf("qk_dim: found %d, want a multiple of num_heads %d", o.KeyDim, h)
	case o.ValueDim%h != 0:
		return nil, fmt.Errorf("v_dim: found %d, want a multiple of num_heads %d", o.ValueDim, h)
	}
	m := &MLSTM{
		Q: projection(d, o.KeyDim, 1, false), K: projection(d, o.KeyDim, 1, false),
		V: projection(d, o.ValueDim, 1, false), O: projection(d, o.ValueDim, 1, false),
		I: projection(d, o.NumHeads, 1, true), F: projection(d, o.NumHeads, 1, true),
		Norm: nn.NewParam(nn.Norm, nn.Constant(1), o.ValueDim), Out: projection(o.ValueDim, d, cfg.NLayer, false),
		opt: o, no: zeros(o.ValueDim),
	}
	m.I.Weight.Fine, m.F.Weight.Fine = true, true // small, and their errors accumulate in the state
	m.I.Bias.Init, m.F.Bias.Init = nn.Constant(-10), evenly(3, 6)
	return m, nil
}

// evenly returns an Init of evenly spaced numbers from lo to hi.
func evenly(lo, hi float64) func(*rand.Rand, []float32) {
	return func(_ *rand.Rand, x []float32) {
		for i := range x {
			x[i] = float32(lo + (hi-lo)*float64(i)/float64(max(1, len(x)-1)))
		}
	}
}

// Forward maps the rows of u (n, d_model) to y of the same shape.
func (m *MLSTM) Forward(t *autograd.Tape, u *tensor.Tensor, r *Rows) *tensor.Tensor {
	h := m.opt.NumHeads
	q := t.Scale(m.Q.Forward(t, u), 1/math.Sqrt(float64(m.opt.KeyDim/h)))
	y := r.oneByOne(t, func(t *autograd.Tape, r *Rows, x ...*tensor.Tensor) *tensor.Tensor {
		return t.MLSTM(engine.MLSTM{Q: x[0], K: x[1], V: x[2], I: x[3], F: x[4], Heads: h, Eps: m.opt.Eps}, r.Rows,
			engine.MLSTMSlots{C: r.fixed(0), N: r.fixed(1), M: r.fixed(2)})
	}, q, m.K.Forward(t, u), m.V.Forward(t, u), m.capped(t, m.I.Forward(t, u)),
		logSigmoid(t, m.capped(t, m.F.Forward(t, u))))
	y = t.LayerNorm(y, m.Norm.Tensor, m.no(), h, m.opt.NormEps)
	return m.Out.Forward(t, t.Gate(y, m.O.Forward(t, u), engine.Sigmoid))
}

// capped returns cap·tanh(x/cap).
func (m *MLSTM) capped(t *autograd.Tape, x *tensor.Tensor) *tensor.Tensor {
	if m.opt.Cap == 0 {
		return x
	}
	return t.Scale(t.Activate(t.Scale(x, 1/m.opt.Cap), engine.Tanh), m.opt.Cap)
}

// logSigmoid returns log σ(x) = -softplus(-x).
func logSigmoid(t *autograd.Tape, x *tensor.Tensor) *tensor.Tensor {
	return t.Scale(t.Activate(t.Scale(x, -1), engine.Softplus), -1)
}

// NewState returns the state before the first position, zeros.
func (m *MLSTM) NewState() State {
	h, dk := m.opt.NumHeads, m.opt.KeyDim/m.opt.NumHeads
	return newFixedState([]string{"C", "n", "m"}, []int{h, dk, m.opt.ValueDim / h}, []int{h, dk}, []int{h})
}

// Traits returns the traits of a recurrence.
func (m *MLSTM) Traits() Traits { return Traits{StepsRows: true} }

// Params visits the parameters under their official names.
func (m *MLSTM) Params(prefix string, visit nn.Visitor) {
	m.Q.Params(prefix+"q.", visit)
	m.K.Params(prefix+"k.", visit)
	m.V.Params(prefix+"v.", visit)
	m.O.Params(prefix+"ogate_preact.", visit)
	m.I.Params(prefix+"igate_preact.", visit)
	m.F.Params(prefix+"fgate_preact.", visit)
	visit(prefix+"multihead_norm.weight", m.Norm)
	m.Out.Params(prefix+"out_proj.", visit)
}

func (m *MLSTM) last() (**nn.Linear, Interior) { return &m.Out, Interior{Heads: m.opt.NumHeads} }

// stateRules returns the rule that the stabilizer, a maximum, is not linear.
func (m *MLSTM) stateRules(*autograd.Tape) map[string]StateRule {
	return map[string]StateRule{"m": {NotLinear: true}}
}
