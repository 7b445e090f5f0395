package anatomy

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/cmplx"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/explain"
	"github.com/hippo-ssm/hippo/explain/memory"
	"github.com/hippo-ssm/hippo/mixer"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// systems looks at the systems of all layers while the model reads a short sequence.
func (s *Subject) systems(ctx context.Context, a *Report, params map[string]*nn.Param) error {
	var failed error
	bb := *s.backbone
	bb.Blocks = nil
	for i, b := range s.backbone.Blocks {
		bb.Blocks = append(bb.Blocks, explain.ShowInput(b, i == len(s.backbone.Blocks)-1, func(u *tensor.Tensor) {
			if failed == nil {
				failed = ctx.Err()
			}
			if failed == nil {
				failed = a.layer(ctx, bb.NewTape(), i, b, u, params, cmp.Or(s.taps, KernelTaps))
			}
		}))
	}
	t := bb.NewTape()
	s.run(t, &bb, s.length())
	t.Reset()
	return failed
}

// layer looks at the systems of a layer, which is given u.
func (a *Report) layer(ctx context.Context, t *autograd.Tape, i int, b *model.Block, u *tensor.Tensor,
	params map[string]*nn.Param, taps int) error {
	l := &a.Layers[i]
	for _, k := range mixer.Responses(t, b.Mixer, taps) {
		l.Kernels = append(l.Kernels, Kernel{k.Name, k.Taps.Dim(0), k.Taps.Dim(1), k.Taps.Floats()})
	}
	t.Reset()
	prefix := fmt.Sprintf("backbone.layers.%d.mixer.", i)
	continuous := continuousSystems(prefix, params)
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

// DiagonalOf is the diagonal of A and the steps dt of a system, read from its parameters.
type DiagonalOf struct {
	base  string // in front of the names of its parameters
	Poles []complex128
	Dt    []float64
	Rows  int       // of poles, one for each channel; 1 where all channels share them
	p     []float64 // the term of low rank of S4, nil for none
}

// Diagonals reads the systems of a mixer from its parameters, by their names.
func Diagonals(prefix string, params map[string]*nn.Param) []DiagonalOf {
	var names []string
	for name := range params {
		if strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	get := func(name string) []float64 {
		if p := params[name]; p != nil {
			return memory.WideOf(p.Tensor.Floats())
		}
		return nil
	}
	mapped := func(x []float64, f func(float64) float64) []float64 {
		for i := range x {
			x[i] = f(x[i])
		}
		return x
	}
	negExp := func(v float64) float64 { return -math.Exp(v) }
	softplus := func(v float64) float64 { return max(v, 0) + math.Log1p(math.Exp(-math.Abs(v))) }
	var out []DiagonalOf
	for _, name := range names {
		base, last := name[:strings.LastIndexByte(name, '.')+1], name[strings.LastIndexByte(name, '.')+1:]
		s := DiagonalOf{base: base, Rows: params[name].Dim(0)}
		if params[name].Dims() == 1 && last != "A_log" {
			s.Rows = 1
		}
		var re, im []float64
		switch last {
		case "inv_A_real", "log_A_real":
			re, im = mapped(get(name), negExp), get(base+"A_imag")
		case "inv_w_real":
			re, im = mapped(get(name), negExp), get(base+"w_imag")
			s.p = get(base + "P")
		case "Lambda_log_neg_re":
			re, im = mapped(get(name), negExp), get(base+"Lambda_im")
		case "A_log":
			re = mapped(get(name), negExp)
			s.Dt = mapped(get(base+"dt_proj.bias"), softplus)
			if s.Dt == nil {
				s.Dt = mapped(get(base+"dt_bias"), softplus)
			}
		case "recurrent_param": // a = exp(-8·softplus(Λ)·r): the gate r is the step
			re = mapped(get(name), func(v float64) float64 { return -engine.RGLRUPower * softplus(v) })
		default:
			continue
		}
		if s.Dt == nil {
			s.Dt = mapped(get(base+"log_dt"), math.Exp)
		}
		for i, x := range re {
			y := 0.0
			if im != nil {
				y = im[i]
			}
			s.Poles = append(s.Poles, complex(x, y))
		}
		out = append(out, s)
	}
	return out
}

// continuousSystems reads dt and the spectrum of A from the parameters of a mixer.
func continuousSystems(prefix string, params map[string]*nn.Param) (all []System) {
	for _, d := range Diagonals(prefix, params) {
		s := System{
			Part: strings.TrimSuffix(strings.TrimPrefix(d.base, prefix), "."), Rule: "its parameters",
			Dt: d.Dt, Poles: d.Poles,
		}
		if d.p != nil {
			s.Poles = lowRankPoles(d.Poles, d.p, d.Rows)
		}
		all = append(all, s)
	}
	return all
}

// lowRankPoles are the eigenvalues of Λ - P P^* in some channels of S4. With the conjugate pairs that only one half of
// is kept, x' = Λ x - 2 P Re(P^* x), which is linear in real and imaginary parts.
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

// stable counts the poles of a discrete system inside the unit circle, up to rounding.
func stable(poles []complex128) (n int) {
	for _, z := range poles {
		if cmplx.Abs(z) <= 1+1e-6 {
			n++
		}
	}
	return n
}

// Constants are the time constants in tokens of the slowest mode of each channel: none where poles are shared in a way
// that is not known.
func (d *DiagonalOf) Constants() (tokens []float64) {
	if len(d.Poles) == 0 || d.Rows != 1 && d.Rows != len(d.Dt) {
		return nil
	}
	n := len(d.Poles) / d.Rows
	for i, dt := range d.Dt {
		row := d.Poles
		if d.Rows > 1 {
			row = d.Poles[i*n:][:n]
		}
		slowest := math.Inf(1)
		for _, p := range row {
			slowest = min(slowest, -real(p))
		}
		tokens = append(tokens, 1/(dt*slowest))
	}
	return tokens
}
