package mixer

import (
	"fmt"
	"math"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// Attention is multi-head softmax attention ("Attention Is All You Need", arXiv:1706.03762) with optional rotary
// positions (arXiv:2104.09864, xPos arXiv:2212.10554) or biases linear in the distance (ALiBi, arXiv:2108.12409): the
// attention of H3's hybrids. The rows of Wqkv are the heads of queries, then those of keys, then those of values. There
// may be fewer heads of keys and values (arXiv:2305.13245). Attention is causal unless the option bidirectional is set.
// Its state, the keys and values seen so far, grows with the sequence.
//
// Some mixers are Attentions with other options: window-attention and bigbird, in which a query sees other keys, and
// gated-attention, which has a gate.
type Attention struct {
	Wqkv, Out    *nn.Linear
	QNorm, KNorm *nn.RMSNorm // of each head, before the rotation; nil for none
	opt          engine.AttentionOptions
	headDim      int
	normAll      bool // QNorm and KNorm normalize all heads together
	gated        bool // the outputs are multiplied by a gate: see GatedAttentionInfo
}

// AttentionInfo describes Attention.
var AttentionInfo = Info{
	Name: "attention", Paper: "Attention Is All You Need, arXiv:1706.03762", Time: "l²·d + l·d²", State: "2·l·d",
	Causal: true, Bidirectional: true, Builder: builder(denseOptionsOf, newDenseAttention),
	Tiny: Tiny{Options: "rotary_emb_dim=16", DModel: 128, NLayer: 4, DInner: 576},
}

type attentionOptions struct {
	NumHeads  int     `json:"num_heads" help:"heads"`
	RotaryDim int     `json:"rotary_emb_dim" help:"rotated components of each head; 0 for none"`
	XPos      float64 `json:"xpos" min:"0" max:"65536" help:"xPos: positions over which scores fall off; 0: not"`
	ALiBi     bool    `json:"alibi" help:"distances weigh against keys (ALiBi), instead of rotary positions"`
	Dropout   float64 `json:"dropout" min:"0" max:"0.999" help:"dropout on attention weights, in training"`
}

// denseOptions are the options of Attention itself, in which a query sees all earlier positions.
type denseOptions struct {
	attentionOptions
	headOptions
	Bidirectional bool `json:"bidirectional" help:"look ahead; for encoders"`
}

func denseOptionsOf(c Config) denseOptions {
	return denseOptions{attentionOptions: attentionOptionsOf(c), headOptions: plainHeads()}
}

func attentionOptionsOf(c Config) attentionOptions {
	return attentionOptions{NumHeads: c.NumHeads, RotaryDim: c.RotaryDim, Dropout: c.Dropout}
}

// newDenseAttention returns an attention mixer whose parameters have no values yet.
func newDenseAttention(cfg Config, o denseOptions) (Mixer, error) {
	if err := checkAhead(o.Bidirectional, o.ALiBi); err != nil {
		return nil, err
	}
	m, err := newAttention(cfg, o.attentionOptions, o.headOptions)
	if err != nil {
		return nil, err
	}
	m.opt.Ahead = o.Bidirectional
	return m, nil
}

// checkAhead returns an error for a bidirectional layer with biases that are defined only for earlier positions.
func checkAhead(bidirectional, alibi bool) error {
	if bidirectional && alibi {
		return fmt.Errorf("alibi: found together with bidirectional, want causal attention")
	}
	return nil
}

// newAttention returns an attention with the options o and h, in which a query sees all earlier positions.
func newAttention(cfg Config, o attentionOptions, h headOptions) (*Attention, error) {
	hd, err := h.check(o.NumHeads, cfg.DModel)
	if err != nil {
		return nil, err
	}
	if o.RotaryDim < 0 || o.RotaryDim > hd || o.RotaryDim%2 != 0 {
		return nil, fmt.Errorf("rotary_emb_dim: found %d, want an even number from 0 to the %d components of a head",
			o.RotaryDim, hd)
	}
	if o.XPos > 0 && o.RotaryDim == 0 {
		return nil, fmt.Errorf("xpos: found %g without rotary_emb_dim, want both", o.XPos)
	}
	if o.ALiBi && o.RotaryDim > 0 {
		return nil, fmt.Errorf("alibi: found together with rotary_emb_dim %d, want one of them", o.RotaryDim)
	}
	scaling, err := h.scaling(o.RotaryDim)
	switch {
	case err != nil:
		return nil, err
	case o.XPos > 0 && scaling.Kind != "":
		return nil, fmt.Errorf("xpos: found together with rotary_scaling %s, want one of them", scaling.Kind)
	}
	m := &Attention{headDim: hd, opt: engine.AttentionOptions{
		Heads: o.NumHeads, KVHeads: h.KVHeads, Scale: h.Scale, ALiBi: o.ALiBi, Dropout: o.Dropout,
		Rotary: engine.Rotary{Dim: o.RotaryDim, Base: h.RotaryBase, XPos: o.XPos, Scaling: scaling},
	}}
	m.Wqkv = nn.NewLinear(cfg.DModel, m.opt.Packed()*hd, nn.InitStd)
	m.Out = nn.NewLinear(o.NumHeads*hd, cfg.DModel, outStd(cfg))
	if !h.Bias {
		m.Wqkv.Bias = nil
	}
	if !h.OutBias {
		m.Out.Bias = nil
	}
	if h.QKNorm {
		q, k := hd, hd
		if m.normAll = h.NormAll; m.normAll {
			q, k = o.NumHeads*hd, m.opt.KeyHeads()*hd
		}
		m.QNorm, m.KNorm = nn.NewRMSNorm(q, h.NormEps), nn.NewRMSNorm(k, h.NormEps)
	}
	return m, nil
}

// checkHeads returns an error if d cannot be divided into the given number of heads.
func checkHeads(heads, d int) error {
	if heads < 1 || d%heads != 0 {
		return fmt.Errorf("num_heads: found %d, want a divisor of d_model %d", heads, d)
	}
	return nil
}

// outStd is the initial standard deviation of a mixer's last projection in the releases. It takes into account that
// each layer adds two terms to the stream.
func outStd(cfg Config) float64 { return nn.InitStd / math.Sqrt(float64(2*max(1, cfg.NLayer))) }

// Forward maps the rows of u (n, d_model) to y of the same shape.
func (m *Attention) Forward(t *autograd.Tape, u *tensor.Tensor, r *Rows) *tensor.Tensor {
	qkv, gate := m.project(t, u)
	return m.attend(t, qkv, gate, r)
}

// attend computes everything after the projection to queries, keys and values. gate is nil for none.
func (m *Attention) attend(t *autograd.Tape, qkv, gate *tensor.Tensor, r *Rows) *tensor.Tensor {
	y := r.oneByOne(t, func(t *autograd.Tape, r *Rows, qkv ...*tensor.Tensor) *tensor.Tensor {
		return t.Attention(qkv[0], r.Rows, r.keysAndValues(), m.opt)
	}, qkv)
	if gate != nil {
		y = t.Gate(y, gate, engine.Sigmoid)
	}
	return m.Out.Forward(t, y)
}

// Options returns the options of the attention operation.
func (m *Attention) Options() engine.AttentionOptions { return m.opt }

// Traits returns traits in which the state grows with every position, up to the size of the window if there is one.
func (m *Attention) Traits() Traits {
	if m.opt.Ahead || m.opt.Blocks != nil && m.opt.Blocks.Ahead {
		return Traits{LooksAhead: true}
	}
	s := m.newState()
	if s.most < math.MaxInt {
		return Traits{StepsRows: true}
	}
	return Traits{Growth: s.rowBytes(), StepsRows: true}
}

// NewState returns an empty cache of keys and values, in the precision of the weights.
func (m *Attention) NewState() State { return m.newState() }

func (m *Attention) newState() *attentionState {
	return &attentionState{
		KVCache: engine.NewKVCache(m.Wqkv.Weight.Tensor),
		heads:   m.opt.KeyHeads(), headDim: m.headDim, most: m.opt.Remembered(math.MaxInt),
	}
}

// Params visits the parameters under their official names.
func (m *Attention) Params(prefix string, visit nn.Visitor) {
	m.Wqkv.Params(prefix+"Wqkv.", visit)
	if m.QNorm != nil {
		m.QNorm.Params(prefix+"q_norm.", visit)
		m.KNorm.Params(prefix+"k_norm.", visit)
	}
	m.Out.Params(prefix+"out_proj.", visit)
}

func (m *Attention) last() (**nn.Linear, Interior) { return &m.Out, Interior{Heads: m.opt.Heads} }
