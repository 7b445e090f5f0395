package mixer

import (
	"fmt"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/tensor"
)

// headOptions are those of heads that are not d_model in equal parts, or not as in the official release of H3.
type headOptions struct {
	KVHeads    int     `json:"kv_heads" help:"heads of keys and values, each for several of queries; 0 for as many"`
	HeadDim    int     `json:"head_dim" help:"components of a head; 0 for d_model/num_heads"`
	Scale      float64 `json:"scale" min:"0" help:"of the products of queries and keys; 0 for 1/√head_dim"`
	RotaryBase float64 `json:"rotary_base" min:"0" help:"of the frequencies of rotary positions; 0 for 10000"`
	Bias       bool    `json:"bias" help:"biases in the projections to queries, keys and values"`
	OutBias    bool    `json:"out_bias" help:"a bias in the last projection"`
	QKNorm     bool    `json:"qk_norm" help:"RMSNorms of each head's queries and keys"`
	NormEps    float64 `json:"norm_eps" help:"epsilon of these norms"`
}

// plainHeads are those of the official release.
func plainHeads() headOptions { return headOptions{Bias: true, OutBias: true, NormEps: 1e-5} }

// maxHeadDim and maxHeads bound what a wrong configuration can cost, where the width does not.
const (
	maxHeadDim = 1 << 16
	maxHeads   = 1 << 16
)

// check returns the components of a head.
func (h *headOptions) check(heads, d int) (hd int, err error) {
	hd = h.HeadDim
	switch {
	case hd < 0 || hd > maxHeadDim:
		return 0, fmt.Errorf("head_dim: found %d, want 0 to %d", hd, maxHeadDim)
	case hd > 0 && (heads < 1 || heads > maxHeads):
		return 0, fmt.Errorf("num_heads: found %d, want 1 to %d", heads, maxHeads)
	case hd == 0:
		if err := checkHeads(heads, d); err != nil {
			return 0, err
		}
		hd = d / heads
	}
	if h.KVHeads < 0 || h.KVHeads > 0 && heads%h.KVHeads != 0 {
		return 0, fmt.Errorf("kv_heads: found %d, want a divisor of num_heads %d, or 0 for as many", h.KVHeads, heads)
	}
	if h.QKNorm && !(h.NormEps > 0) {
		return 0, fmt.Errorf("norm_eps: found %g, want more than 0", h.NormEps)
	}
	return hd, nil
}

// project gives the heads of queries, keys and values of u, side by side.
func (m *Attention) project(t *autograd.Tape, u *tensor.Tensor) *tensor.Tensor {
	qkv := m.Wqkv.Forward(t, u)
	if m.QNorm == nil {
		return qkv
	}
	normed := m.opt.Heads + m.opt.KeyHeads()
	parts := t.Split(qkv, normed*m.headDim, m.opt.KeyHeads()*m.headDim)
	weights := make([]*tensor.Tensor, normed)
	for i := range weights {
		weights[i] = m.QNorm.Weight.Tensor
		if i >= m.opt.Heads {
			weights[i] = m.KNorm.Weight.Tensor
		}
	}
	return t.Join(t.RMSNorm(parts[0], t.Join(weights...), normed, m.QNorm.Eps), parts[1])
}

// Projected gives the queries, keys and values of u as the attention takes them, in heads of head_dim components.
func (m *Attention) Projected(t *autograd.Tape, u *tensor.Tensor) (q, k, v *tensor.Tensor, headDim int) {
	d, kd := m.opt.Heads*m.headDim, m.opt.KeyHeads()*m.headDim
	parts := t.Split(m.project(t, u), d, kd, kd)
	return parts[0], parts[1], parts[2], m.headDim
}
