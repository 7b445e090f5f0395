package mixer

import (
	"fmt"
	"math"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// Shared is the part before the mixer in a layer of "The Zamba2 Suite" (arXiv:2411.15242, §3): a block of attention and
// a feed-forward part whose weights several layers share, each with its own adapters. With the stream x, the embedding
// e that it began with, and ( ; ) for concatenation,
//
//	s = norm(x ; e);   s = W_o·attention(s);   s = norm2(s);   y = Out( FC2( FC1(s) ⊙ gelu(Gate(s)) ) )
//
// where a low-rank adapter B·A·s is added to queries, keys and values, and to the outputs of FC1 and Gate. y is added
// to the input of the layer's mixer, not to the stream. The state is the keys and values.
type Shared struct {
	block *sharedBlock
	first bool        // first layer with this block, whose parameters include the block's
	qkv   [3]*adapter // of queries, keys and values; nil for none
	mlp   *adapter    // of FC1 and of Gate; nil for none
	Out   *nn.Linear  // (d, d)
}

// sharedBlock has the weights that several layers share.
type sharedBlock struct {
	norm1, norm2 *nn.RMSNorm
	attention    *Attention
	mlp          *nn.Gated
}

// adapter adds B·A·s, for each of several B.
type adapter struct {
	a *nn.Linear
	b []*nn.Linear
}

// SharedBlocks holds the blocks of a model, by number.
type SharedBlocks map[int]*sharedBlock

type sharedOptions struct {
	Block             int     `json:"block"`
	NumHeads          int     `json:"num_heads"`
	RotaryDim         int     `json:"rotary_emb_dim"`
	RotaryBase        float64 `json:"rotary_base"`
	DInner            int     `json:"d_inner"`
	AdapterRank       int     `json:"adapter_rank"`
	AttentionAdapters bool    `json:"attention_adapters"`
	MLPAdapters       bool    `json:"mlp_adapters"`
	Bias              bool    `json:"bias"`
	NormEps           float64 `json:"norm_eps"`
}

// maxShared bounds the cost of a wrong configuration.
const maxShared = 1 << 20

// NewShared returns a layer's part with a block from blocks. It creates the block if there is none with its number. The
// scale of the attention is that of heads of half their size, since half of their input is the embedding.
func NewShared(cfg Config, blocks SharedBlocks) (*Shared, error) {
	o := sharedOptions{NumHeads: cfg.NumHeads, RotaryDim: cfg.RotaryDim, DInner: 4 * cfg.DModel, NormEps: 1e-5,
		MLPAdapters: true}
	if err := cfg.Options.into(&o); err != nil {
		return nil, err
	}
	switch {
	case o.Block < 0:
		return nil, fmt.Errorf("block: found %d, want 0 or more", o.Block)
	case o.DInner < 1 || o.DInner > maxShared:
		return nil, fmt.Errorf("d_inner: found %d, want 1 to %d", o.DInner, maxShared)
	case o.AdapterRank < 0 || o.AdapterRank > maxShared:
		return nil, fmt.Errorf("adapter_rank: found %d, want 0 to %d", o.AdapterRank, maxShared)
	case !(o.NormEps > 0):
		return nil, fmt.Errorf("norm_eps: found %g, want more than 0", o.NormEps)
	}
	d := cfg.DModel
	block, known := blocks[o.Block]
	if !known {
		var err error
		if block, err = newSharedBlock(cfg, o); err != nil {
			return nil, err
		}
		if blocks != nil {
			blocks[o.Block] = block
		}
	}
	m := &Shared{block: block, first: !known, Out: projection(d, d, cfg.NLayer, false)}
	if o.AdapterRank > 0 && o.MLPAdapters {
		m.mlp = newAdapter(d, o.AdapterRank, o.DInner, o.DInner)
	}
	if o.AdapterRank > 0 && o.AttentionAdapters {
		for i := range m.qkv {
			m.qkv[i] = newAdapter(2*d, o.AdapterRank, 2*d)
		}
	}
	if block.mlp.FC1.Weight.Dim(0) != o.DInner || block.attention.opt.Heads != o.NumHeads {
		return nil, fmt.Errorf("block %d: found other sizes than in a layer before, want the same", o.Block)
	}
	return m, nil
}

func newSharedBlock(cfg Config, o sharedOptions) (*sharedBlock, error) {
	d := cfg.DModel
	wide := cfg
	wide.DModel = 2 * d
	if o.NumHeads < 1 || 2*d%o.NumHeads != 0 {
		return nil, fmt.Errorf("num_heads: found %d, want a divisor of 2·d_model %d", o.NumHeads, 2*d)
	}
	attention, err := newAttention(wide, attentionOptions{NumHeads: o.NumHeads, RotaryDim: o.RotaryDim},
		headOptions{Bias: o.Bias, rotaryOptions: rotaryOptions{RotaryBase: o.RotaryBase},
			Scale: 1 / math.Sqrt(float64(d)/float64(o.NumHeads))})
	if err != nil {
		return nil, err
	}
	attention.Out = projection(2*d, d, cfg.NLayer, o.Bias)
	b := &sharedBlock{
		norm1: nn.NewRMSNorm(2*d, o.NormEps), norm2: nn.NewRMSNorm(d, o.NormEps), attention: attention,
		mlp: nn.NewGated(d, o.DInner, engine.GeluErf, outStd(cfg)),
	}
	if !o.Bias {
		b.mlp.WithoutBias()
	}
	return b, nil
}

// newAdapter returns an adapter whose second matrices start at zero, so that it changes nothing at first
// (arXiv:2106.09685).
func newAdapter(in, rank int, outs ...int) *adapter {
	m := &adapter{a: projection(in, rank, 1, false)}
	for _, out := range outs {
		b := projection(rank, out, 1, false)
		b.Weight.Init = nn.Constant(0)
		m.b = append(m.b, b)
	}
	return m
}

// add adds the adapter's output for s to xs. A nil adapter adds nothing.
func (m *adapter) add(t *autograd.Tape, s *tensor.Tensor, xs ...*tensor.Tensor) []*tensor.Tensor {
	if m == nil {
		return xs
	}
	low := m.a.Forward(t, s)
	for i, b := range m.b {
		xs[i] = t.Add(xs[i], b.Forward(t, low))
	}
	return xs
}

func (m *adapter) params(prefix string, visit nn.Visitor) {
	if m == nil {
		return
	}
	m.a.Params(prefix+"a.", visit)
	for i, b := range m.b {
		b.Params(fmt.Sprintf("%sb.%d.", prefix, i), visit)
	}
}

// Forward maps the stream x (n, d_model), which began as e, to the term to add to the input of the layer's mixer.
func (m *Shared) Forward(t *autograd.Tape, x, e *tensor.Tensor, r *Rows) *tensor.Tensor {
	b := m.block
	_, s := b.norm1.AddForward(t, t.Join(x, e), nil)
	qkv, _ := b.attention.project(t, s)
	if m.qkv[0] != nil {
		parts := t.Split(qkv, s.Dim(1), s.Dim(1), s.Dim(1))
		for i, a := range m.qkv {
			parts[i] = a.add(t, s, parts[i])[0]
		}
		qkv = t.Join(parts...)
	}
	_, s = b.norm2.AddForward(t, b.attention.attend(t, qkv, nil, r), nil)
	inner := m.mlp.add(t, s, b.mlp.FC1.Forward(t, s), b.mlp.Gate.Forward(t, s))
	return m.Out.Forward(t, b.mlp.FC2.Forward(t, t.Gate(inner[0], inner[1], b.mlp.Activation)))
}

// NewState returns an empty cache of keys and values.
func (m *Shared) NewState() State { return m.block.attention.NewState() }

// Traits returns those of attention.
func (m *Shared) Traits() Traits { return m.block.attention.Traits() }

// Params visits the parameters. Those of the block are visited only by the first layer that has it.
func (m *Shared) Params(prefix string, visit nn.Visitor) {
	if m.first {
		m.block.norm1.Params(prefix+"norm1.", visit)
		m.block.attention.Params(prefix+"attention.", visit)
		m.block.norm2.Params(prefix+"norm2.", visit)
		m.block.mlp.Params(prefix+"mlp.", visit)
	}
	for i, name := range []string{"q", "k", "v"} {
		m.qkv[i].params(prefix+name+"_adapter.", visit)
	}
	m.mlp.params(prefix+"mlp_adapter.", visit)
	m.Out.Params(prefix+"out_proj.", visit)
}
