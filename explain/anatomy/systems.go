package anatomy

import (
	"cmp"
	"context"
	"fmt"
	"math/cmplx"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/explain"
	"github.com/hippo-ssm/hippo/explain/memory"
	"github.com/hippo-ssm/hippo/mixer"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/tensor"
)

// systems analyzes the systems of all layers while the model reads a short sequence.
func (s *Subject) systems(ctx context.Context, a *Report) error {
	var failed error
	bb := *s.backbone
	bb.Blocks = nil
	for i, b := range s.backbone.Blocks {
		see := func(b *model.Block, u *tensor.Tensor) {
			if failed == nil {
				failed = ctx.Err()
			}
			if failed == nil {
				failed = a.layer(ctx, bb.NewTape(), i, b, u, cmp.Or(s.taps, KernelTaps))
			}
		}
		bb.Blocks = append(bb.Blocks, explain.ShowInput(b, i == len(s.backbone.Blocks)-1, see))
	}
	t := bb.NewTape()
	s.run(t, &bb, s.length())
	t.Reset()
	return failed
}

// layer analyzes the systems of a layer, whose input is u.
func (a *Report) layer(ctx context.Context, t *autograd.Tape, i int, b *model.Block, u *tensor.Tensor, taps int) error {
	l := &a.Layers[i]
	for _, k := range mixer.Responses(t, b.Mixer, taps) {
		l.Kernels = append(l.Kernels, Kernel{k.Name, k.Taps.Dim(0), k.Taps.Dim(1), k.Taps.Floats()})
	}
	t.Reset()
	continuous := continuousSystems(b.Mixer)
	if !b.Mixer.Traits().LooksAhead && u.Dim(0) > 1 {
		n, d := min(u.Dim(0), memory.SystemTokens), u.Dim(1)
		systems, err := memory.Systems(ctx, t.Backend(), b.Mixer, tensor.FromSlice(u.Floats()[:n*d], n, d))
		if err != nil {
			return fmt.Errorf("layer %d, %s: %w", i, b.Kind, err)
		}
		for _, s := range systems {
			l.Systems = append(l.Systems, System{Part: s.Part, Rule: s.Rule, Discrete: s.Poles,
				Selects: s.Selects})
		}
	}
	// The parameters of a layer describe one kind of system, which comes first in its state.
	for k, c := range continuous {
		if k < len(l.Systems) {
			l.Systems[k].Dt, l.Systems[k].Poles = c.Dt, c.Poles
		} else {
			l.Systems = append(l.Systems, c)
		}
	}
	return nil
}

// continuousSystems reads dt and the spectrum of A from the parameters of a mixer.
func continuousSystems(m mixer.Mixer) (all []System) {
	for _, of := range mixer.Systems(m) {
		s := System{Part: of.Name, Rule: "its parameters", Dt: of.Dt, Poles: of.Poles}
		if of.LowRank != nil {
			s.Poles = lowRankPoles(of.Poles, of.LowRank, of.Rows)
		}
		all = append(all, s)
	}
	return all
}

// lowRankPoles returns the eigenvalues of Λ - P P^* in some channels of S4. Only one half of each conjugate pair is
// stored, so x' = Λ x - 2 P Re(P^* x), which is linear in real and imaginary parts.
func lowRankPoles(lambda []complex128, p []float64, channels int) []complex128 {
	n := len(lambda) / channels
	rank := len(p) / (2 * len(lambda))
	var out []complex128
	for c := range channels {
		if c%max(1, channels/memory.DenseChannels) != 0 {
			continue
		}
		a := make([]float64, 4*n*n)
		for i := range n {
			l := lambda[c*n+i]
			a[2*i*2*n+2*i], a[2*i*2*n+2*i+1] = real(l), -imag(l)
			a[(2*i+1)*2*n+2*i], a[(2*i+1)*2*n+2*i+1] = imag(l), real(l)
			for r := range rank {
				at := func(k int) complex128 {
					i := ((r*channels+c)*n + k) * 2
					return complex(p[i], p[i+1])
				}
				for j := range n {
					// 2 P_i Re(conj(P_j) (x + iy)) = 2 P_i (Re P_j x + Im P_j y)
					pi, pj := at(i), at(j)
					a[2*i*2*n+2*j] -= 2 * real(pi) * real(pj)
					a[2*i*2*n+2*j+1] -= 2 * real(pi) * imag(pj)
					a[(2*i+1)*2*n+2*j] -= 2 * imag(pi) * real(pj)
					a[(2*i+1)*2*n+2*j+1] -= 2 * imag(pi) * imag(pj)
				}
			}
		}
		out = append(out, memory.Eigenvalues(a, 2*n)...)
	}
	return out
}

// stable returns the number of poles of a discrete system inside the unit circle, up to rounding.
func stable(poles []complex128) (n int) {
	for _, z := range poles {
		if cmplx.Abs(z) <= 1+1e-6 {
			n++
		}
	}
	return n
}
