package mixer

import (
	"fmt"
	"math/bits"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// system holds the operations of d state-space systems, one for each channel.
type system struct {
	// run applies the systems to rows u (n, d), with a skip (d), which may be zero. A slot is (d, modes, 2).
	run func(t *autograd.Tape, u, skip *tensor.Tensor, r *engine.Rows, slots engine.Slots) *tensor.Tensor
	// kernel computes the kernels (l, d) for sequences of at most longest positions.
	kernel  func(t *autograd.Tape, l int) *tensor.Tensor
	longest int
	// uneven returns the systems for DiagScan; nil for systems that assume even steps.
	uneven func(t *autograd.Tape) *engine.DiagSystem
}

// diagonalSystem returns a system of diagonal systems.
func diagonalSystem(of, uneven func(t *autograd.Tape) *engine.DiagSystem) system {
	return system{
		run: func(t *autograd.Tape, u, skip *tensor.Tensor, r *engine.Rows, slots engine.Slots) *tensor.Tensor {
			return t.DiagSSM(engine.Gates{V: u}, of(t), skip, r, slots)
		},
		kernel:  func(t *autograd.Tape, l int) *tensor.Tensor { return t.DiagKernel(of(t), l) },
		longest: engine.LongestAtOnce, uneven: uneven,
	}
}

// sampled returns a system of the diagonal systems of p.
func sampled(p *engine.DiagParams) system {
	uneven := unevenly(p)
	return diagonalSystem(func(t *autograd.Tape) *engine.DiagSystem { return t.DiagSystem(p) },
		func(t *autograd.Tape) *engine.DiagSystem { return t.DiagSystem(uneven) })
}

// along applies the systems to u (n, h) with a skip, using the times of the rows if the systems support it. part is the
// part of the rows' states that belongs to the systems.
func (s *system) along(t *autograd.Tape, u, skip *tensor.Tensor, r *Rows, part int) *tensor.Tensor {
	if r.Steps != nil && s.uneven != nil {
		return t.DiagScan(u, r.times(t, 1), s.uneven(t), skip, r.Rows, r.fixed(part))
	}
	return s.run(t, u, skip, r.Rows, r.fixed(part))
}

// s4Layer is the layer that S4 and S4D share in the official repository, around different systems:
//
//	y = GLU( W gelu( (SSM_c(u) + D_c u)_c ) + b )
//
// Its channels c are several systems with the same input, each with its own C and D. A bidirectional layer has as many
// additional systems that look ahead, y[t] += Σ_j k[j]·u[t+1+j]. The GELU is exact, and GLU(a, g) = a·sigmoid(g).
// Without a gate the layer ends with W gelu(...) + b, like the S4D that H3 is compared with.
type s4Layer struct {
	D   []*nn.Param // of each channel, (d)
	Out *nn.Linear

	systems []system // those of the channels, then those that look ahead
	opt     layerOptions
	d, n    int
	none    func() *tensor.Tensor // zeros, as skip of the systems that look ahead
}

// layerOptions are the options of s4Layer.
type layerOptions struct {
	Channels      int  `json:"channels" help:"systems of each channel, each with its C and D" min:"1" max:"16"`
	Bidirectional bool `json:"bidirectional" help:"as many systems look ahead: for encoders"`
	Gate          bool `json:"gate" help:"GLU after the output's linear map"`
}

// layerDefaults returns the options of the official layers.
func layerDefaults() layerOptions { return layerOptions{Channels: 1, Gate: true} }

// ways returns the number of parameters C: twice the channels if the layer is bidirectional.
func (o layerOptions) ways() int {
	if o.Bidirectional {
		return 2 * o.Channels
	}
	return o.Channels
}

// newS4Layer returns a layer for systems of n modes. The caller must set the systems.
func newS4Layer(d, n int, o layerOptions) s4Layer {
	wide := d
	if o.Gate {
		wide = 2 * d
	}
	m := s4Layer{Out: nn.NewLinear(o.Channels*d, wide, nn.InitStd), opt: o, d: d, n: n, none: zeros(d)}
	for range o.Channels {
		m.D = append(m.D, nn.NewParam(nn.SSM, nn.Normal(1), d))
	}
	return m
}

// Forward maps the rows of u (n, d_model) to y of the same shape.
func (m *s4Layer) Forward(t *autograd.Tape, u *tensor.Tensor, r *Rows) *tensor.Tensor {
	if !m.opt.Bidirectional {
		return m.forward(t, u, r)
	}
	if r.carry() {
		panic("mixer: a bidirectional layer has no state to go on from")
	}
	return r.apart(t, u, func(i int) int { return m.taps(r.Len(i)) }, m.forward)
}

// forward is Forward for rows that use the same kernels.
func (m *s4Layer) forward(t *autograd.Tape, u *tensor.Tensor, r *Rows) *tensor.Tensor {
	var ys [16]*tensor.Tensor
	for c, skip := range m.D {
		if m.opt.Bidirectional {
			ys[c] = m.bothWays(t, u, skip.Tensor, &m.systems[c], &m.systems[m.opt.Channels+c], r.Rows)
			continue
		}
		ys[c] = m.systems[c].along(t, u, skip.Tensor, r, c)
	}
	y := ys[0]
	if m.opt.Channels > 1 {
		y = t.Join(ys[:m.opt.Channels]...)
	}
	y = m.Out.Forward(t, t.Activate(y, engine.GeluErf))
	if !m.opt.Gate {
		return y
	}
	return t.GLU(y)
}

// taps returns the length of the kernels with which a row of l positions looks both ways in one convolution, or 0 if
// the row is too long. A kernel's bits depend on its length. Lengths are rounded up by at most an eighth, so that rows
// of many lengths share a few kernels.
func (m *s4Layer) taps(l int) int {
	most := min(m.systems[0].longest, engine.LongestAtOnce)
	if l > most {
		return 0
	}
	step := 1 << max(0, bits.Len(uint(l-1))-4)
	return min(most, (l+step-1)/step*step)
}

// bothWays applies a system and one that looks ahead, in one convolution, or in two if the rows are too long for one.
func (m *s4Layer) bothWays(t *autograd.Tape, u, skip *tensor.Tensor, back, ahead *system,
	r *engine.Rows) *tensor.Tensor {
	if n := m.taps(r.Longest()); n > 0 {
		return t.BothWays(u, back.kernel(t, n), ahead.kernel(t, n), skip, r)
	}
	y := back.run(t, u, skip, r, nil)
	z := ahead.run(t, t.Reverse(u, 0, r), m.none(), r, nil)
	return t.Add(y, t.Reverse(z, 1, r))
}

// NewState returns the state before the first position, zeros.
func (m *s4Layer) NewState() State {
	var names []string
	var shapes [][]int
	for c := range m.opt.Channels {
		names, shapes = append(names, numbered("ssm", c)), append(shapes, []int{m.d, m.n, 2})
	}
	return newFixedState(names, shapes...)
}

// Traits returns traits that depend on whether the layer is bidirectional.
func (m *s4Layer) Traits() Traits {
	return Traits{LooksAhead: m.opt.Bidirectional, Steps: !m.opt.Bidirectional && m.systems[0].uneven != nil,
		Convolves: true, StepsRows: true}
}

// visitD visits the skips.
func (m *s4Layer) visitD(prefix string, visit nn.Visitor) {
	for c, p := range m.D {
		visit(prefix+numbered("D", c), p)
	}
}

// visitC visits the parameters C of all channels under names with the given prefix.
func visitC(prefix string, visit nn.Visitor, all []*nn.Param) {
	for c, p := range all {
		visit(prefix+numbered("C", c), p)
	}
}

// numbered returns the name of the c-th of several parameters: name, name_1, name_2 and so on.
func numbered(name string, c int) string {
	if c == 0 {
		return name
	}
	return fmt.Sprintf("%s_%d", name, c)
}

func (m *s4Layer) kernels(t *autograd.Tape, l int) []Response {
	var all []Response
	for i, s := range m.systems {
		name := numbered("ssm", i)
		if m.opt.Bidirectional && i >= m.opt.Channels {
			name = numbered("ahead", i-m.opt.Channels)
		}
		all = append(all, Response{name, t.KernelRows(s.kernel(t, min(l, s.longest)), m.d)})
	}
	return all
}
