package mixer

import (
	"math"
	"sync"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/ssm"
	"github.com/hippo-ssm/hippo/tensor"
)

// LMU is the Legendre Memory Unit of Voelker, Kajić and Eliasmith (NeurIPS 2019), a baseline: a recurrent network whose
// memory m holds the last theta inputs u as coefficients of Legendre polynomials,
//
//	u[t] = e_x·x[t] + e_h·h[t-1] + e_m·m[t-1]
//	m[t] = Ābar m[t-1] + Bbar u[t]
//	h[t] = tanh(W_x x[t] + b + W_h h[t-1] + W_m m[t]),  y[t] = W_y h[t] + b_y
//
// with the frozen matrices of ssm.LMU over a window of theta, discretized by zero-order hold. They are those of
// HiPPO-LegT in another basis. Since m is linear, this is one recurrence of s = (h, m), with a tanh in the first part.
// With K = (W_m; I) and N = Bbar (e_h, e_m) + (0, Ābar):
//
//	s[t] = f( (W_x x[t] + b, 0) + K Bbar e_x·x[t] + (K N + (W_h, 0; 0, 0)) s[t-1] )
//
// The state is s, (hidden + order).
type LMU struct {
	In, Out *nn.Linear
	H, M    *nn.Param // W_h (hidden, hidden), W_m (hidden, order)
	EX, E   *nn.Param // e_x (1, d_model), (e_h, e_m) (hidden + order, 1)

	hidden, order int
	constants     func() *lmuConstants
	cached        *engine.Cache // lmuWeights, shared with copies
}

// lmuConstants holds the matrices that are not trained.
type lmuConstants struct {
	bRow, bColumn, identity *tensor.Tensor // Bbar (1, order) and (order, 1); I (order, order)
	abarT                   *tensor.Tensor // (0, Ābar) transposed, (hidden + order, order)
	embed, pick             *tensor.Tensor // (I; 0), (hidden + order, hidden), and its transpose
}

// LMUInfo describes LMU.
var LMUInfo = Info{
	Name:  "lmu",
	Paper: "Legendre Memory Units: Continuous-Time Representation in Recurrent Neural Networks, Voelker et al. 2019",
	Time:  "l·(hidden + order)², one position after the other", State: "hidden + order",
	Causal: true, Recurrent: true, Builder: builder(lmuOptionsOf, newLMU),
	Tiny: Tiny{DModel: 128, NLayer: 4, DInner: 624},
}

type lmuOptions struct {
	Hidden int     `json:"hidden" help:"size of h; 0 for d_model" min:"0" max:"65536"`
	Order  int     `json:"order" help:"polynomials that the memory keeps" min:"1" max:"1024"`
	Theta  float64 `json:"theta" help:"positions that the memory reaches back" min:"1" max:"1e9"`
}

func lmuOptionsOf(c Config) lmuOptions { return lmuOptions{0, max(1, c.DState), 256} }

// newLMU returns an LMU mixer whose parameters have no values yet.
func newLMU(cfg Config, o lmuOptions) (Mixer, error) {
	h, q := o.Hidden, o.Order
	if h == 0 {
		h = cfg.DModel
	}
	return &LMU{
		In: nn.NewLinear(cfg.DModel, h, nn.InitStd), Out: nn.NewLinear(h, cfg.DModel, nn.InitStd),
		H:      nn.NewParam(nn.SSM, nn.Normal(1/math.Sqrt(float64(3*h))), h, h),
		M:      nn.NewParam(nn.SSM, nn.Normal(1/math.Sqrt(float64(q))), h, q),
		EX:     nn.NewParam(nn.SSM, nn.Normal(nn.InitStd), 1, cfg.DModel),
		E:      nn.NewParam(nn.SSM, nn.Constant(0), h+q, 1), // as the release starts e_h and e_m
		hidden: h, order: q, cached: new(engine.Cache),
		constants: sync.OnceValue(func() *lmuConstants { return newLMUConstants(h, q, o.Theta) }),
	}, nil
}

