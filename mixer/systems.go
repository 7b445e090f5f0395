package mixer

import (
	"math"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// Response holds the impulse responses of linear systems inside a mixer that are the same at every position, one for
// each channel: Taps (l, channels).
type Response struct {
	Name string
	Taps *tensor.Tensor
}

// Responses returns the kernels of a mixer, of at most l taps: those of its state-space systems and long filters,
// without their skips, then those of its short filters. They are valid as long as the tensors of t. Mixers whose
// systems depend on the input have short filters only; attention has none.
func Responses(t *autograd.Tape, m Mixer, l int) (all []Response) {
	each(m, func(prefix string, m Mixer) {
		if m, ok := m.(interface {
			kernels(t *autograd.Tape, l int) []Response
		}); ok {
			for _, k := range m.kernels(t, l) {
				all = append(all, Response{prefix + k.Name, k.Taps})
			}
		}
	})
	return all
}

// each calls f with m, or with each mixer that it is the sum of and the prefix of that mixer's names.
func each(m Mixer, f func(prefix string, m Mixer)) {
	switch m := m.(type) {
	case scaled:
		each(m.Mixer, f)
	case *parallel:
		for i, part := range m.parts {
			each(part, func(prefix string, part Mixer) { f(m.names[i]+"."+prefix, part) })
		}
	default:
		f("", m)
	}
}

// System describes a continuous state-space system of a mixer, x' = A x + B u, as given by its parameters.
type System struct {
	Name  string       // part of the mixer that has it, "" for the mixer itself
	Poles []complex128 // the diagonal of A, row by row
	Rows  int          // rows of Poles: one for each channel; 1 if all channels share them
	// Dt are the steps of the channels. For mixers in which they depend on the token, Dt is softplus of the bias.
	Dt []float64
	// LowRank is P of A = Λ - P P^*, (rank, channels, modes, 2); nil for none.
	LowRank []float64
}

// Systems returns the systems of a mixer, by name.
func Systems(m Mixer) (all []System) {
	each(m, func(prefix string, m Mixer) {
		if m, ok := m.(interface{ system() System }); ok {
			s := m.system()
			s.Name = strings.TrimSuffix(prefix+s.Name, ".")
			all = append(all, s)
		}
	})
	slices.SortStableFunc(all, func(a, b System) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// systemOf returns a system with the poles real(re) + i·im, row by row, and the steps exp(logDt). im and logDt may be
// nil.
func systemOf(name string, real engine.RealPart, re, im, logDt *nn.Param) System {
	s := System{Name: name, Rows: 1, Poles: make([]complex128, re.Len())}
	if re.Dims() > 1 {
		s.Rows = re.Dim(0)
	}
	s.Dt = mapped(logDt, math.Exp)
	turns := mapped(im, func(y float64) float64 { return y })
	for i, x := range re.Floats() {
		y := 0.0
		if turns != nil {
			y = turns[i]
		}
		part, _ := real.Of(float64(x))
		s.Poles[i] = complex(part, y)
	}
	return s
}

// mapped returns f of the elements of a parameter, or nil for no parameter.
func mapped(p *nn.Param, f func(float64) float64) []float64 {
	if p == nil {
		return nil
	}
	out := make([]float64, p.Len())
	for i, x := range p.Floats() {
		out[i] = f(float64(x))
	}
	return out
}

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

func softplus(x float64) float64 { return max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) }

// shortKernel turns the taps of a short filter (d, 1, k), the newest last, into a kernel (k, d).
func shortKernel(w *tensor.Tensor) Response {
	d, taps := w.Dim(0), w.Dim(-1)
	x, k := make([]float32, d*taps), make([]float32, d*taps)
	w.CopyTo(x)
	for c := range d {
		for j := range taps {
			k[j*d+c] = x[c*taps+taps-1-j]
		}
	}
	return Response{"conv", tensor.FromSlice(k, taps, d)}
}

// TimeConstants returns 1/(dt·min|Re A|) for each channel: the number of tokens after which its slowest mode has
// decayed to 1/e. It returns nil if it is not known which poles belong to which channel.
func (s *System) TimeConstants() (tokens []float64) {
	if len(s.Poles) == 0 || s.Rows != 1 && s.Rows != len(s.Dt) {
		return nil
	}
	n := len(s.Poles) / s.Rows
	for i, dt := range s.Dt {
		row := s.Poles
		if s.Rows > 1 {
			row = s.Poles[i*n:][:n]
		}
		slowest := math.Inf(1)
		for _, p := range row {
			slowest = min(slowest, -real(p))
		}
		tokens = append(tokens, 1/(dt*slowest))
	}
	return tokens
}
