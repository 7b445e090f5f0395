package mixer

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// RWKV7 is the time mixing of "RWKV-7 'Goose' with Expressive Dynamic State Evolution" (arXiv:2503.14456, §4). With the
// input u and the previous one, u_i = u + (u[t-1] - u)⊙x_i for each i of r, w, k, v, a and g:
//
//	r, k, v = R u_r, K u_k, V u_v;   g = -e^(-1/2)·σ(w0 + w2·tanh(w1 u_w));   a = σ(a0 + a2·a1 u_a)
//	v = v + (v₀ - v)⊙σ(v0 + v2·v1 u_v);   κ = k⊙k_k, of length 1;   k = k⊙(1 + (a - 1)⊙k_a)
//	S[t] = (Diag(e^g) - (κ⊙a)·κᵀ)·S[t-1] + k·vᵀ,   o = S[t]ᵀ·r
//	y = Out( (norm(o) + (Σ r⊙k⊙r_k)·v) ⊙ g2·σ(g1 u_g) )
//
// where v₀ is v of the model's first such layer, which has no v0, v1 and v2. κ, the rule, the norm, which subtracts the
// mean, and the sum are computed for each head. The state is u[t-1], (1, d), and S, (heads, head_size, head_size).
type RWKV7 struct {
	R, K, V, Out *nn.Linear
	W, A, G      [2]*nn.Linear // w0 and a0 are the biases of the second
	VFirst       [2]*nn.Linear // nil in the first layer; v0 is the bias of the second
	Mix          [6]*nn.Param  // x_i (d)
	KK, KA       *nn.Param     // (d)
	RK           *nn.Param     // (heads, head_size)
	Norm         *nn.LayerNorm

	heads      int
	shift      shift
	sums, each ofHeads
	one, none  func() *tensor.Tensor
	length     func() *tensor.Tensor // weights of the norm that sets the length of κ
	values     *tensor.Tensor        // v₀ (l, d) for a layer that runs alone: see Given
}

// Indices of Mix.
const (
	mixR = iota
	mixW
	mixK
	mixV
	mixA
	mixG
)

// RWKV7Info describes RWKV7.
var RWKV7Info = Info{
	Name:   "rwkv7",
	Paper:  `RWKV-7 "Goose" with Expressive Dynamic State Evolution, arXiv:2503.14456`,
	Time:   "l·d·(head_size + block) + l·d²",
	State:  "d·(head_size + 1)",
	Causal: true, Recurrent: true, Builder: builder(rwkv7Defaults, newRWKV7),
	Tiny: Tiny{DModel: 128, NLayer: 4, DInner: 416, MLP: "channel-mix"},
}

type rwkv7Options struct {
	HeadSize int     `json:"head_size" help:"channels of a head; 0 for 64, or a quarter of all if that is less"`
	W        int     `json:"w_rank" help:"rank of the map to decays; 0 for 2.5·√d_model in steps of 32"`
	A        int     `json:"a_rank" help:"rank of the map to a; 0 as w_rank"`
	V        int     `json:"v_rank" help:"rank of the map to the part of the first layer's values; 0 for 1.7·√d_model"`
	G        int     `json:"g_rank" help:"rank of the map to the gate; 0 for 5·√d_model"`
	NormEps  float64 `json:"norm_eps" help:"epsilon of the norm of each head"`
}

// RWKV7Ranks are the release's factors for RWKV7Rank.
var RWKV7Ranks = map[string]float64{"w_rank": 2.5, "a_rank": 2.5, "v_rank": 1.7, "g_rank": 5}

// RWKV7Rank returns the release's choice for the rank of a map of d channels: factor·√d, in steps of 32.
func RWKV7Rank(factor float64, d int) int {
	return max(32, int(math.Round(factor*math.Sqrt(float64(d))/32))*32)
}

func rwkv7Defaults(Config) rwkv7Options { return rwkv7Options{NormEps: 64e-5} }

// followsRWKV7 reports whether one of the layers has an rwkv7 mixer. It searches from the end, since there may be many
// layers.
func followsRWKV7(layers []string) bool {
	for _, layer := range slices.Backward(layers) {
		parts := strings.FieldsFunc(layer, func(r rune) bool { return r == '+' || r == '>' })
		if slices.Contains(parts, "rwkv7") {
			return true
		}
	}
	return false
}

