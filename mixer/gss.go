package mixer

import (
	"fmt"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// GSS is the gated state-space layer of "Long Range Language Modeling via Gated State Spaces" (arXiv:2206.13947) as in
// the S4 repository:
//
//	y = W_o( W_y gelu( SSM_diag(x) + D x ) ⊙ gelu(W_g u) ),  x = gelu(W_x u)
//
// The systems see d_model/bottleneck channels only, and the gate is gate·d_model wide. All GELUs are exact. The systems
// are those of S4D with trained B and the bilinear rule. As in the paper, dt starts at 1 and A is random (diag-exp).
// With HiPPO's A (measure=diag-lin), whose fast modes the bilinear rule hardly damps at dt = 1, kernels extend far
// beyond the length of training, and language models get worse there. The state is (d_model/bottleneck, d_state/2, 2).
type GSS struct {
	InputLinear, InputGate, OutputLinear, OutputGate *nn.Linear
	Diag                                             Diagonal
	D                                                *nn.Param

	d, n int
}

// GSSInfo describes GSS.
var GSSInfo = Info{
	Name: "gss", Paper: "Long Range Language Modeling via Gated State Spaces, arXiv:2206.13947",
	Time:  "l·log l·d/bottleneck + l·d²·gate",
	State: "d·d_state/bottleneck", Causal: true, Recurrent: true, Builder: builder(gssOptionsOf, newGSS),
	Tiny: Tiny{DModel: 112, NLayer: 7},
}

type gssOptions struct {
	diagonalOptions
	Bottleneck int `json:"bottleneck" help:"the systems see d_model/bottleneck channels" min:"1"`
	Gate       int `json:"gate" help:"the gate is gate·d_model wide" min:"1" max:"64"`
}

func gssOptionsOf(c Config) gssOptions {
	o := gssOptions{diagonalOptionsOf(c), 4, 4}
	o.Measure, o.DtMin, o.DtMax = "diag-exp", 1, 1
	return o
}

// newGSS returns a GSS mixer whose parameters have no values yet.
func newGSS(cfg Config, o gssOptions) (Mixer, error) {
	o.set(&cfg)
	if cfg.DModel%o.Bottleneck != 0 {
		return nil, fmt.Errorf("bottleneck: found %d, want a divisor of d_model %d", o.Bottleneck, cfg.DModel)
	}
	d := cfg.DModel / o.Bottleneck
	diag, err := newDiagonal(d, cfg, engine.Bilinear)
	if err != nil {
		return nil, err
	}
	wide := o.Gate * cfg.DModel
	m := &GSS{
		InputLinear: nn.NewLinear(cfg.DModel, d, nn.InitStd), InputGate: nn.NewLinear(cfg.DModel, wide, nn.InitStd),
		OutputLinear: nn.NewLinear(d, wide, nn.InitStd), OutputGate: nn.NewLinear(wide, cfg.DModel, nn.InitStd),
		Diag: *diag, D: nn.NewParam(nn.SSM, nn.Normal(1), 1, d), d: d, n: cfg.DState / 2,
	}
	m.InputLinear.Activation = engine.GeluErf
	return m, nil
}

// Forward maps the rows of u (n, d_model) to y of the same shape.
func (m *GSS) Forward(t *autograd.Tape, u *tensor.Tensor, r *Rows) *tensor.Tensor {
	x := m.InputLinear.Forward(t, u) // (n, d_model/bottleneck)
	y := m.Diag.systems.along(t, x, m.D.Tensor, r, 0)
	y = m.OutputLinear.Forward(t, t.Activate(y, engine.GeluErf))
	return m.OutputGate.Forward(t, t.Gate(y, m.InputGate.Forward(t, u), engine.GeluErf))
}

// NewState returns the state before the first position, zeros.
func (m *GSS) NewState() State {
	return newFixedState([]string{"diag"}, []int{m.d, m.n, 2})
}

// Traits returns those of a recurrence that is computed as a convolution.
func (m *GSS) Traits() Traits { return Traits{Steps: true, Convolves: true, StepsRows: true} }

// Params visits the parameters under the names of the official layer.
func (m *GSS) Params(prefix string, visit nn.Visitor) {
	visit(prefix+"D", m.D)
	m.InputLinear.Params(prefix+"input_linear.0.", visit)
	m.InputGate.Params(prefix+"input_gate.0.", visit)
	m.OutputGate.Params(prefix+"output_gate.", visit)
	m.Diag.Params(prefix+"kernel.kernel.", visit)
	m.OutputLinear.Params(prefix+"output_linear.", visit)
}

func (m *GSS) kernels(t *autograd.Tape, l int) []Response {
	return []Response{{"diag", t.KernelRows(t.DiagKernel(m.Diag.System(t), l), m.d)}}
}

func (m *GSS) last() (**nn.Linear, Interior) { return &m.OutputGate, Interior{} }

func (m *GSS) system() System { return m.Diag.system() }
