package mixer

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// H3 is the mixer of "Hungry Hungry Hippos: Towards Language Modeling with State Space Models" (arXiv:2212.14052,
// §3.1):
//
//	y = Out( Q ⊙ SSM_diag( SSM_shift(K) ⊗ V ) )
//
// with Q, K, V linear projections of the input, ⊗ the outer product over the channels of a head, and a skip (D) in each
// of the two SSMs. The state consists of the shift's, (d_model, d_state), and the diagonal SSM's, (heads·head_dim²,
// d_state/2, 2). Its size does not depend on the length of the sequence.
type H3 struct {
	Q, K, V, Out *nn.Linear
	Shift        Shift
	Diag         Diagonal
	D            *nn.Param // skip of the diagonal SSM, (heads)

	cfg   Config
	order engine.HeadOrder
}

// H3Info describes H3.
var H3Info = Info{
	Name:  "h3",
	Paper: "Hungry Hungry Hippos: Towards Language Modeling with State Space Models, arXiv:2212.14052",
	Time:  "l·log l·d·head_dim + l·d²",
	State: "d·d_state·(1 + head_dim)", Causal: true, Recurrent: true, Builder: builder(h3Defaults, newH3),
	Tiny: Tiny{DModel: 128, NLayer: 4, DInner: 512},
}

type h3Options struct {
	diagonalOptions
	HeadDim   int    `json:"head_dim" help:"channels of a head"`
	HeadOrder string `json:"head_order" help:"how heads of more than one channel are flattened: dh or hd"`
}

func h3Defaults(c Config) h3Options {
	return h3Options{diagonalOptionsOf(c), c.HeadDim, c.HeadOrder}
}

// Shift holds the parameters of the shift SSM: B, C (d, n) and the skip D (d).
type Shift struct{ B, C, D *nn.Param }

// newH3 returns an H3 mixer whose parameters have no values yet.
func newH3(cfg Config, o h3Options) (Mixer, error) {
	o.set(&cfg)
	cfg.HeadDim, cfg.HeadOrder = o.HeadDim, o.HeadOrder
	if cfg.HeadDim < 1 || cfg.DModel%cfg.HeadDim != 0 {
		return nil, fmt.Errorf("head_dim: found %d, want a divisor of d_model %d", cfg.HeadDim, cfg.DModel)
	}
	orders := map[string]engine.HeadOrder{"": engine.DimMajor, "dh": engine.DimMajor, "hd": engine.HeadMajor}
	order, ok := orders[cfg.HeadOrder]
	if !ok {
		return nil, fmt.Errorf("head_order: found %q, want dh or hd", cfg.HeadOrder)
	}
	d, n, heads := cfg.DModel, cfg.DState, cfg.DModel/cfg.HeadDim
	diag, err := newDiagonal(heads, cfg, engine.Bilinear)
	if err != nil {
		return nil, err
	}
	bound := 1 / math.Sqrt(float64(n))
	return &H3{
		Q: nn.NewLinear(d, d, nn.InitStd), K: nn.NewLinear(d, d, nn.InitStd),
		V: nn.NewLinear(d, d, nn.InitStd), Out: nn.NewLinear(d, d, nn.InitStd),
		Shift: Shift{
			B: nn.NewParam(nn.SSMSystem, firstUnitVector(n), d, n),
			C: nn.NewParam(nn.SSM, nn.Uniform(bound), 1, d, n),
			D: nn.NewParam(nn.SSM, nn.Normal(1), d),
		},
		Diag: *diag,
		D:    nn.NewParam(nn.SSM, nn.Normal(1), heads),
		cfg:  cfg, order: order,
	}, nil
}

// Forward maps the rows of u (n, d_model) to y of the same shape.
func (m *H3) Forward(t *autograd.Tape, u *tensor.Tensor, r *Rows) *tensor.Tensor {
	q, k, v := m.Q.Forward(t, u), m.K.Forward(t, u), m.V.Forward(t, u) // (n, d) each
	// Σ_j C_j k[·-j] + D k
	k = t.ShiftSSM(k, m.Shift.B.Tensor, m.Shift.C.Tensor, m.Shift.D.Tensor, r.Rows, r.fixed(0))
	if r.Steps != nil && m.cfg.HeadDim == 1 {
		return m.Out.Forward(t, t.Mul(q, m.Diag.systems.along(t, t.Mul(k, v), m.D.Tensor, r, 1)))
	}
	gates := engine.Gates{Q: q, K: k, V: v, HeadDim: m.cfg.HeadDim, Order: m.order}
	y := t.DiagSSM(gates, m.Diag.System(t), m.D.Tensor, r.Rows, r.fixed(1)) // per head: q · (K * (k⊗v) + D (k⊗v))
	return m.Out.Forward(t, y)
}