// newRWKV7 returns an RWKV-7 mixer whose parameters have no values yet. It is the first one if no previous layer has
// one.
func newRWKV7(cfg Config, o rwkv7Options) (Mixer, error) {
	d := cfg.DModel
	if o.HeadSize == 0 {
		o.HeadSize = min(64, d/4)
	}
	if o.HeadSize < 1 || d%o.HeadSize != 0 {
		return nil, fmt.Errorf("head_size: found %d, want a divisor of d_model %d", o.HeadSize, d)
	}
	for _, rank := range []struct {
		name string
		n    *int
	}{{"w_rank", &o.W}, {"a_rank", &o.A}, {"v_rank", &o.V}, {"g_rank", &o.G}} {
		if *rank.n == 0 {
			*rank.n = RWKV7Rank(RWKV7Ranks[rank.name], d)
		}
		if *rank.n < 1 || *rank.n > maxHeadDim {
			return nil, fmt.Errorf("%s: found %d, want 1 to %d", rank.name, *rank.n, maxHeadDim)
		}
	}
	if !(o.NormEps > 0) {
		return nil, fmt.Errorf("norm_eps: found %g, want more than 0", o.NormEps)
	}
	m := &RWKV7{
		R: projection(d, d, 1, false), K: projection(d, d, 1, false), V: projection(d, d, 1, false),
		Out: projection(d, d, cfg.NLayer, false), W: lowRank(d, o.W, d, true), A: lowRank(d, o.A, d, true),
		G: lowRank(d, o.G, d, false), Norm: nn.NewLayerNorm(d, o.NormEps), heads: d / o.HeadSize,
		KK: nn.NewParam(nn.SSM, nn.Constant(0.85), d), KA: nn.NewParam(nn.SSM, nn.Constant(1), d),
		RK:    nn.NewParam(nn.SSM, nn.Constant(0), d/o.HeadSize, o.HeadSize),
		shift: newShift(d), one: ones(d), none: zeros(d),
		sums: newOfHeads(d/o.HeadSize, o.HeadSize, 1), each: newOfHeads(d/o.HeadSize, 1, o.HeadSize),
	}
	m.length = constant(1/math.Sqrt(float64(o.HeadSize)), d)
	layer, layers := len(cfg.Earlier), max(1, cfg.NLayer)
	for i := range m.Mix {
		m.Mix[i] = nn.NewParam(nn.SSM, rwkv7Mix(mixPowers[i], layer, layers), d)
	}
	m.W[0].Activation, m.W[1].Activation = engine.Tanh, engine.Sigmoid
	m.W[0].Weight.Init, m.W[1].Bias = nn.Constant(0), nn.NewParam(nn.SSMSystem, rwkv7Decay(layer, layers), d)
	m.A[1].Activation, m.G[0].Activation = engine.Sigmoid, engine.Sigmoid
	for _, small := range [][2]*nn.Linear{m.W, m.A} {
		small[0].Weight.Fine, small[1].Weight.Fine = true, true
	}
	if followsRWKV7(cfg.Earlier) {
		m.VFirst = lowRank(d, o.V, d, true)
		m.VFirst[1].Bias.Init = nn.Constant(1)
	}
	return m, nil
}

// mixPowers are the rates at which x_i falls over the channels, in the first layer.
var mixPowers = [6]float64{mixR: 0.2, mixW: 0.9, mixK: 0.7, mixV: 0.7, mixA: 0.9, mixG: 0.2}

// rwkv7Mix returns the release's start of x_i: 1 - (c/d)^(power·(1 - layer/layers)).
func rwkv7Mix(power float64, layer, layers int) func(*rand.Rand, []float32) {
	return func(_ *rand.Rand, x []float32) {
		for c := range x {
			at := float64(c) / float64(len(x))
			x[c] = float32(1 - math.Pow(at, power*(1-float64(layer)/float64(layers))))
		}
	}
}

// rwkv7Decay returns the release's start of w0: from -5.5 to 0.5, rising more slowly in deeper layers.
func rwkv7Decay(layer, layers int) func(*rand.Rand, []float32) {
	return func(_ *rand.Rand, x []float32) {
		depth := float64(layer) / float64(max(1, layers-1))
		for c := range x {
			at := float64(c) / float64(max(1, len(x)-1))
			x[c] = float32(-5.5 + 6*math.Pow(at, 1+math.Pow(depth, 0.3)))
		}
	}
}

// rwkv7Rate is the largest rate of decay, e^(-1/2).
var rwkv7Rate = math.Exp(-0.5)

// Forward maps the rows of u (n, d_model) to y of the same shape.
func (m *RWKV7) Forward(t *autograd.Tape, u *tensor.Tensor, r *Rows) *tensor.Tensor {
	delta := m.shift.forward(t, u, r)
	mixed := func(i int) *tensor.Tensor { return t.Add(u, t.ScaleShift(delta, m.Mix[i].Tensor, m.none())) }
	receptance, k := m.R.Forward(t, mixed(mixR)), m.K.Forward(t, mixed(mixK))
	a := m.A[1].Forward(t, m.A[0].Forward(t, mixed(mixA)))
	v := m.value(t, mixed(mixV), r)
	kappa := t.RMSNorm(t.ScaleShift(k, m.KK.Tensor, m.none()), m.length(), m.heads, rwkv7LengthEps/float64(m.RK.Dim(1)))
	k = t.Mul(k, t.ScaleShift(a, m.KA.Tensor, t.Add(m.one(), t.Scale(m.KA.Tensor, -1))))
	o := t.DeltaRule(engine.Delta{
		Q: receptance, K: k, V: v, A: t.Scale(t.Mul(kappa, a), -1), B: kappa, Heads: m.heads, KeyHeads: m.heads,
		G: t.Scale(m.W[1].Forward(t, m.W[0].Forward(t, mixed(mixW))), -rwkv7Rate),
	}, r.Rows, r.fixed(1))
	o = t.LayerNorm(o, m.Norm.Weight.Tensor, m.Norm.Bias.Tensor, m.heads, m.Norm.Eps)
	bonus := m.sums.forward(t, t.ScaleShift(t.Mul(receptance, k), m.RK.Tensor, m.none())) // (n, heads)
	o = t.Add(o, t.Gate(v, m.each.forward(t, bonus), engine.None))
	return m.Out.Forward(t, t.Mul(o, m.G[1].Forward(t, m.G[0].Forward(t, mixed(mixG)))))
}

