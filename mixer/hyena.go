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

// Hyena is the operator of "Hyena Hierarchy: Towards Larger Convolutional Language Models" (arXiv:2302.10866, §3). With
// (x_0, …, x_{N-1}, v) = short(In(u)) and N the order, gates and long convolutions alternate:
//
//	v ← h_n * (v ⊙ x_n) + D_n (v ⊙ x_n),   n = N-1, …, 1;      y = Out(v ⊙ x_0)
//
// where short is a causal filter of a few taps and the h_n are implicit filters of l_max taps. Order 2 with other
// filters is H3. Sequences may have any length; a position sees their last l_max inputs. The state is the inputs of the
// short filter, (short_filter_order-1, (N+1)·d_model), and the inputs of each long convolution so far, (up to l_max-1,
// d_model): it grows.
type Hyena struct {
	In, Out             *nn.Linear
	ShortWeight, ShortB *nn.Param // ((N+1)·d, 1, taps), ((N+1)·d)
	Filter              *hyenaFilter

	opt hyenaOptions
	d   int
}

// HyenaInfo describes Hyena.
var HyenaInfo = Info{
	Name:  "hyena",
	Paper: "Hyena Hierarchy: Towards Larger Convolutional Language Models, arXiv:2302.10866",
	Time:  "order·l·log l·d + l·d²", State: "(order-1)·l·d",
	Causal: true, Builder: builder(hyenaDefaults, newHyena),
	Tiny: Tiny{Options: "l_max=256", DModel: 128, NLayer: 4, DInner: 512},
}

type hyenaOptions struct {
	Order       int     `json:"order" help:"projections besides v: one more than there are long convolutions"`
	LMax        int     `json:"l_max" help:"taps of the long filters: the length of the sequences in training"`
	FilterOrder int     `json:"filter_order" help:"width of the network that makes the long filters"`
	EmbDim      int     `json:"emb_dim" help:"positional features it is given, an odd number"`
	InnerMLPs   int     `json:"num_inner_mlps" help:"its layers between the first and the last"`
	W           float64 `json:"w" help:"the frequency that its sines start with"`
	ShortOrder  int     `json:"short_filter_order" help:"taps of the short filter"`
	Modulate    bool    `json:"modulate" help:"long filters have a window that decays"`
	Shift       float64 `json:"shift" help:"what the window decays to"`
	FastDecay   float64 `json:"fast_decay_pct" help:"the part of l_max in which the fastest window falls to target"`
	SlowDecay   float64 `json:"slow_decay_pct" help:"the part of l_max in which the slowest does"`
	Target      float64 `json:"target" help:"what fast_decay_pct and slow_decay_pct speak of"`
	TrainPosEmb bool    `json:"train_pos_emb" help:"positional features are trained"`
}

// hyenaDefaults returns the options of the release. Features and frequencies are those of its language models.
func hyenaDefaults(Config) hyenaOptions {
	return hyenaOptions{
		Order: 2, LMax: 1024, FilterOrder: 64, EmbDim: 33, InnerMLPs: 2, W: 14, ShortOrder: 3,
		Modulate: true, FastDecay: 0.3, SlowDecay: 1.5, Target: 1e-2,
	}
}

// Bounds on the cost of a wrong configuration.
const (
	maxOrder    = 64
	maxTaps     = 1 << 26
	maxFilter   = 1 << 14
	maxInner    = 64
	maxFeatures = 1 << 12
)

func (o *hyenaOptions) check() error {
	for _, f := range []struct {
		name           string
		v, least, most int
	}{
		{"order", o.Order, 2, maxOrder}, {"l_max", o.LMax, 1, maxTaps}, {"filter_order", o.FilterOrder, 1, maxFilter},
		{"emb_dim", o.EmbDim, 3, maxFeatures}, {"num_inner_mlps", o.InnerMLPs, 0, maxInner},
		{"short_filter_order", o.ShortOrder, 1, maxFilter},
	} {
		if f.v < f.least || f.v > f.most {
			return fmt.Errorf("%s: found %d, want %d to %d", f.name, f.v, f.least, f.most)
		}
	}
	switch {
	case o.EmbDim%2 == 0:
		return fmt.Errorf("emb_dim: found %d, want an odd number: time, and a sine and a cosine for each band",
			o.EmbDim)
	case !(o.Target > 0 && o.Target < 1):
		return fmt.Errorf("target: found %g, want 0 < target < 1", o.Target)
	case !(o.FastDecay > 0 && o.FastDecay <= o.SlowDecay):
		return fmt.Errorf("fast_decay_pct, slow_decay_pct: found %g, %g, want 0 < fast ≤ slow", o.FastDecay,
			o.SlowDecay)
	}
	return nil
}

