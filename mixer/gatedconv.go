package mixer

import (
	"fmt"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// GatedConv is the gated short convolution of LFM2 (Liquid AI, 2025), a causal filter of a few taps between two gates:
//
//	B, C, x = In(u);   y = Out( C · conv1d(B · x) )
//
// over d_model channels. The state is the previous inputs of the filter, (d_conv-1, d_model).
type GatedConv struct {
	In, Out *nn.Linear
	Conv    shortConv
	d, taps int
}

// GatedConvInfo describes GatedConv.
var GatedConvInfo = Info{
	Name:  "gated-conv",
	Paper: "LFM2 Technical Report, arXiv:2511.23404",
	Time:  "l·d_conv·d + l·d²", State: "d·(d_conv - 1)",
	Causal: true, Recurrent: true, Builder: builder(gatedConvDefaults, newGatedConv),
	Tiny: Tiny{DModel: 128, NLayer: 4, DInner: 576},
}

type gatedConvOptions struct {
	DConv int  `json:"d_conv" help:"taps of the filter"`
	Bias  bool `json:"bias" help:"biases in the projections and in the filter"`
}

func gatedConvDefaults(Config) gatedConvOptions { return gatedConvOptions{DConv: 3} }

// newGatedConv returns a gated short convolution whose parameters have no values yet.
func newGatedConv(cfg Config, o gatedConvOptions) (Mixer, error) {
	if o.DConv < 1 || o.DConv > maxState {
		return nil, fmt.Errorf("d_conv: found %d, want 1 to %d", o.DConv, maxState)
	}
	d := cfg.DModel
	return &GatedConv{
		In: projection(d, 3*d, 1, o.Bias), Conv: newShortConv(d, o.DConv, o.Bias, engine.None),
		Out: projection(d, d, cfg.NLayer, o.Bias), d: d, taps: o.DConv,
	}, nil
}

// Forward maps the rows of u (n, d_model) to y of the same shape.
func (m *GatedConv) Forward(t *autograd.Tape, u *tensor.Tensor, r *Rows) *tensor.Tensor {
	p := t.Columns(m.In.Forward(t, u), m.d, m.d, m.d)
	b, c, x := p[0], p[1], p[2]
	return m.Out.Forward(t, t.Mul(c, m.Conv.forward(t, t.Mul(b, x), r)))
}

// NewState returns the state before the first position, zeros.
func (m *GatedConv) NewState() State {
	return newFixedState([]string{"conv"}, []int{m.taps - 1, m.d}).of(PositionRows)
}

// Traits returns the traits of a recurrence.
func (m *GatedConv) Traits() Traits { return Traits{StepsRows: true} }

// Params visits the parameters.
func (m *GatedConv) Params(prefix string, visit nn.Visitor) {
	m.In.Params(prefix+"in_proj.", visit)
	m.Conv.params(prefix+"conv1d.", visit)
	m.Out.Params(prefix+"out_proj.", visit)
}

func (m *GatedConv) kernels(*autograd.Tape, int) []Response {
	return []Response{shortKernel(m.Conv.weight.Tensor)}
}

func (m *GatedConv) last() (**nn.Linear, Interior) { return &m.Out, Interior{} }
