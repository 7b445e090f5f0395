package mixer

import (
	"fmt"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// headOptions are the options of heads that are not equal parts of d_model, or that differ from H3's official release.
type headOptions struct {
	rotaryOptions
	KVHeads int     `json:"kv_heads" help:"heads of keys and values, each for several of queries; 0 for as many"`
	HeadDim int     `json:"head_dim" help:"components of a head; 0 for d_model/num_heads"`
	Scale   float64 `json:"scale" min:"0" help:"of the products of queries and keys; 0 for 1/√head_dim"`
	Bias    bool    `json:"bias" help:"biases in the projections to queries, keys and values"`
	OutBias bool    `json:"out_bias" help:"a bias in the last projection"`
	QKNorm  bool    `json:"qk_norm" help:"RMSNorms of each head's queries and keys"`
	NormAll bool    `json:"qk_norm_all" help:"these norms are over the queries of all heads, and over all keys"`
	NormEps float64 `json:"norm_eps" help:"epsilon of these norms"`
}

// plainHeads returns the options of the official release.
func plainHeads() headOptions { return headOptions{Bias: true, OutBias: true, NormEps: 1e-5} }

// maxHeadDim and maxHeads bound the cost of a wrong configuration where the width does not.
const (
	maxHeadDim = 1 << 16
	maxHeads   = 1 << 16
)

// check returns the number of components of a head.
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
	if h.NormAll && !h.QKNorm {
		return 0, fmt.Errorf("qk_norm_all: found without qk_norm, want both")
	}
	if h.QKNorm && !(h.NormEps > 0) {
		return 0, fmt.Errorf("norm_eps: found %g, want more than 0", h.NormEps)
	}
	return hd, nil
}

// project returns the heads of queries, keys and values of u, concatenated, and the gate of the outputs, or nil.
func (m *Attention) project(t *autograd.Tape, u *tensor.Tensor) (qkv, gate *tensor.Tensor) {
	qkv = m.Wqkv.Forward(t, u)
	if m.gated {
		qkv, gate = m.ungated(t, qkv)
	}
	if m.QNorm == nil {
		return qkv, gate
	}
	q, k := m.QNorm.Factors(t), m.KNorm.Factors(t)
	if m.normAll {
		queries, keys := m.opt.Heads*m.headDim, m.opt.KeyHeads()*m.headDim
		parts := t.Split(qkv, queries, keys, keys)
		return t.Join(t.RMSNorm(parts[0], q, 1, m.QNorm.Eps), t.RMSNorm(parts[1], k, 1, m.KNorm.Eps), parts[2]), gate
	}
	normed := m.opt.Heads + m.opt.KeyHeads()
	parts := t.Split(qkv, normed*m.headDim, m.opt.KeyHeads()*m.headDim)
	weights := make([]*tensor.Tensor, normed)
	for i := range weights {
		weights[i] = q
		if i >= m.opt.Heads {
			weights[i] = k
		}
	}
	return t.Join(t.RMSNorm(parts[0], t.Join(weights...), normed, m.QNorm.Eps), parts[1]), gate
}

// operator returns nil if a gate multiplies the outputs, since no matrix of a head can express that.
func (m *Attention) operator(t *autograd.Tape, u *tensor.Tensor) *Operator {
	if m.gated {
		return nil
	}
	opt, hd := m.opt, m.headDim
	qkv, _ := m.project(t, u)
	parts := t.Split(qkv, opt.Heads*hd, opt.KeyHeads()*hd, opt.KeyHeads()*hd)
	return attentionOperator(t, parts[0], parts[1], hd, opt, ofQueries(parts[2].Floats(), &opt, hd), m.Out)
}

// attentionOperator derives the patterns of attention from its outputs for values that are unit vectors, so that the
// logic of rotary positions, windows and blocks stays in one place. q and k have hd components per head. Outputs of hd
// channels give hd columns at a time. values are what the heads read, and out multiplies their sums.
func attentionOperator(t *autograd.Tape, q, k *tensor.Tensor, hd int, opt engine.AttentionOptions, values []float32,
	out *nn.Linear) *Operator {
	l, d, keyHeads := q.Dim(0), opt.Heads*hd, opt.KeyHeads()
	patterns := make([]float32, opt.Heads*l*l)
	y := make([]float32, l*d)
	for from := 0; from < l; from += hd {
		n := min(hd, l-from)
		unit := make([]float32, l*keyHeads*hd)
		for s := range n {
			for h := range keyHeads {
				unit[((from+s)*keyHeads+h)*hd+s] = 1
			}
		}
		v := t.New(l, keyHeads*hd)
		v.CopyFrom(unit)
		t.Attention(t.Join(q, k, v), engine.NewRows(l), nil, opt).CopyTo(y)
		for h := range opt.Heads {
			for i := range l {
				copy(patterns[(h*l+i)*l+from:][:n], y[i*d+h*hd:])
			}
		}
	}
	width := len(values) / l / opt.Heads
	return &Operator{
		Length: l, Heads: opt.Heads, HeadDim: width, values: values, out: out.Weight.Tensor.Floats(),
		column: func(h, j int) int { return h*width + j },
		weights: func(h int, w []float64) {
			for i, x := range patterns[h*l*l:][:l*l] {
				w[i] = float64(x)
			}
		},
	}
}

// ofQueries returns, for each head of queries, the values (l, key heads·hd) of the key head that it uses.
func ofQueries(values []float32, o *engine.AttentionOptions, hd int) []float32 {
	if o.KeyHeads() == o.Heads {
		return values
	}
	var out []float32
	for width := o.KeyHeads() * hd; len(values) > 0; values = values[width:] {
		for h := range o.Heads {
			out = append(out, values[o.KeyHead(h)*hd:][:hd]...)
		}
	}
	return out
}
