package mixer

import (
	"fmt"
	"slices"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// BucketAttention is the default attention of the sinkhorn-transformer release of "Sparse Sinkhorn Attention"
// (arXiv:2002.11296), in its deterministic form: positions attend to their own bucket and to a few buckets that a sort
// net selects for it. Nothing is sorted by Sinkhorn's iterations: SparseSinkhorn is the paper's form. See
// autograd.BucketAttention. Its state is the queries, keys and values so far, from which the buckets are summarized.
type BucketAttention struct {
	Q, KV        *nn.Param // projections (d, d) and (2d, d), without biases
	Out          *nn.Linear
	Sort         *nn.Param // the linear sort net, nil if queries and keys are compared
	NullK, NullV *nn.Param // of the empty buckets before the first one, if causal
	opt          engine.BucketOptions
	params       engine.BucketParams
	d, lMax      int
}

// BucketAttentionInfo describes BucketAttention.
var BucketAttentionInfo = Info{
	Name: "bucket-attention", Paper: "sinkhorn-transformer, after arXiv:2002.11296",
	Time: "l·bucket·(top + 1)·d + (l/bucket)²·d + l·d²", State: "3·l·d",
	Causal: true, Bidirectional: true, Builder: builder(bucketOptionsOf, newBucketAttention),
	Tiny: Tiny{Options: "bucket=8", DModel: 128, NLayer: 4, DInner: 576},
}

type bucketOptions struct {
	NumHeads      int     `json:"num_heads" help:"heads"`
	Bucket        int     `json:"bucket" help:"positions of a bucket"`
	Top           int     `json:"top" help:"buckets that each bucket picks, up to 7"`
	Temperature   float64 `json:"temperature" help:"of the softmax that picks buckets"`
	SortNet       string  `json:"sort_net" help:"scores of buckets: attention (queries, keys) or simple (a linear map)"`
	LMax          int     `json:"l_max" help:"simple sort net: the longest sequence"`
	Bidirectional bool    `json:"bidirectional" help:"look ahead; for encoders"`
	KeysAsValues  bool    `json:"keys_as_values" help:"bidirectional: keys of picked buckets are their values"`
}

func bucketOptionsOf(c Config) bucketOptions {
	return bucketOptions{NumHeads: c.NumHeads, Bucket: 64, Top: 2, Temperature: 0.75,
		SortNet: "attention", LMax: 8192}
}

// check returns an error if no mixer of width d can be built.
func (o *bucketOptions) check(d int) error {
	if err := checkHeads(o.NumHeads, d); err != nil {
		return err
	}
	switch {
	case o.Bucket < 1:
		return fmt.Errorf("bucket: found %d, want at least 1", o.Bucket)
	case o.Top < 1 || o.Top > 7:
		return fmt.Errorf("top: found %d, want 1 to 7", o.Top)
	case !(o.Temperature > 0):
		return fmt.Errorf("temperature: found %g, want above 0", o.Temperature)
	case !slices.Contains([]string{"attention", "simple"}, o.SortNet):
		return fmt.Errorf("sort_net: found %q, want attention or simple", o.SortNet)
	case o.LMax < o.Bucket || o.LMax%o.Bucket != 0 || o.LMax > 1<<24:
		return fmt.Errorf("l_max: found %d, want a multiple of bucket %d up to %d", o.LMax, o.Bucket, 1<<24)
	case o.KeysAsValues && !o.Bidirectional:
		return fmt.Errorf("keys_as_values: found without bidirectional, want both")
	}
	return nil
}

// newBucketAttention returns a BucketAttention mixer whose parameters have no values yet.
func newBucketAttention(cfg Config, o bucketOptions) (Mixer, error) {
	if err := o.check(cfg.DModel); err != nil {
		return nil, err
	}
	d, hd := cfg.DModel, cfg.DModel/o.NumHeads
	m := &BucketAttention{
		Q:   nn.NewParam(nn.Weight, nn.Normal(nn.InitStd), d, d),
		KV:  nn.NewParam(nn.Weight, nn.Normal(nn.InitStd), 2*d, d),
		Out: nn.NewLinear(d, d, outStd(cfg)), d: d, lMax: o.LMax,
		opt: engine.BucketOptions{
			Heads: o.NumHeads, Bucket: o.Bucket, Top: o.Top, Temperature: float32(o.Temperature),
			Ahead: o.Bidirectional, KeysAsValues: o.KeysAsValues,
		},
	}
	columns := o.LMax / o.Bucket
	if !o.Bidirectional {
		columns += o.Top
		m.NullK = nn.NewParam(nn.Mixing, nn.Normal(1), o.NumHeads, 1, hd)
		m.NullV = nn.NewParam(nn.Mixing, nn.Normal(1), o.NumHeads, 1, hd)
		m.params.NullK, m.params.NullV = m.NullK.Tensor, m.NullV.Tensor
	}
	if o.SortNet == "simple" {
		m.Sort = nn.NewParam(nn.Mixing, nn.Normal(1), 1, o.NumHeads, 2*hd, columns)
		m.params.Sort = m.Sort.Tensor
	}
	return m, nil
}

// Forward maps the rows of u (n, d_model) to y of the same shape.
func (m *BucketAttention) Forward(t *autograd.Tape, u *tensor.Tensor, r *Rows) *tensor.Tensor {
	q := t.Linear(u, m.Q.Tensor, nil, engine.None)
	kv := t.Linear(u, m.KV.Tensor, nil, engine.None)
	return m.Out.Forward(t, t.BucketAttention(q, kv, m.params, m.opt, r.Rows, r.buckets()))
}

// Traits returns traits in which the length is limited if there is a sort net, since it has scores for a limited number
// of buckets. A bidirectional layer needs complete buckets and has no state.
func (m *BucketAttention) Traits() Traits {
	traits := Traits{LooksAhead: m.opt.Ahead}
	if m.Sort != nil {
		traits.MaxLength = m.lMax
	}
	if m.opt.Ahead {
		traits.Multiple = m.opt.Bucket
	} else {
		traits.Growth = rowBytes(m.d, 2*m.d)
	}
	return traits
}

// NewState returns the state before the first position. A bidirectional layer leaves it empty.
func (m *BucketAttention) NewState() State {
	return &bucketState{rowState: *newRowState([]string{"q", "kv"}, m.d, 2*m.d)}
}

// Params visits the parameters under the names of the release.
func (m *BucketAttention) Params(prefix string, visit nn.Visitor) {
	visit(prefix+"to_q.weight", m.Q)
	visit(prefix+"to_kv.weight", m.KV)
	m.Out.Params(prefix+"to_out.", visit)
	if m.NullK != nil {
		visit(prefix+"sinkhorn_attention.null_keys", m.NullK)
		visit(prefix+"sinkhorn_attention.null_values", m.NullV)
	}
	if m.Sort != nil {
		visit(prefix+"sinkhorn_attention.sort_net.linear", m.Sort)
	}
}

// bucketState holds the queries (l, d), and the keys and values (l, 2d), so far.
type bucketState struct {
	rowState
	sums  engine.BucketSums
	cache engine.BucketCache // both, in the form that the operation requires
}

// buckets returns the caches of the rows. Their states must be bucketStates.
func (r *Rows) buckets() []*engine.BucketCache {
	return collect(r, &r.bucketed, 0, func(s *bucketState, _ int) *engine.BucketCache {
		s.cache = engine.BucketCache{Q: &s.rows[0], KV: &s.rows[1], Sums: &s.sums}
		return &s.cache
	})
}

func (s *bucketState) Clone() State {
	return &bucketState{rowState: *s.rowState.Clone().(*rowState)} // the sums are computed again
}

func (s *bucketState) Detach() { *s = *s.Clone().(*bucketState) }

// Keep does nothing: far buckets are as likely to be selected as near ones, and summaries cover all positions.
func (s *bucketState) Keep(int) {}

func (s *bucketState) Restore(name string, shape []int, data []float32) error {
	s.sums = engine.BucketSums{}
	return s.rowState.Restore(name, shape, data)
}

func (m *BucketAttention) last() (**nn.Linear, Interior) { return &m.Out, Interior{Heads: m.opt.Heads} }
