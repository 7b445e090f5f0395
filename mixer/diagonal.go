package mixer

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/ssm"
)

// Diagonal holds h diagonal state-space systems of d_state/2 complex modes each, as in H3 and S4D ("On the
// Parameterization and Initialization of Diagonal State Space Models", arXiv:2206.11893): A = -exp(inv_A_real) +
// i·A_imag and dt = exp(log_dt).
type Diagonal struct {
	C, LogDt, B, InvAReal, AImag *nn.Param
	params                       *engine.DiagParams
	systems                      system
}

// diagonalOptions are the options of mixers with diagonal systems.
type diagonalOptions struct {
	DState  int     `json:"d_state" help:"state size of a channel, two numbers for each complex mode"`
	Measure string  `json:"measure" help:"initial A: diag-lin, -inv, -legs, -inv2, -quad, -real, -rand or -exp"`
	DtMin   float64 `json:"dt_min" help:"smallest initial dt"`
	DtMax   float64 `json:"dt_max" help:"largest initial dt"`
}

func diagonalOptionsOf(c Config) diagonalOptions {
	return diagonalOptions{c.DState, c.Measure, c.DtMin, c.DtMax}
}

func (o diagonalOptions) set(c *Config) {
	c.DState, c.Measure, c.DtMin, c.DtMax = o.DState, o.Measure, o.DtMin, o.DtMax
}

// maxState bounds the cost of a wrong configuration.
const maxState = 1 << 12

func newDiagonal(h int, cfg Config, disc engine.Discretization) (*Diagonal, error) {
	if err := cfg.checkSystem(); err != nil {
		return nil, err
	}
	n := cfg.DState / 2
	measure := strings.TrimPrefix(cfg.Measure, "diag-")
	random := randomStarts[measure]
	if random != nil {
		measure = "lin" // for B
	}
	start, err := diagonalStart(measure, cfg.DState)
	if err != nil {
		return nil, fmt.Errorf("measure: %w", err)
	}
	m := &Diagonal{
		C:     nn.NewParam(nn.SSM, nn.Normal(math.Sqrt(0.5)), 1, h, n, 2), // complex normal of variance 1
		LogDt: nn.NewParam(nn.SSMSystem, logUniform(cfg.DtMin, cfg.DtMax), h),
		B:     nn.NewParam(nn.SSMSystem, repeated(n, func(i int) []float64 { return parts2(start().b[i]) }), h, n, 2),
		InvAReal: nn.NewParam(nn.SSMSystem, repeated(n,
			func(i int) []float64 { return []float64{math.Log(-real(start().a[i]))} }), h, n),
		AImag: nn.NewParam(nn.SSMSystem, repeated(n,
			func(i int) []float64 { return []float64{imag(start().a[i])} }), h, n),
	}
	if random != nil {
		m.InvAReal.Init, m.AImag.Init = random(cfg.DState)
	}
	m.params = &engine.DiagParams{
		LogDt: m.LogDt.Tensor, InvAReal: m.InvAReal.Tensor, AImag: m.AImag.Tensor, B: m.B.Tensor,
		C: m.C.Tensor, Disc: disc,
	}
	m.systems = sampled(m.params)
	return m, nil
}

// unevenly returns the systems of p for the times of Rows.Steps, sampled by zero-order hold: the bilinear rule is valid
// for short steps only, and forgets nothing over a long one.
func unevenly(p *engine.DiagParams) *engine.DiagParams {
	return &engine.DiagParams{LogDt: p.LogDt, InvAReal: p.InvAReal, AImag: p.AImag, B: p.B, C: p.C, Real: p.Real,
		Disc: engine.ZOH, Uneven: true}
}

// diagonalSpectrum holds the initial A and B of a diagonal system, a number for each mode.
type diagonalSpectrum struct{ a, b []complex128 }

// diagonalStart returns the initial values of systems of n/2 modes for the named measure. Only Init must compute them:
// for legs, with a large state, that takes minutes. An unknown name is an error at once.
func diagonalStart(measure string, n int) (func() diagonalSpectrum, error) {
	if _, _, err := ssm.DiagonalInit(measure, 2, ssm.ConventionH3); err != nil {
		return nil, err
	}
	return sync.OnceValue(func() diagonalSpectrum {
		a, b, err := ssm.DiagonalInit(measure, n, ssm.ConventionH3)
		return must(diagonalSpectrum{a, b}, err)
	}), nil
}

// randomStarts draw each mode of A independently, as log(-Re A) and Im A.
var randomStarts = map[string]func(dState int) (invAReal, aImag func(*rand.Rand, []float32)){
	"rand": randomModes, "exp": exponentialModes,
}

// exponentialModes starts A = -exp(g) + i·exp(g') with g and g' normal, independent for each mode, as in GSS
// (arXiv:2206.13947, §3). The median mode is forgotten after one step, and hardly any mode lasts longer than some ten.
func exponentialModes(int) (invAReal, aImag func(*rand.Rand, []float32)) {
	normal := nn.Normal(1)
	return normal, func(rng *rand.Rand, x []float32) {
		normal(rng, x)
		for i, g := range x {
			x[i] = float32(math.Exp(float64(g)))
		}
	}
}

// randomModes starts A = -u + i·(N/2)·g with u uniform in (0, 1) and g normal, independent for each mode, the baseline
// for HiPPO's A (arXiv:2206.11893, §5; real_random and imag_random of the official repository).
func randomModes(dState int) (invAReal, aImag func(*rand.Rand, []float32)) {
	invAReal = func(rng *rand.Rand, x []float32) {
		for i := range x {
			x[i] = float32(math.Log(1 - rng.Float64())) // never the logarithm of 0
		}
	}
	return invAReal, nn.Normal(float64(dState) / 2)
}

// checkSystem checks the settings that all state-space systems use.
func (c Config) checkSystem() error {
	if c.DState < 2 || c.DState > maxState || c.DState%2 != 0 {
		return fmt.Errorf("d_state: found %d, want an even number from 2 to %d", c.DState, maxState)
	}
	if !(c.DtMin > 0 && c.DtMin <= c.DtMax) {
		return fmt.Errorf("dt_min, dt_max: found %g, %g, want 0 < dt_min ≤ dt_max", c.DtMin, c.DtMax)
	}
	return nil
}

// System returns the discretized systems.
func (m *Diagonal) System(t *autograd.Tape) *engine.DiagSystem { return t.DiagSystem(m.params) }

// Params visits the parameters under their official names.
func (m *Diagonal) Params(prefix string, visit nn.Visitor) {
	visit(prefix+"C", m.C)
	visit(prefix+"log_dt", m.LogDt)
	visit(prefix+"B", m.B)
	visit(prefix+"inv_A_real", m.InvAReal)
	visit(prefix+"A_imag", m.AImag)
}

// logUniform draws log dt uniformly between the logarithms of lo and hi.
func logUniform(lo, hi float64) func(*rand.Rand, []float32) {
	return func(rng *rand.Rand, x []float32) {
		for i := range x {
			x[i] = float32(math.Log(ssm.LogUniform(rng, lo, hi)))
		}
	}
}

// repeated gives every channel the same n values, f(0) to f(n-1).
func repeated(n int, f func(i int) []float64) func(*rand.Rand, []float32) {
	return func(_ *rand.Rand, x []float32) {
		for at := 0; at < len(x); {
			for i := range n {
				for _, v := range f(i) {
					x[at] = float32(v)
					at++
				}
			}
		}
	}
}

func (m *Diagonal) system() System {
	return systemOf("kernel.kernel", engine.NegExp, m.InvAReal, m.AImag, m.LogDt)
}
