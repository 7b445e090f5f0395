package mixer

import (
	"fmt"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// GatedAttentionInfo describes attention with gated outputs ("Gated Attention for Large Language Models",
// arXiv:2505.06708, §2.2; the gate is after the attention and has a value for each channel), as in Qwen3-Next and
// Qwen3.5:
//
//	y = W_o (σ(g) ⊙ softmax(scale·Q Kᵀ + mask) V)
//
// W_q maps to each head's query followed by its gate g, of head_dim channels each. So the rows of Wqkv are the pairs of
// query and gate of all heads, the keys and the values. Norms of queries and keys multiply by 1 + w.
var GatedAttentionInfo = Info{
	Name: "gated-attention",
	Paper: "Gated Attention for Large Language Models: Non-linearity, Sparsity, and Attention-Sink-Free, " +
		"arXiv:2505.06708",
	Time:  "l²·d + l·d²",
	State: "2·l·d", Causal: true, Builder: builder(gatedOptionsOf, newGatedAttention),
	Tiny: Tiny{Options: "rotary_emb_dim=16", DModel: 128, NLayer: 4, DInner: 512},
}

type gatedOptions struct {
	attentionOptions
	headOptions
}

func gatedOptionsOf(c Config) gatedOptions {
	return gatedOptions{attentionOptionsOf(c), headOptions{QKNorm: true, NormEps: 1e-6}}
}

// newGatedAttention returns a gated attention mixer whose parameters have no values yet.
func newGatedAttention(cfg Config, o gatedOptions) (Mixer, error) {
	m, err := newAttention(cfg, o.attentionOptions, o.headOptions)
	if err != nil {
		return nil, err
	}
	if m.normAll {
		return nil, fmt.Errorf("qk_norm_all: found in gated attention, want norms of each head")
	}
	m.gated = true
	m.Wqkv = nn.NewLinear(cfg.DModel, (m.opt.Packed()+m.opt.Heads)*m.headDim, nn.InitStd)
	if !o.Bias {
		m.Wqkv.Bias = nil
	}
	if o.QKNorm {
		m.QNorm, m.KNorm = nn.NewRMSNormPlusOne(m.headDim, o.NormEps), nn.NewRMSNormPlusOne(m.headDim, o.NormEps)
	}
	return m, nil
}

// ungated splits a projection, which consists of pairs of query and gate, keys and values, into the queries, keys and
// values, and the gates.
func (m *Attention) ungated(t *autograd.Tape, x *tensor.Tensor) (qkv, gate *tensor.Tensor) {
	widths := make([]int, 2*m.opt.Heads+1)
	for i := range widths {
		widths[i] = m.headDim
	}
	widths[2*m.opt.Heads] = 2 * m.opt.KeyHeads() * m.headDim
	parts := t.Split(x, widths...)
	var queries, gates []*tensor.Tensor
	for h := range m.opt.Heads {
		queries, gates = append(queries, parts[2*h]), append(gates, parts[2*h+1])
	}
	return t.Join(append(queries, parts[2*m.opt.Heads])...), t.Join(gates...)
}
