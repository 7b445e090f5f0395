package memory

import (
	"context"
	"math"
	"slices"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/mixer"
	"github.com/hippo-ssm/hippo/tensor"
	"gonum.org/v1/gonum/mat"
)

// DenseChannels is the number of channels of S4 whose eigenvalues are computed.
const DenseChannels = 16

// SystemTokens is the number of tokens over which the decays of selective systems are averaged.
const SystemTokens = 64

// poles returns the eigenvalues of the factors of a part from token to token, nil if they are not worth showing.
func (x *followed) poles() []complex128 {
	var out []complex128
	switch {
	case x.rule == ruleModes:
		for i := 0; i < len(x.a); i += 2 {
			out = append(out, complex(x.a[i], x.a[i+1]))
		}
	case x.rule == ruleMatrix:
		for c := range x.channels {
			if c%max(1, x.channels/DenseChannels) == 0 {
				out = append(out, Eigenvalues(x.m[c*x.inner*x.inner:][:x.inner*x.inner], x.inner)...)
			}
		}
	case x.rule == ruleTanh:
		out = Eigenvalues(WideOf(x.r), x.size())
	case x.rule == ruleDecay && x.fixed:
		for i, a := range x.a {
			if !x.same || i%x.inner == 0 {
				out = append(out, complex(a, 0))
			}
		}
	case x.rule == ruleDecay && x.slow != nil:
		for g := range x.groups {
			rate := 0.0
			for c := range x.slow {
				rate += x.slow[c][g]
			}
			out = append(out, complex(math.Exp(-rate/float64(len(x.written)-1)), 0))
		}
	}
	return out
}

func WideOf(x []float32) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v)
	}
	return out
}

// Eigenvalues returns the eigenvalues of a matrix (n, n), nil if they cannot be computed or n is above 512.
func Eigenvalues(m []float64, n int) []complex128 {
	if n > 512 {
		return nil
	}
	var e mat.Eigen
	if !e.Factorize(mat.NewDense(n, n, slices.Clone(m)), mat.EigenNone) {
		return nil
	}
	return e.Values(nil)
}

// System describes the recurrence of a part of a mixer's state.
type System struct {
	Part, Rule string
	Poles      []complex128 // means over the tokens if they depend on the token
	Selects    bool         // Poles depend on the token
}

// Systems determines, on an engine, the systems of a mixer that reads u (l, d_model): those parts of its state that are
// linear in themselves.
func Systems(ctx context.Context, on engine.Backend, m mixer.Mixer, u *tensor.Tensor) (all []System, err error) {
	w := newWalk(on, m, u)
	parts, err := w.partsOf()
	if err != nil {
		return nil, err
	}
	f := &follow{w: w, step: w.l, cells: 1, shots: 1}
	for _, p := range parts {
		f.add(p)
	}
	if slices.ContainsFunc(parts, func(p *statePart) bool { return p.rule == ruleDecay && !p.fixed }) {
		if err := f.run(ctx); err != nil {
			return nil, err
		}
	}
	for _, x := range f.parts {
		if poles := x.poles(); poles != nil {
			all = append(all, System{x.name, x.words(), poles, x.rule == ruleDecay && !x.fixed})
		}
	}
	return all, nil
}
