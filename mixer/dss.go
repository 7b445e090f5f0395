package mixer

import (
	"fmt"
	"math"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/nn"
)

// DSS is the layer of "Diagonal State Spaces are as Effective as Structured State Spaces" (arXiv:2203.14343):
//
//	K[k] = Re Σ_i w_i exp(Λ_i dt k),  y = GLU( W gelu( K*u + D u ) + b )
//
// All channels share d_state complex modes Λ, without conjugates. Each channel has its own steps for Re Λ and for Im Λ.
// The weights w are trained (exp-no-scale), or multiples of zero-order hold's weights (exp), or normalized by a softmax
// over l_max steps. The state is (d_model, d_state, 2).
//
// Deliberate differences: Re Λ = -exp(Lambda_log_neg_re) for the softmax too, so that every kernel has a recurrence
// that runs forwards; the softmax is over l_max whatever the length of the sequence, so that a prefix has the same
// outputs as in the whole sequence.
type DSS struct {
	s4Layer
	W, LogDt, LambdaLogNegRe, LambdaIm *nn.Param
}

// DSSInfo describes DSS.
var DSSInfo = Info{
	Name: "dss", Paper: "Diagonal State Spaces are as Effective as Structured State Spaces, arXiv:2203.14343",
	Time:  "l·log l·d + l·d²",
	State: "2·d·d_state", Causal: true, Recurrent: true, Builder: builder(dssOptionsOf, newDSS),
	Tiny: Tiny{Options: "l_max=256", DModel: 128, NLayer: 4, DInner: 672, LR: 4e-3, SSMLR: 4e-3},
}

type dssOptions struct {
	DState  int     `json:"d_state" help:"complex modes, shared by all channels"`
	Version string  `json:"version" enum:"softmax,exp,exp-no-scale" help:"what the weights stand for"`
	LMax    int     `json:"l_max" help:"steps that the softmax is over" min:"1" max:"1048576"`
	DtMin   float64 `json:"dt_min" help:"smallest initial dt"`
	DtMax   float64 `json:"dt_max" help:"largest initial dt"`
}

func dssOptionsOf(c Config) dssOptions {
	return dssOptions{c.DState, "softmax", 1024, c.DtMin, c.DtMax}
}

var dssScales = map[string]engine.DSSScale{
	"softmax": engine.DSSSoftmax, "exp": engine.DSSExp, "exp-no-scale": engine.DSSPlain,
}

// newDSS returns a DSS mixer whose parameters have no values yet.
func newDSS(cfg Config, o dssOptions) (Mixer, error) {
	cfg.DState, cfg.DtMin, cfg.DtMax = o.DState, o.DtMin, o.DtMax
	if err := cfg.checkSystem(); err != nil {
		return nil, err
	}
	d, n := cfg.DModel, o.DState
	if 2*n > maxState {
		return nil, fmt.Errorf("d_state: found %d, want at most %d modes", n, maxState/2)
	}
	start, err := diagonalStart("legs", 2*n) // the spectrum of HiPPO, half of it
	if err != nil {
		return nil, err
	}
	m := &DSS{
		s4Layer: newS4Layer(d, n, layerDefaults()),
		W:       nn.NewParam(nn.SSM, nn.Normal(math.Sqrt(0.5)), 1, d, n, 2),
		LogDt:   nn.NewParam(nn.SSMSystem, logUniform(o.DtMin, o.DtMax), d, 2),
		LambdaLogNegRe: nn.NewParam(nn.SSMSystem, repeated(n,
			func(i int) []float64 { return []float64{math.Log(-real(start().a[i]))} }), n),
		LambdaIm: nn.NewParam(nn.SSMSystem, repeated(n,
			func(i int) []float64 { return []float64{math.Abs(imag(start().a[i]))} }), n),
	}
	params := &engine.DSSParams{
		Re: m.LambdaLogNegRe.Tensor, Im: m.LambdaIm.Tensor, LogDt: m.LogDt.Tensor, W: m.W.Tensor, LogNegRe: true,
		Scale: dssScales[o.Version], L: o.LMax,
	}
	of := func(t *autograd.Tape) *engine.DiagSystem { return t.DSSSystem(params) }
	m.systems = []system{diagonalSystem(of, of)}
	return m, nil
}

// Params visits the parameters; those of the kernel have the names of the release.
func (m *DSS) Params(prefix string, visit nn.Visitor) {
	m.visitD(prefix, visit)
	visit(prefix+"kernel.W", m.W)
	visit(prefix+"kernel.log_dt", m.LogDt)
	visit(prefix+"kernel.Lambda_log_neg_re", m.LambdaLogNegRe)
	visit(prefix+"kernel.Lambda_im", m.LambdaIm)
	m.Out.Params(prefix+"output_linear.0.", visit)
}

func (m *DSS) last() (**nn.Linear, Interior) { return &m.Out, Interior{} }

func (m *DSS) system() System {
	return systemOf("kernel", engine.NegExp, m.LambdaLogNegRe, m.LambdaIm, m.LogDt)
}
