package mixer

import (
	"math"
	"slices"
	"sync"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// BlockRecurrent is the recurrent cell of "Block-Recurrent Transformers" (arXiv:2203.07852, §3): a sequence is divided
// into blocks of W positions, and a state of several vectors S is updated after each block. q, k, v are projections of
// the positions u, and q', k', v' are projections of S' = norm(S) + ids. p and p' are second queries of each, to the
// other side:
//
//	y_t = W_o ( attention of q_t to k, v of the last W positions ; attention of p_t to k', v' of all of S )
//	z   = W_s ( attention of q' to k', v' of all of S ; attention of p' to k, v of the block )
//	S  ← σ(g) ⊙ S + (1 - σ(g)) ⊙ z
//
// where ( ; ) concatenates two results. The window reaches back into the previous block. S is the state at the
// beginning of the block. Keys and values serve both directions.
//
// Deliberate differences: the gate is the simplest of the paper's, a trained one that does not depend on the input, and
// the state has no feed-forward part ("fixed" and "skip"); positions within the window are rotary, or there are none.
type BlockRecurrent struct {
	Wqkv, Cross           *nn.Linear // projections of the positions: q, k, v and p
	StateQKV, StateCross  *nn.Linear // projections of the state: q', k', v' and p'
	Out, OutState         *nn.Linear
	Norm                  *nn.LayerNorm
	Start, IDs            *nn.Embedding // the state before the first block; ids that tell its vectors apart
	Gate                  *nn.Param
	zero, minus           func() *tensor.Tensor // (d), created on first use
	window                *Attention            // attention to the last W positions; it shares Wqkv
	d, heads, block, rows int
}

// BlockRecurrentInfo describes BlockRecurrent.
var BlockRecurrentInfo = Info{
	Name: "block-recurrent", Paper: "Block-Recurrent Transformers, arXiv:2203.07852",
	Time: "l·(block + 2·rows)·d + l·(1 + rows/block)·d²", State: "4·(rows + block)·d",
	Causal: true, Recurrent: true, Builder: builder(blockRecurrentOptionsOf, newBlockRecurrent),
	Tiny: Tiny{Options: "block=16,rows=16,rotary_emb_dim=16", DModel: 128, NLayer: 3, DInner: 320},
}

type blockRecurrentOptions struct {
	NumHeads  int `json:"num_heads" help:"heads"`
	RotaryDim int `json:"rotary_emb_dim" help:"rotated components of each head, among positions; 0 for none"`
	Block     int `json:"block" help:"positions of a block, and how many a position sees" min:"1" max:"65536"`
	Rows      int `json:"rows" help:"state vectors" min:"1" max:"65536"`
}

func blockRecurrentOptionsOf(c Config) blockRecurrentOptions {
	return blockRecurrentOptions{c.NumHeads, c.RotaryDim, 128, 32}
}

// newBlockRecurrent returns a block-recurrent mixer whose parameters have no values yet.
func newBlockRecurrent(cfg Config, o blockRecurrentOptions) (Mixer, error) {
	window, err := newAttention(cfg, attentionOptions{NumHeads: o.NumHeads, RotaryDim: o.RotaryDim}, plainHeads())
	if err != nil {
		return nil, err
	}
	window.opt.Window = o.Block
	d := cfg.DModel
	m := &BlockRecurrent{
		Wqkv: window.Wqkv, Cross: nn.NewLinear(d, d, nn.InitStd),
		StateQKV: nn.NewLinear(d, 3*d, nn.InitStd), StateCross: nn.NewLinear(d, d, nn.InitStd),
		Out: nn.NewLinear(2*d, d, outStd(cfg)), OutState: nn.NewLinear(2*d, d, nn.InitStd),
		Norm: nn.NewLayerNorm(d, 1e-5), Start: nn.NewEmbedding(o.Rows, d), IDs: nn.NewEmbedding(o.Rows, d),
		Gate: nn.NewParam(nn.Bias, nn.Constant(0), d), zero: zeros(d),
		window: window, d: d, heads: o.NumHeads, block: o.Block, rows: o.Rows,
	}
	m.minus = sync.OnceValue(func() *tensor.Tensor {
		minus := tensor.New(d)
		minus.Fill(-1)
		return minus
	})
	m.IDs.Weight.Init = nn.Normal(1) // added to a normalized vector, as released
	return m, nil
}

// Forward maps the rows of u (n, d_model) to y of the same shape. It updates the state vectors of all rows together, a
// block at a time. Then all positions attend to the state vectors at the beginning of their blocks.
func (m *BlockRecurrent) Forward(t *autograd.Tape, u *tensor.Tensor, r *Rows) *tensor.Tensor {
	own := m.Wqkv.Forward(t, u)
	near := t.Attention(own, r.Rows, r.windows(), m.window.opt)
	keys, queries := t.Split(own, m.d, 2*m.d)[1], m.Cross.Forward(t, u)
	run := &blockRun{m: m, t: t, r: r, keys: keys, heard: make([][]*blockVectors, r.Count()),
		pieces: make([][]int, r.Count())}
	run.begin()
	for run.round() {
	}
	pieces, seen := &engine.Rows{}, []*tensor.Tensor(nil)
	for i := range r.Count() {
		for j, n := range run.pieces[i] {
			pieces.Add(n, 0)
			seen = append(seen, run.heard[i][j].seen(run))
		}
	}
	far := t.CrossAttention(queries, t.Stack(seen...), m.heads, pieces, engine.EqualRows(len(seen), m.rows))
	run.store()
	return m.Out.Forward(t, t.Join(near, far))
}

// numbers returns the indices of the state vectors of n sequences.
func (m *BlockRecurrent) numbers(n int) []int32 {
	ids := make([]int32, n*m.rows)
	for i := range ids {
		ids[i] = int32(i % m.rows)
	}
	return ids
}

// enter computes the queries, keys and values of state vectors (n·rows, d).
func (m *BlockRecurrent) enter(t *autograd.Tape, rows *tensor.Tensor) *blockVectors {
	return &blockVectors{rows: rows, qkv: m.StateQKV.Forward(t, m.normed(t, rows))}
}

// normed returns norm(S) + ids.
func (m *BlockRecurrent) normed(t *autograd.Tape, rows *tensor.Tensor) *tensor.Tensor {
	_, x := m.Norm.AddForward(t, rows, nil)
	return t.Add(x, m.IDs.Forward(t, m.numbers(rows.Rows()/m.rows)))
}

// next returns the state vectors of n sequences after a block with the given keys and values: z + σ(g) ⊙ (S - z).
func (m *BlockRecurrent) next(t *autograd.Tape, rows, qkv, block *tensor.Tensor, n int) *blockVectors {
	each := engine.EqualRows(n, m.rows)
	own := t.Attention(qkv, each, nil, engine.AttentionOptions{Heads: m.heads, Ahead: true})
	cross := m.StateCross.Forward(t, m.normed(t, rows))
	other := t.CrossAttention(cross, block, m.heads, each, engine.EqualRows(n, m.block))
	z := m.OutState.Forward(t, t.Join(own, other))
	change := t.Add(rows, t.ScaleShift(z, m.minus(), m.zero()))
	return m.enter(t, t.Add(z, t.Gate(change, t.ScaleShift(rows, m.zero(), m.Gate.Tensor), engine.Sigmoid)))
}

// NewState returns the state before the first position.
func (m *BlockRecurrent) NewState() State {
	return &blockState{
		rows: tensor.New(m.rows, m.d), qkv: tensor.New(m.rows, 3*m.d), whole: m.block, window: m.window.newState(),
	}
}

// Traits returns those of a recurrence: block and window are of limited size.
func (m *BlockRecurrent) Traits() Traits { return Traits{} }

// Params visits the parameters.
func (m *BlockRecurrent) Params(prefix string, visit nn.Visitor) {
	m.Wqkv.Params(prefix+"Wqkv.", visit)
	m.Cross.Params(prefix+"cross.", visit)
	m.StateQKV.Params(prefix+"state_Wqkv.", visit)
	m.StateCross.Params(prefix+"state_cross.", visit)
	m.Out.Params(prefix+"out_proj.", visit)
	m.OutState.Params(prefix+"state_proj.", visit)
	m.Norm.Params(prefix+"state_norm.", visit)
	m.Start.Params(prefix+"state.", visit)
	m.IDs.Params(prefix+"state_ids.", visit)
	visit(prefix+"state_gate", m.Gate)
}

// last returns the heads of the window first, then those that attend to the state.
func (m *BlockRecurrent) last() (**nn.Linear, Interior) { return &m.Out, Interior{Heads: 2 * m.heads} }

// stateRules returns the trained gate of the state vectors.
func (m *BlockRecurrent) stateRules(*autograd.Tape) map[string]StateRule {
	gate := mapped(m.Gate, func(g float64) float64 { return 1 / (1 + math.Exp(-g)) })
	return map[string]StateRule{"rows": {Gates: slices.Repeat(gate, m.rows)}}
}
