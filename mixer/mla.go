package mixer

import (
	"fmt"
	"math"
	"slices"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// MLA is multi-head latent attention ("DeepSeek-V2", arXiv:2405.04434, §2.1). The keys and values of all heads are
// products with one short vector c of each position. Only c and a key part k' that all heads share are kept:
//
//	[c', k'] = KV(u),   c = RMSNorm(c');   [q_h, q'_h] = Q(u) of head h
//	k_h = K_h c,   v_h = V_h c;   y = Out( softmax((q_h·k_h + q'_h·k')/√(n+p)) v_h of all heads )
//
// with c of kv_lora_rank numbers R, k_h and q_h of qk_nope_head_dim n, k' and q'_h of qk_rope_head_dim p, v_h of
// v_head_dim. It is computed with the matrices absorbed (§2.1.2): since q_h·k_h = (K_hᵀ q_h)·c, and a weighted sum of
// V_h c is V_h times that sum, each head attends with the query [K_hᵀ q_h, q'_h] to the keys [c, k'], which are also
// the values. The state is these R+p numbers of each position. rotary_emb_dim is the number of components of q' and k'
// that are rotated by their positions, as in the paper; without it, none are (Kimi Linear, arXiv:2510.26692).
type MLA struct {
	QDown, Q *nn.Linear  // QDown is nil unless there is a q_lora_rank
	QNorm    *nn.RMSNorm // after QDown
	KV, Out  *nn.Linear
	Norm     *nn.RMSNorm
	K, V     []*nn.Param // for each head, K_hᵀ (R, n) and V_h (v_head_dim, R)

	o      mlaOptions
	opt    engine.AttentionOptions
	rotary engine.Rotary
}

// MLAInfo describes MLA.
var MLAInfo = Info{
	Name:  "mla",
	Paper: "DeepSeek-V2: A Strong, Economical, and Efficient Mixture-of-Experts Language Model, arXiv:2405.04434",
	Time:  "l²·heads·R + l·d²", State: "l·(R + p)",
	Causal: true, Builder: builder(mlaDefaults, newMLA),
	Tiny: Tiny{Options: "rotary_emb_dim=16", DModel: 128, NLayer: 4, DInner: 464},
}

type mlaOptions struct {
	rotaryOptions
	NumHeads  int     `json:"num_heads" help:"heads"`
	QRank     int     `json:"q_lora_rank" help:"of the map to queries; 0 for a whole matrix"`
	Rank      int     `json:"kv_lora_rank" help:"R, numbers that keys and values are made of; 0 for 4·qk_nope_head_dim"`
	Nope      int     `json:"qk_nope_head_dim" help:"n, components of each head's own keys; 0 for d_model/num_heads"`
	Rope      int     `json:"qk_rope_head_dim" help:"p, components of the shared key; 0 for half of qk_nope_head_dim"`
	Value     int     `json:"v_head_dim" help:"components of values; 0 for qk_nope_head_dim"`
	RotaryDim int     `json:"rotary_emb_dim" help:"rotated components of the shared key; 0 for none"`
	NormEps   float64 `json:"norm_eps" help:"epsilon of the norms of low-rank vectors"`
	Dropout   float64 `json:"dropout" min:"0" max:"0.999" help:"dropout on attention weights, in training"`
}

func mlaDefaults(c Config) mlaOptions {
	return mlaOptions{NumHeads: c.NumHeads, RotaryDim: c.RotaryDim, NormEps: 1e-6, Dropout: c.Dropout}
}

// fill sets the sizes that are not given, as multiples of those in the paper's §3.1.2.
func (o *mlaOptions) fill(d int) error {
	const most = 1024 // each head has its own parameters
	if o.NumHeads < 1 || o.NumHeads > most {
		return fmt.Errorf("num_heads: found %d, want 1 to %d", o.NumHeads, most)
	}
	if o.Nope == 0 {
		if err := checkHeads(o.NumHeads, d); err != nil {
			return err
		}
		o.Nope = d / o.NumHeads
	}
	for _, x := range []struct {
		size  *int
		other int
	}{{&o.Rank, min(4*o.Nope, maxHeadDim)}, {&o.Rope, (o.Nope + 1) / 2}, {&o.Value, o.Nope}} {
		if *x.size == 0 {
			*x.size = x.other
		}
	}
	for _, x := range []struct {
		name  string
		size  int
		least int
	}{{"qk_nope_head_dim", o.Nope, 1}, {"qk_rope_head_dim", o.Rope, 1}, {"v_head_dim", o.Value, 1},
		{"kv_lora_rank", o.Rank, 1}, {"q_lora_rank", o.QRank, 0}} {
		if x.size < x.least || x.size > maxHeadDim {
			return fmt.Errorf("%s: found %d, want %d to %d", x.name, x.size, x.least, maxHeadDim)
		}
	}
	switch {
	case o.RotaryDim < 0 || o.RotaryDim > o.Rope || o.RotaryDim%2 != 0:
		return fmt.Errorf("rotary_emb_dim: found %d, want an even number from 0 to qk_rope_head_dim %d", o.RotaryDim,
			o.Rope)
	case !(o.NormEps > 0):
		return fmt.Errorf("norm_eps: found %g, want more than 0", o.NormEps)
	}
	return nil
}

// newMLA returns an MLA mixer whose parameters have no values yet.
func newMLA(cfg Config, o mlaOptions) (Mixer, error) {
	if err := o.fill(cfg.DModel); err != nil {
		return nil, err
	}
	scaling, err := o.scaling(o.RotaryDim)
	if err != nil {
		return nil, err
	}
	heads, key := o.NumHeads, o.Nope+o.Rope
	m := &MLA{
		Q:  projection(cfg.DModel, heads*key, 1, false),
		KV: projection(cfg.DModel, o.Rank+o.Rope, 1, false), Norm: nn.NewRMSNorm(o.Rank, o.NormEps),
		Out: projection(heads*o.Value, cfg.DModel, cfg.NLayer, false),
		o:   o, rotary: engine.Rotary{Dim: o.RotaryDim, Base: o.RotaryBase, Scaling: scaling},
		opt: engine.AttentionOptions{Heads: heads, KVHeads: 1, KeysAsValues: true, Dropout: o.Dropout,
			Scale: 1 / math.Sqrt(float64(key))},
	}
	start := nn.Uniform(1 / math.Sqrt(float64(o.Rank))) // as for one matrix that c is multiplied by
	for range heads {
		m.K = append(m.K, nn.NewParam(nn.Weight, start, o.Rank, o.Nope))
		m.V = append(m.V, nn.NewParam(nn.Weight, start, o.Value, o.Rank))
	}
	if o.QRank > 0 {
		m.QDown, m.QNorm = projection(cfg.DModel, o.QRank, 1, false), nn.NewRMSNorm(o.QRank, o.NormEps)
		m.Q = projection(o.QRank, heads*key, 1, false)
	}
	return m, nil
}

// Forward maps the rows of u (n, d_model) to y of the same shape.
func (m *MLA) Forward(t *autograd.Tape, u *tensor.Tensor, r *Rows) *tensor.Tensor {
	qk := t.Join(m.queries(t, u, r), m.keys(t, u, r))
	y := r.oneByOne(t, func(t *autograd.Tape, r *Rows, qk ...*tensor.Tensor) *tensor.Tensor {
		return t.Attention(qk[0], r.Rows, r.keysAndValues(), m.opt)
	}, qk)
	latents, _ := pairs(m.split(t, y, m.o.Rank, m.o.Rope)) // the sums of shared keys are not used
	return m.Out.Forward(t, m.values(t, latents))
}

// queries returns the absorbed queries of all heads, (n, heads·(R+p)).
func (m *MLA) queries(t *autograd.Tape, u *tensor.Tensor, r *Rows) *tensor.Tensor {
	if m.QDown != nil {
		u = t.RMSNorm(m.QDown.Forward(t, u), m.QNorm.Weight.Tensor, 1, m.QNorm.Eps)
	}
	own, shared := pairs(m.split(t, m.Q.Forward(t, u), m.o.Nope, m.o.Rope))
	if m.rotary.Dim > 0 {
		shared = m.split(t, t.Rotate(t.Join(shared...), len(shared), m.rotary, r.Rows), m.o.Rope)
	}
	var parts []*tensor.Tensor
	for h, k := range m.K {
		parts = append(parts, t.Linear(own[h], k.Tensor, nil, engine.None), shared[h])
	}
	return t.Join(parts...)
}

// keys returns [c, k'] (n, R+p).
func (m *MLA) keys(t *autograd.Tape, u *tensor.Tensor, r *Rows) *tensor.Tensor {
	parts := t.Split(m.KV.Forward(t, u), m.o.Rank, m.o.Rope)
	c, shared := t.RMSNorm(parts[0], m.Norm.Weight.Tensor, 1, m.Norm.Eps), parts[1]
	if m.rotary.Dim > 0 {
		shared = t.Rotate(shared, 1, m.rotary, r.Rows)
	}
	return t.Join(c, shared)
}

// values maps a vector like c for each head (n, R) to values (n, heads·v_head_dim).
func (m *MLA) values(t *autograd.Tape, c []*tensor.Tensor) *tensor.Tensor {
	var parts []*tensor.Tensor
	for h, v := range m.V {
		parts = append(parts, t.Linear(c[h], v.Tensor, nil, engine.None))
	}
	return t.Join(parts...)
}

// operator returns an Operator with the values V_h c of head h.
func (m *MLA) operator(t *autograd.Tape, u *tensor.Tensor) *Operator {
	r := &Rows{Rows: engine.NewRows(u.Dim(0))}
	k := m.keys(t, u, r)
	c := t.Split(k, m.o.Rank, m.o.Rope)[:1]
	opt := m.opt
	opt.KeysAsValues = false
	return attentionOperator(t, m.queries(t, u, r), k, m.o.Rank+m.o.Rope, opt,
		m.values(t, slices.Repeat(c, m.o.NumHeads)).Floats(), m.Out)
}

// split cuts the last axis into parts of the given widths for each head.
func (m *MLA) split(t *autograd.Tape, x *tensor.Tensor, widths ...int) []*tensor.Tensor {
	return t.Split(x, slices.Repeat(widths, m.o.NumHeads)...)
}

// pairs returns the elements at even and at odd indices.
func pairs[T any](xs []T) (first, second []T) {
	for i := 0; i < len(xs); i += 2 {
		first, second = append(first, xs[i]), append(second, xs[i+1])
	}
	return first, second
}

// NewState returns an empty cache, in the precision of the weights.
func (m *MLA) NewState() State { return m.newState() }

func (m *MLA) newState() *attentionState {
	s := &attentionState{KVCache: engine.NewKVCache(m.KV.Weight.Tensor), heads: 1, headDim: m.o.Rank + m.o.Rope,
		most: math.MaxInt}
	s.KeysAsValues = true
	return s
}

// Traits returns traits in which the state grows with every position.
func (m *MLA) Traits() Traits { return Traits{Growth: m.newState().rowBytes(), StepsRows: true} }

// Params visits the parameters. Their names are those of the official release, except for the parts of its kv_b_proj.
func (m *MLA) Params(prefix string, visit nn.Visitor) {
	if m.QDown != nil {
		m.QDown.Params(prefix+"q_a_proj.", visit)
		m.QNorm.Params(prefix+"q_a_layernorm.", visit)
		m.Q.Params(prefix+"q_b_proj.", visit)
	} else {
		m.Q.Params(prefix+"q_proj.", visit)
	}
	m.KV.Params(prefix+"kv_a_proj_with_mqa.", visit)
	m.Norm.Params(prefix+"kv_a_layernorm.", visit)
	for h := range m.K {
		visit(fmt.Sprintf("%sk_b.%d.weight", prefix, h), m.K[h])
		visit(fmt.Sprintf("%sv_b.%d.weight", prefix, h), m.V[h])
	}
	m.Out.Params(prefix+"o_proj.", visit)
}

func (m *MLA) last() (**nn.Linear, Interior) { return &m.Out, Interior{Heads: m.o.NumHeads} }