// rwkv7LengthEps replaces the release's max(|κ|, 1e-12). It makes a difference only for vectors as short as that.
const rwkv7LengthEps = 1e-24

// value returns v for the mixed input. The first layer passes it on to later ones.
func (m *RWKV7) value(t *autograd.Tape, u *tensor.Tensor, r *Rows) *tensor.Tensor {
	v := m.V.Forward(t, u)
	if m.hands() {
		if r.Handed != nil {
			r.Handed.Values = v
		}
		return v
	}
	part := m.VFirst[1].Forward(t, m.VFirst[0].Forward(t, u))
	return t.Add(v, t.Gate(t.Add(m.first(t, r), t.Scale(v, -1)), part, engine.Sigmoid))
}

// first returns v₀ of the rows.
func (m *RWKV7) first(t *autograd.Tape, r *Rows) *tensor.Tensor {
	if m.values == nil {
		if r.Handed == nil || r.Handed.Values == nil {
			panic("mixer: rwkv7 without the values of the first layer")
		}
		return r.Handed.Values
	}
	d := m.values.Dim(1)
	all, out := m.values.Floats(), make([]float32, 0, r.Total()*d)
	for i := range r.Count() {
		out = append(out, all[r.Start(i)*d:][:r.Len(i)*d]...)
	}
	x := t.New(r.Total(), d)
	x.CopyFrom(out)
	return x
}

// hands reports whether the layer passes its values on.
func (m *RWKV7) hands() bool { return m.VFirst[0] == nil }

func (m *RWKV7) given(h *Handed) Mixer {
	if m.hands() || h == nil || h.Values == nil {
		return m
	}
	c := *m
	c.values = tensor.FromSlice(h.Values.Floats(), h.Values.Shape()...)
	return &c
}

// NewState returns the state before the first position, zeros.
func (m *RWKV7) NewState() State {
	d := m.Norm.Weight.Len()
	return newFixedState([]string{"shift", "wkv"}, []int{1, d}, []int{m.heads, d / m.heads, d / m.heads}).
		of(PositionRows, Numbers)
}

// Traits returns the traits of a recurrence.
func (m *RWKV7) Traits() Traits { return Traits{StepsRows: true} }

// Params visits the parameters under the names of the release, except for the dot in the names of the low-rank
// matrices. These are (out, in) like all others.
func (m *RWKV7) Params(prefix string, visit nn.Visitor) {
	for i, name := range []string{"r", "w", "k", "v", "a", "g"} {
		visit(prefix+"x_"+name, m.Mix[i])
	}
	for _, low := range []struct {
		name string
		of   [2]*nn.Linear
	}{{"w", m.W}, {"a", m.A}, {"v", m.VFirst}, {"g", m.G}} {
		if low.of[0] == nil {
			continue
		}
		if low.of[1].Bias != nil {
			visit(prefix+low.name+"0", low.of[1].Bias)
		}
		visit(prefix+low.name+"1.weight", low.of[0].Weight)
		visit(prefix+low.name+"2.weight", low.of[1].Weight)
	}
	visit(prefix+"k_k", m.KK)
	visit(prefix+"k_a", m.KA)
	visit(prefix+"r_k", m.RK)
	m.R.Params(prefix+"receptance.", visit)
	m.K.Params(prefix+"key.", visit)
	m.V.Params(prefix+"value.", visit)
	m.Out.Params(prefix+"output.", visit)
	m.Norm.Params(prefix+"ln_x.", visit)
}

func (m *RWKV7) last() (**nn.Linear, Interior) { return &m.Out, Interior{Heads: m.heads} }

// system returns the pole -e^(-1/2) for each channel of keys, with the gate σ as its step.
func (m *RWKV7) system() System {
	s := System{Rows: m.Norm.Weight.Len(), Dt: mapped(m.W[1].Bias, sigmoid)}
	for range s.Rows {
		s.Poles = append(s.Poles, complex(-rwkv7Rate, 0))
	}
	return s
}
