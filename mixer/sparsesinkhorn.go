package mixer

import (
	"fmt"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// SparseSinkhorn is the attention of "Sparse Sinkhorn Attention" (arXiv:2002.11296, §3): blocks of positions are sorted
// by a soft permutation, and each block attends to itself and to the block that is sorted to its place,
//
//	R = P(ψ),  P(x) = W_B gelu(W_P x + b_P) + b_B     scores of blocks, for each head; ψ summarizes a block
//	S = sinkhorn((R + ε)/τ)                            doubly stochastic: see autograd.SinkhornBalance
//	y = softmax( Q [S K; K]ᵀ/√head_dim ) [S V; V]      S K mixes whole blocks
//
// with Gumbel noise ε in training. If causal (§3.3), ψ of a block is the mean of all positions up to its first one, S
// has weights of earlier blocks only and is balanced by sums over the rows up to its own, and positions see their own
// block up to themselves. With sortcut (§3.4) all positions attend to the first n sorted blocks, and to nothing else.
//
// Deliberate differences: ψ is a mean, not a sum, so that scores do not grow with the position; the function between
// W_P and W_B is gelu, where the paper has ReLU, and there is none after W_B; the first block of a causal sequence has
// no sorted block. rotary_emb_dim, which the paper does not have, places sorted positions before those of the block.
type SparseSinkhorn struct {
	QKV, Out      *nn.Linear
	Sort, Columns *nn.Linear // W_P and W_B; the rows of W_B are heads, then blocks

	opt                  engine.AttentionOptions
	balance              engine.BalanceOptions
	temperature          float64
	d, block, lMax, most int // most is the number of blocks of sortcut
}

// SparseSinkhornInfo describes SparseSinkhorn.
var SparseSinkhornInfo = Info{
	Name: "sparse-sinkhorn", Paper: "Sparse Sinkhorn Attention, arXiv:2002.11296",
	Time: "l·block·d + (l/block)²·(block·d + rounds·heads) + l·d²", State: "2·l·d", Causal: true, Bidirectional: true,
	Builder: builder(sparseSinkhornDefaults, newSparseSinkhorn),
	Tiny:    Tiny{Options: "block=16,l_max=512,rotary_emb_dim=16", DModel: 128, NLayer: 4, DInner: 448},
}

type sparseSinkhornOptions struct {
	NumHeads      int     `json:"num_heads" help:"heads, each with a sort of its own"`
	RotaryDim     int     `json:"rotary_emb_dim" help:"rotated components of each head, within two blocks; 0 for none"`
	Block         int     `json:"block" help:"positions of a block" min:"1" max:"65536"`
	LMax          int     `json:"l_max" help:"the longest sequence, a multiple of block"`
	Rounds        int     `json:"rounds" help:"Sinkhorn's iterations" min:"0" max:"1000"`
	Temperature   float64 `json:"temperature" help:"τ: the lower, the harder the sort"`
	Bidirectional bool    `json:"bidirectional" help:"look ahead; for encoders"`
	SortCut       int     `json:"sortcut" help:"bidirectional: attend to that many sorted blocks alone; 0: not" min:"0"`
}

func sparseSinkhornDefaults(c Config) sparseSinkhornOptions {
	return sparseSinkhornOptions{NumHeads: c.NumHeads, RotaryDim: c.RotaryDim, Block: 64, LMax: 8192, Rounds: 7,
		Temperature: 0.75}
}

// newSparseSinkhorn returns a SparseSinkhorn mixer whose parameters have no values yet.
func newSparseSinkhorn(cfg Config, o sparseSinkhornOptions) (Mixer, error) {
	m, err := newAttention(cfg, attentionOptions{NumHeads: o.NumHeads, RotaryDim: o.RotaryDim}, plainHeads())
	switch {
	case err != nil:
		return nil, err
	case o.LMax < o.Block || o.LMax%o.Block != 0 || o.LMax > 1<<24:
		return nil, fmt.Errorf("l_max: found %d, want a multiple of block %d up to %d", o.LMax, o.Block, 1<<24)
	case o.NumHeads*(o.LMax/o.Block) > maxTokens:
		return nil, fmt.Errorf("l_max: found %d, want at most %d scores of blocks of %d for %d heads", o.LMax,
			maxTokens, o.Block, o.NumHeads)
	case !(o.Temperature > 0):
		return nil, fmt.Errorf("temperature: found %g, want above 0", o.Temperature)
	case o.SortCut > 0 && !o.Bidirectional:
		return nil, fmt.Errorf("sortcut: found %d without bidirectional, want both", o.SortCut)
	}
	d := cfg.DModel
	m.opt.Ahead = o.Bidirectional
	s := &SparseSinkhorn{
		QKV: m.Wqkv, Out: m.Out, Sort: nn.NewLinear(d, d, nn.InitStd),
		Columns: nn.NewLinear(d, o.NumHeads*(o.LMax/o.Block), nn.InitStd), opt: m.opt, temperature: o.Temperature,
		balance: engine.BalanceOptions{Heads: o.NumHeads, Rounds: o.Rounds, Causal: !o.Bidirectional},
		d:       d, block: o.Block, lMax: o.LMax, most: o.SortCut,
	}
	s.Sort.Activation = engine.GeluTanh
	return s, nil
}

// Forward maps the rows of u (n, d_model) to y of the same shape.
func (m *SparseSinkhorn) Forward(t *autograd.Tape, u *tensor.Tensor, r *Rows) *tensor.Tensor {
	run := &sortedRun{m: m, t: t, r: r, qkv: m.QKV.Forward(t, u), pieces: &engine.Rows{}}
	parts := t.Split(run.qkv, m.d, 2*m.d)
	run.q, run.kv = parts[0], parts[1]
	run.summarize(u)
	for i := range r.Count() {
		run.row(i)
	}
	return m.Out.Forward(t, run.attend())
}

// Traits returns traits in which the length is limited, since the sort has columns for a limited number of blocks. A
// bidirectional layer needs complete blocks and has no state.
func (m *SparseSinkhorn) Traits() Traits {
	if m.opt.Ahead {
		return Traits{LooksAhead: true, MaxLength: m.lMax, Multiple: m.block}
	}
	scores := rowBytes(m.Columns.Weight.Dim(0))
	return Traits{MaxLength: m.lMax, Growth: rowBytes(2*m.d) + (scores+m.block-1)/m.block}
}

// Params visits the parameters.
func (m *SparseSinkhorn) Params(prefix string, visit nn.Visitor) {
	m.QKV.Params(prefix+"Wqkv.", visit)
	m.Sort.Params(prefix+"sort.", visit)
	m.Columns.Params(prefix+"sort_columns.", visit)
	m.Out.Params(prefix+"out_proj.", visit)
}

func (m *SparseSinkhorn) last() (**nn.Linear, Interior) { return &m.Out, Interior{Heads: m.opt.Heads} }