// newHyena returns a Hyena mixer whose parameters have no values yet.
func newHyena(cfg Config, o hyenaOptions) (Mixer, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	d, wide := cfg.DModel, (o.Order+1)*cfg.DModel
	scale := nn.InitStd / math.Sqrt(float64(2*max(1, cfg.NLayer)))
	start := nn.Uniform(1 / math.Sqrt(float64(o.ShortOrder))) // the start of PyTorch's Conv1d
	return &Hyena{
		In:          nn.NewLinear(d, wide, nn.InitStd),
		Out:         nn.NewLinear(d, d, scale), // as the releases scale it
		ShortWeight: nn.NewParam(nn.SSM, start, wide, 1, o.ShortOrder), ShortB: nn.NewParam(nn.Bias, start, wide),
		Filter: newHyenaFilter(d, o.Order-1, &o), opt: o, d: d,
	}, nil
}

// Forward maps the rows of u (n, d_model) to y of the same shape.
func (m *Hyena) Forward(t *autograd.Tape, u *tensor.Tensor, r *Rows) *tensor.Tensor {
	caches := r.past(0)
	// for rows without a state, gates are fused with the convolutions
	if caches != nil && slices.Contains(caches, nil) {
		return r.apart(t, u, func(i int) int { return slices.Index(caches[i:i+1], nil) }, m.Forward)
	}
	taps := r.Longest()
	for i, c := range caches {
		taps = max(taps, c.Past()+r.Len(i))
	}
	x := t.CausalConv(m.In.Forward(t, u), m.ShortWeight.Tensor, m.ShortB.Tensor, engine.None, r.Rows, r.short())
	parts := t.Split(x, widths(m.opt.Order+1, m.d)...) // x_0, x_1, ..., v

	v, kernels, skips := parts[m.opt.Order], m.Filter.kernels(t, taps), m.Filter.split(t, m.Filter.D.Tensor)
	for i, k := range kernels {
		g := engine.Gates{K: parts[m.opt.Order-1-i], V: v}
		if i == len(kernels)-1 {
			g.Q = parts[0]
		}
		if caches == nil {
			v = t.GatedLongConv(g, k, skips[i], r.Rows)
			continue
		}
		v = t.CachedLongConv(t.Mul(g.V, g.K), k, skips[i], r.Rows, r.past(i))
		if g.Q != nil {
			v = t.Mul(v, g.Q)
		}
	}
	return m.Out.Forward(t, v)
}

// Params visits the parameters under their official names.
func (m *Hyena) Params(prefix string, visit nn.Visitor) {
	m.In.Params(prefix+"in_proj.", visit)
	m.Out.Params(prefix+"out_proj.", visit)
	visit(prefix+"short_filter.weight", m.ShortWeight)
	visit(prefix+"short_filter.bias", m.ShortB)
	m.Filter.params(prefix+"filter_fn.", visit)
}

// NewState returns the state before the first position.
func (m *Hyena) NewState() State {
	s := &hyenaState{short: engine.Slot{X: tensor.New(m.opt.ShortOrder-1, (m.opt.Order+1)*m.d)}, d: m.d}
	for range m.opt.Order - 1 {
		s.long = append(s.long, engine.ConvCache{Window: m.opt.LMax})
	}
	return s
}

// Traits returns traits in which each position adds an input of each long convolution to the state, up to l_max-1.
func (m *Hyena) Traits() Traits {
	return Traits{Growth: 4 * (m.opt.Order - 1) * m.d, Convolves: true}
}

func (m *Hyena) kernels(t *autograd.Tape, l int) []Response {
	var all []Response
	for i, k := range m.Filter.split(t, m.Filter.generate(t, min(l, m.opt.LMax))) {
		all = append(all, Response{numbered("long", i), k})
	}
	return append(all, shortKernel(m.ShortWeight.Tensor))
}

func (m *Hyena) last() (**nn.Linear, Interior) { return &m.Out, Interior{} }