// NewState returns the state before the first position, zeros.
func (m *H3) NewState() State {
	c := m.cfg
	return newFixedState([]string{"shift", "diag"},
		[]int{c.DModel, c.DState}, []int{c.DModel * c.HeadDim, c.DState / 2, 2})
}

// Traits returns those of a recurrence that is computed as a convolution. With heads of one channel, the diagonal
// system uses the times of positions. The shift never does.
func (m *H3) Traits() Traits {
	return Traits{Steps: m.cfg.HeadDim == 1, Convolves: true, StepsRows: true}
}

// Params visits the parameters under their official names.
func (m *H3) Params(prefix string, visit nn.Visitor) {
	visit(prefix+"ssm_k_D", m.Shift.D)
	visit(prefix+"D", m.D)
	m.Q.Params(prefix+"q_proj.", visit)
	m.K.Params(prefix+"k_proj.", visit)
	m.V.Params(prefix+"v_proj.", visit)
	visit(prefix+"ssm_k_kernel.kernel.B", m.Shift.B)
	visit(prefix+"ssm_k_kernel.kernel.C", m.Shift.C)
	m.Diag.Params(prefix+"kernel.kernel.", visit)
	m.Out.Params(prefix+"output_linear.", visit)
}

func firstUnitVector(n int) func(*rand.Rand, []float32) {
	return func(_ *rand.Rand, x []float32) {
		for i := 0; i < len(x); i += n {
			x[i] = 1
		}
	}
}

func (m *H3) kernels(t *autograd.Tape, l int) []Response {
	diag := t.KernelRows(t.DiagKernel(m.Diag.System(t), l), m.D.Len())
	return []Response{{"diag", diag}, {"shift", m.Shift.kernel(min(l, m.cfg.DState))}}
}

// kernel returns K[j, c] = Σ_i C[c, i+j] B[c, i] (l, d), the shift system as a filter, without its skip.
func (s *Shift) kernel(l int) *tensor.Tensor {
	d, n := s.B.Dim(0), s.B.Dim(1)
	b, c, k := make([]float32, d*n), make([]float32, d*n), make([]float32, l*d)
	s.B.CopyTo(b)
	s.C.CopyTo(c)
	for j := range l {
		for ch := range d {
			for i := range n - j {
				k[j*d+ch] += c[ch*n+i+j] * b[ch*n+i]
			}
		}
	}
	return tensor.FromSlice(k, l, d)
}

func (m *H3) last() (**nn.Linear, Interior) {
	in := Interior{Heads: m.D.Len()}
	if m.order == engine.DimMajor {
		in.Head = func(channel int) int { return channel % in.Heads }
	}
	return &m.Out, in
}

func (m *H3) system() System { return m.Diag.system() }

// operator implements the formula of Operator.
func (m *H3) operator(t *autograd.Tape, u *tensor.Tensor) *Operator {
	l, d, heads := u.Dim(0), u.Dim(1), m.D.Len()
	hd := d / heads
	shift := m.Shift
	shifted := t.ShiftSSM(m.K.Forward(t, u), shift.B.Tensor, shift.C.Tensor, shift.D.Tensor, engine.NewRows(l), nil)
	q, k, v := m.Q.Forward(t, u).Floats(), shifted.Floats(), m.V.Forward(t, u).Floats()
	kernel, skip := t.KernelRows(t.DiagKernel(m.Diag.System(t), l), heads).Floats(), m.D.Tensor.Floats()
	o := &Operator{Length: l, Heads: heads, HeadDim: hd, values: v, out: m.Out.Weight.Tensor.Floats()}
	o.column = func(h, j int) int { return h*hd + j }
	if m.order == engine.DimMajor {
		o.column = func(h, j int) int { return j*heads + h }
	}
	o.weights = func(h int, w []float64) {
		clear(w)
		for i := range l {
			for s := range i + 1 {
				dot := 0.0
				for c := range hd {
					dot += float64(q[i*d+h*hd+c]) * float64(k[s*d+h*hd+c])
				}
				through := float64(kernel[(i-s)*heads+h])
				if s == i {
					through += float64(skip[h])
				}
				w[i*l+s] = through * dot
			}
		}
	}
	return o
}
