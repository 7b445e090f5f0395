package mixer

import (
	"fmt"
	"math"
	"sync"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// deltaHeads is the common part of the delta rule's mixers: queries, keys and values filtered by a short filter, keys
// and queries normalized to length 1, and after the rule a norm of each head and the last projection,
//
//	(q, k, v) = silu(conv1d(QKV(u)));   q = q/(|q|·√dk), k = k/|k|;   y = Out( gated(RMSNorm(o)) )
//
// where |x|² = Σ x² + 1e-6 of each head. The state is the previous inputs of the filter, (d_conv-1, 2·hk·dk + h·dv),
// and S (h, dk, dv), for the h heads of values.
type deltaHeads struct {
	QKV, Out *nn.Linear
	Conv     shortConv
	Norm     *nn.RMSNorm // (dv), the same for each head

	opt     deltaOptions
	lengths [2]func() *tensor.Tensor // weights of the norms that set the lengths of queries and keys
}

type deltaOptions struct {
	KeyHeads  int     `json:"num_k_heads" help:"heads of queries and keys"`
	Heads     int     `json:"num_v_heads" help:"heads of values, several for each of keys; 0 for as many"`
	KeyDim    int     `json:"head_k_dim" help:"components of queries and keys; 0 for d_model/num_k_heads"`
	ValueDim  int     `json:"head_v_dim" help:"components of values; 0 for head_k_dim"`
	DConv     int     `json:"d_conv" help:"taps of the short filter"`
	NegEigval bool    `json:"allow_neg_eigval" help:"β up to 2: what is erased may change its sign (arXiv:2411.12537)"`
	NormEps   float64 `json:"norm_eps" help:"epsilon of the norm of each head"`
}

func deltaDefaults(c Config) deltaOptions {
	return deltaOptions{KeyHeads: c.NumHeads, DConv: 4, NormEps: 1e-5}
}

// lengthEps is added to the squared length of queries and keys.
const lengthEps = 1e-6

// newDeltaHeads returns the common part. Its parameters have no values yet.
func newDeltaHeads(cfg Config, o deltaOptions) (deltaHeads, error) {
	if o.KeyDim == 0 {
		if o.KeyHeads < 1 || cfg.DModel%o.KeyHeads != 0 {
			return deltaHeads{}, fmt.Errorf("num_k_heads: found %d, want a divisor of d_model %d, or a head_k_dim",
				o.KeyHeads, cfg.DModel)
		}
		o.KeyDim = cfg.DModel / o.KeyHeads
	}
	if o.Heads == 0 {
		o.Heads = o.KeyHeads
	}
	if o.ValueDim == 0 {
		o.ValueDim = o.KeyDim
	}
	switch {
	case o.KeyHeads < 1 || o.KeyHeads > maxHeads:
		return deltaHeads{}, fmt.Errorf("num_k_heads: found %d, want 1 to %d", o.KeyHeads, maxHeads)
	case o.Heads < 1 || o.Heads > maxHeads || o.Heads%o.KeyHeads != 0:
		return deltaHeads{}, fmt.Errorf("num_v_heads: found %d, want a multiple of num_k_heads %d, at most %d", o.Heads,
			o.KeyHeads, maxHeads)
	case o.KeyDim < 1 || o.KeyDim > maxHeadDim:
		return deltaHeads{}, fmt.Errorf("head_k_dim: found %d, want 1 to %d", o.KeyDim, maxHeadDim)
	case o.ValueDim < 1 || o.ValueDim > maxHeadDim:
		return deltaHeads{}, fmt.Errorf("head_v_dim: found %d, want 1 to %d", o.ValueDim, maxHeadDim)
	case o.DConv < 1 || o.DConv > maxState:
		return deltaHeads{}, fmt.Errorf("d_conv: found %d, want 1 to %d", o.DConv, maxState)
	case !(o.NormEps > 0):
		return deltaHeads{}, fmt.Errorf("norm_eps: found %g, want more than 0", o.NormEps)
	}
	m := deltaHeads{
		QKV:  projection(cfg.DModel, o.filtered(), 1, false),
		Conv: newShortConv(o.filtered(), o.DConv, false, engine.SiLU),
		Norm: nn.NewRMSNorm(o.ValueDim, o.NormEps), Out: projection(o.values(), cfg.DModel, cfg.NLayer, false), opt: o,
	}
	root := math.Sqrt(float64(o.KeyDim))
	m.lengths = [2]func() *tensor.Tensor{constant(1/root/root, o.keys()), constant(1/root, o.keys())}
	return m, nil
}

// keys, values and filtered return numbers of channels: of the keys, of the values, and of the filter.
func (o *deltaOptions) keys() int     { return o.KeyHeads * o.KeyDim }
func (o *deltaOptions) values() int   { return o.Heads * o.ValueDim }
func (o *deltaOptions) filtered() int { return 2*o.keys() + o.values() }

// heads returns the queries, keys and values of u.
func (m *deltaHeads) heads(t *autograd.Tape, u *tensor.Tensor, r *Rows) engine.Delta {
	o := &m.opt
	p := t.Split(m.Conv.forward(t, m.QKV.Forward(t, u), r), o.keys(), o.keys(), o.values())
	// x/√(Σ x² + ε) is RMSNorm with the weight 1/√dk, and ε over dk.
	eps := lengthEps / float64(o.KeyDim)
	return engine.Delta{
		Q: t.RMSNorm(p[0], m.lengths[0](), o.KeyHeads, eps), K: t.RMSNorm(p[1], m.lengths[1](), o.KeyHeads, eps),
		V: p[2], Heads: o.Heads, KeyHeads: o.KeyHeads,
	}
}

// beta returns the part of a value that is replaced: in (0, 1), or in (0, 2).
func (m *deltaHeads) beta(t *autograd.Tape, b *nn.Linear, u *tensor.Tensor) *tensor.Tensor {
	if m.opt.NegEigval {
		return t.Scale(b.Forward(t, u), 2)
	}
	return b.Forward(t, u)
}

// normed returns the RMSNorm of each head.
func (m *deltaHeads) normed(t *autograd.Tape, o *tensor.Tensor) *tensor.Tensor {
	weights := make([]*tensor.Tensor, m.opt.Heads)
	for i := range weights {
		weights[i] = m.Norm.Weight.Tensor
	}
	return t.RMSNorm(o, t.Join(weights...), len(weights), m.Norm.Eps)
}

// NewState returns the state before the first position, zeros.
func (m *deltaHeads) NewState() State {
	o := &m.opt
	return newFixedState([]string{"conv", "ssm"}, []int{o.DConv - 1, o.filtered()},
		[]int{o.Heads, o.KeyDim, o.ValueDim}).of(PositionRows, Numbers)
}

// Traits returns the traits of a recurrence.
func (m *deltaHeads) Traits() Traits { return Traits{StepsRows: true} }

// params visits the common parameters. gates visits those of the gates in between.
func (m *deltaHeads) params(prefix string, visit nn.Visitor, gates func()) {
	m.QKV.Params(prefix+"in_proj_qkv.", visit)
	gates()
	m.Conv.params(prefix+"conv1d.", visit)
	m.Norm.Params(prefix+"norm.", visit)
	m.Out.Params(prefix+"out_proj.", visit)
}

// gateOf returns a small projection of u. Its errors accumulate in the state.
func gateOf(in, out int, a engine.Activation) *nn.Linear {
	m := projection(in, out, 1, false)
	m.Weight.Fine, m.Activation = true, a
	return m
}

func (m *deltaHeads) kernels(*autograd.Tape, int) []Response {
	return []Response{shortKernel(m.Conv.weight.Tensor)}
}

func (m *deltaHeads) last() (**nn.Linear, Interior) { return &m.Out, Interior{Heads: m.opt.Heads} }

// ofHeads sums the channels of each head, or repeats a head's number for all its channels: a block of ones for each
// head.
type ofHeads struct{ one, none func() *tensor.Tensor }

// newOfHeads returns an ofHeads that maps from channels of a head to to channels.
func newOfHeads(heads, from, to int) ofHeads {
	return ofHeads{none: zeros(heads, to), one: sync.OnceValue(func() *tensor.Tensor {
		x := tensor.New(heads, from, to)
		x.Fill(1)
		return x
	})}
}

// forward maps x (…, heads·from) to (…, heads·to).
func (m ofHeads) forward(t *autograd.Tape, x *tensor.Tensor) *tensor.Tensor {
	return t.BlockLinear(x, m.one(), m.none(), engine.None)
}