// newLMUConstants discretizes a memory of q polynomials over theta positions.
func newLMUConstants(h, q int, theta float64) *lmuConstants {
	a, b := ssm.LMU(q)
	sampled := must((&ssm.Continuous{A: a, B: b, C: make([]float64, q)}).Discretize(1/theta, ssm.ZOH))
	abarT, bbar, identity := make([]float32, (h+q)*q), make([]float32, q), make([]float32, q*q)
	embed, pick := make([]float32, (h+q)*h), make([]float32, (h+q)*h)
	for i := range q {
		bbar[i], identity[i*q+i] = float32(sampled.Bbar[i]), 1
		for j := range q {
			abarT[(h+j)*q+i] = float32(sampled.Abar.At(i, j))
		}
	}
	for i := range h {
		embed[i*h+i], pick[i*(h+q)+i] = 1, 1
	}
	return &lmuConstants{
		bRow: tensor.FromSlice(bbar, 1, q), bColumn: tensor.FromSlice(bbar, q, 1),
		identity: tensor.FromSlice(identity, q, q),
		abarT:    tensor.FromSlice(abarT, h+q, q), embed: tensor.FromSlice(embed, h+q, h),
		pick: tensor.FromSlice(pick, h, h+q),
	}
}

// Forward maps the rows of x (n, d_model) to y of the same shape.
func (m *LMU) Forward(t *autograd.Tape, x *tensor.Tensor, r *Rows) *tensor.Tensor {
	w, c := m.weights(t), m.constants()
	u := product(t, product(t, x, m.EX.Tensor), w.input) // K Bbar e_x·x (n, hidden + order)
	u = t.Add(u, product(t, m.In.Forward(t, x), c.embed))
	y := t.Recurrence(u, w.recurrent, m.hidden, r.Rows, r.fixed(0))
	return m.Out.Forward(t, product(t, y, c.pick)) // of h
}

// lmuWeights holds the matrices of the joint recurrence: K Bbar (hidden + order, 1) and the matrix that multiplies s.
type lmuWeights struct {
	input, recurrent *tensor.Tensor
}

// weights computes the matrices. While the tape does not record, they are cached until the parameters change.
func (m *LMU) weights(t *autograd.Tape) *lmuWeights {
	of := [3]*tensor.Tensor{m.H.Tensor, m.M.Tensor, m.E.Tensor}
	if w, ok := m.cached.Load(t.Engine(), of[:]...).(*lmuWeights); ok && !t.Recording() {
		return w
	}
	c := m.constants()
	// K is (hidden + order, order).
	k := t.Append(m.M.Tensor, c.identity, engine.NewRows(m.hidden), engine.NewRows(m.order))
	nT := t.Add(product(t, m.E.Tensor, c.bColumn), c.abarT)      // Nᵀ
	wide := product(t, c.embed, product(t, c.embed, m.H.Tensor)) // (W_h, 0; 0, 0)
	w := &lmuWeights{product(t, k, c.bRow), t.Add(product(t, k, nT), wide)}
	if !t.Recording() {
		w.input, w.recurrent = w.input.Clone(), w.recurrent.Clone() // tensors of the tape do not outlive it
		m.cached.Store(t.Engine(), w, of[:]...)
	}
	return w
}

func (m *LMU) stateRules(t *autograd.Tape) map[string]StateRule {
	return map[string]StateRule{"h_m": {Transition: m.weights(t).recurrent, Tanhs: m.hidden}}
}

// product returns a bᵀ.
func product(t *autograd.Tape, a, b *tensor.Tensor) *tensor.Tensor {
	return t.Linear(a, b, nil, engine.None)
}

// NewState returns the state before the first position, zeros.
func (m *LMU) NewState() State {
	return newFixedState([]string{"h_m"}, []int{m.hidden + m.order})
}

// Traits returns the traits of a recurrence.
func (m *LMU) Traits() Traits { return Traits{StepsRows: true} }

// Params visits the parameters.
func (m *LMU) Params(prefix string, visit nn.Visitor) {
	m.In.Params(prefix+"in_proj.", visit)
	visit(prefix+"hidden.weight", m.H)
	visit(prefix+"memory.weight", m.M)
	visit(prefix+"encoder.input", m.EX)
	visit(prefix+"encoder.state", m.E)
	m.Out.Params(prefix+"out_proj.", visit)
}

func (m *LMU) last() (**nn.Linear, Interior) { return &m.Out, Interior{} }
