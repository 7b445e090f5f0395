package memory

import (
	"context"
	"math"
	"slices"

	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/mixer"
)

// follow goes through a sequence and records what each part of a state does.
type follow struct {
	w           *stateWalk
	step, cells int // tokens in a cell, and the number of cells
	parts       []*followed
	sketch      *sketch // nil for none
	beside      bool    // the decays of some part depend on the token
	shots       int     // number of pictures of the state
}

// followed is a part and what is recorded about it.
type followed struct {
	*statePart
	written, norm []float64
	now           [][]float32 // for each piece, the part after the last token, and before it
	before        [][]float32
	other         [][]float32

	// For parts with one direction, in the layout of the state: b and bᵀΦ. If no channel has more than one nonzero
	// number in either, as in a register, their indices.
	along, dual     []float32
	alongAt, dualAt []int
	energies        []float32 // likewise: energies that each token writes into each channel, (l, channels)

	groups   int         // of decays: channels, or numbers if those of a channel differ
	sum      [][]float32 // for each piece: current energies of what the cell has written so far
	fade     [][]float32 // for each piece: product of the squares of the decays in the cell
	cellSum  [][]float32 // for each cell: energies of groups at the end of the cell
	cellFade [][]float32
	cellOf   []float64   // energy that each cell has written
	slow     [][]float64 // for each piece: sums of -ln a
	scratch  [][]float64 // for each piece: decays at a token
	probe    []float32   // value of all numbers with which decays are measured

	trace [][]float32 // for ruleTanh: the state after each token

	rows  int // groups of channels in heat
	heat  []float32
	every int // number of tokens between shots
	shots [][]float32
}

const (
	heatRows = 64
	shotSide = 32 // channels of a shot, and numbers of each
	allShots = 480
)

func (f *follow) add(p *statePart) {
	x := &followed{statePart: p, written: unknowns(f.w.l), norm: unknowns(f.w.l)}
	if p.steps() {
		x.rows = min(heatRows, p.channels)
		x.heat = make([]float32, x.rows*f.cells)
		x.every = (f.w.l + f.shots - 1) / f.shots
		x.shots = make([][]float32, f.w.l/x.every)
	}
	switch {
	case p.b != nil:
		x.along, x.dual = p.laid(p.b), p.laid(p.dual())
		if a, d := p.single(x.along), p.single(x.dual); a != nil && d != nil {
			x.alongAt, x.dualAt = a, d
		}
		x.energies = make([]float32, f.w.l*p.channels)
	case p.rule == ruleDecay || p.rule == ruleModes:
		x.groups = p.groups()
		x.probe = make([]float32, p.size())
		for i := range x.probe {
			x.probe[i] = probeScale
		}
		x.cellSum, x.cellFade = make([][]float32, f.cells), make([][]float32, f.cells)
		x.cellOf = make([]float64, f.cells)
		f.beside = f.beside || !p.fixed
	case p.rule == ruleTanh:
		x.trace = make([][]float32, f.w.l)
	}
	f.parts = append(f.parts, x)
}

// groups returns how many numbers or channels of a part fade in their own way, 0 for a part that is followed in another
// way.
func (p *statePart) groups() int {
	switch {
	case p.b != nil || p.rule != ruleDecay && p.rule != ruleModes:
		return 0
	case p.rule == ruleDecay && p.same:
		return p.channels
	}
	return p.size()
}

func unknowns(n int) []float64 { return slices.Repeat([]float64{math.NaN()}, n) }

// run goes through the sequence.
func (f *follow) run(ctx context.Context) error {
	piece := int(math.Ceil(math.Sqrt(float64(f.w.l))))
	piece = (piece + f.step - 1) / f.step * f.step // a multiple of the cell size
	if slices.ContainsFunc(f.parts, func(x *followed) bool { return !x.steps() }) {
		_, err := f.w.pieces(ctx, piece, func(from, to int, s mixer.State) {
			for _, x := range f.parts {
				if !x.steps() {
					x.seeRows(from, to, s)
				}
			}
		})
		if err != nil {
			return err
		}
	}
	rows := slices.ContainsFunc(f.parts, func(x *followed) bool { return !x.steps() })
	if rows && !slices.ContainsFunc(f.parts, func(x *followed) bool { return x.steps() && x.rule != ruleRegister }) {
		f.sketch = nil // only the last inputs of a short filter would be left to sketch
		return nil
	}
	begin := func(states []mixer.State) {
		for _, x := range f.parts {
			if x.steps() {
				x.open(states)
			}
		}
	}
	var beside func(mixer.State) (mixer.State, error)
	if f.beside {
		beside = f.other
	}
	return f.w.steps(ctx, piece, begin, beside, func(at []int, now, others []mixer.State) {
		parallel.Each(len(at), func(c int) {
			for _, x := range f.parts {
				if !x.steps() {
					continue
				}
				x.now[c], x.before[c] = readPart(now[c], x.name, x.before[c]), x.now[c]
				if len(others) > 0 && !x.fixed && x.rule == ruleDecay {
					x.other[c] = readPart(others[c], x.name, x.other[c])
				}
				x.see(f, c, at[c])
			}
			if f.sketch != nil {
				f.sketch.add(at[c], func(i int) []float32 { return f.parts[i].now[c] })
			}
		})
	})
}

// other returns a state in which all numbers of the parts whose decays are measured have one value.
func (f *follow) other(s mixer.State) (mixer.State, error) {
	c := s.Clone()
	for _, x := range f.parts {
		if x.rule != ruleDecay || x.fixed {
			continue
		}
		if err := c.Restore(x.name, x.shape, x.probe); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// open allocates memory for pieces that start with the given states.
func (x *followed) open(states []mixer.State) {
	n := len(states)
	x.now, x.before, x.other = make([][]float32, n), make([][]float32, n), make([][]float32, n)
	for c, s := range states {
		x.now[c] = readPart(s, x.name, nil)
	}
	if x.groups == 0 {
		return
	}
	x.sum, x.fade, x.slow = make([][]float32, n), make([][]float32, n), make([][]float64, n)
	x.scratch = make([][]float64, n)
	for c := range n {
		x.sum[c], x.fade[c], x.slow[c] = make([]float32, x.groups), allOnes(x.groups), make([]float64, x.groups)
		x.scratch[c] = make([]float64, x.size())
	}
}

func allOnes(n int) []float32 { return slices.Repeat([]float32{1}, n) }

// see processes the part of piece c after token t.
func (x *followed) see(f *follow, c, t int) {
	now, before := x.now[c], x.before[c]
	x.norm[t] = math.Sqrt(kernel.SumSquares(now))
	if (t+1)%x.every == 0 {
		x.shots[(t+1)/x.every-1] = x.shot(now)
	}
	cell := t / f.step
	ends := (t+1)%f.step == 0 || t == f.w.l-1
	if ends {
		x.warm(f, cell, now)
	}
	switch {
	case x.energies != nil:
		x.seeDirection(t, now, before)
	case x.groups > 0:
		x.seeDecays(c, t, now, before)
		if ends {
			x.cellSum[cell], x.cellFade[cell] = x.sum[c], x.fade[c]
			for g, a2 := range x.fade[c] {
				x.slow[c][g] -= math.Log(max(float64(a2), 1e-45)) / 2
			}
			x.sum[c], x.fade[c] = make([]float32, x.groups), allOnes(x.groups)
		}
		x.cellOf[cell] += x.written[t] * x.written[t]
	case x.trace != nil:
		x.trace[t] = slices.Clone(now)
	}
}

// seeDirection records the numbers x of w_t = x·b_c: those of S_t - Φ S_{t-1} along b_c.
func (x *followed) seeDirection(t int, now, before []float32) {
	e := x.energies[t*x.channels:][:x.channels]
	if x.alongAt != nil {
		for c, a := range x.alongAt {
			d := x.dualAt[c]
			e[c] = float32(x.along[a]*now[a]) - float32(x.dual[d]*before[d])
		}
	} else if x.iStep == 1 {
		for c := range e {
			at := c * x.inner
			e[c] = kernel.Dot(x.along[at:][:x.inner], now[at:]) - kernel.Dot(x.dual[at:][:x.inner], before[at:])
		}
	} else {
		was := make([]float32, len(e))
		for at := 0; at < len(now); at += x.iStep {
			kernel.MulAdd(e, x.along[at:], now[at:])
			kernel.MulAdd(was, x.dual[at:], before[at:])
		}
		kernel.Axpy(-1, was, e)
	}
	total := 0.0
	for c, v := range e {
		e[c] = v * v
		total += float64(v) * float64(v)
	}
	x.written[t] = math.Sqrt(total)
}

// decays returns the decays at a token, for each number.
func (x *followed) decays(c int, now, before []float32) []float64 {
	if x.fixed && !x.gate {
		return x.a
	}
	a := x.scratch[c]
	if x.gate {
		for i := range a {
			a[i] = 1
		}
		if !slices.Equal(now, before) {
			copy(a, x.a)
		}
		return a
	}
	for i := range a {
		if x.same && i%x.inner != 0 {
			a[i] = a[i-1]
		} else if x.same {
			a[i] = x.decay(c, i/x.inner, now, before)
		} else {
			a[i] = float64(x.other[c][i]-now[i]) / (probeScale - float64(before[i]))
		}
	}
	return a
}

// decay returns the common decay of all numbers of a channel. It uses their sums, on which rounding errors of single
// numbers have little effect.
func (x *followed) decay(c, channel int, now, before []float32) float64 {
	at, n := channel*x.inner, x.inner
	if x.fixed {
		return x.a[at]
	}
	return (sumOf(x.other[c][at:][:n]) - sumOf(now[at:][:n])) / (probeScale*float64(n) - sumOf(before[at:][:n]))
}

// seeDecays adds the energy of w_t = S_t - a ⊙ S_{t-1} to what is left of the cell's energy.
func (x *followed) seeDecays(c, t int, now, before []float32) {
	sum, fade, total := x.sum[c], x.fade[c], 0.0
	wrote := func(group int, e, a2 float64) { // adds energy e to a group, whose energy fades by a2
		total += e
		sum[group] = sum[group]*float32(a2) + float32(e)
		if t > 0 { // before, the state is empty
			fade[group] *= float32(a2)
		}
	}
	switch {
	case x.rule == ruleModes:
		for i := 0; i < len(now); i += 2 {
			re, im := float64(before[i]), float64(before[i+1])
			wr := float64(now[i]) - x.a[i]*re + x.a[i+1]*im
			wi := float64(now[i+1]) - x.a[i]*im - x.a[i+1]*re
			wrote(i, wr*wr+wi*wi, x.a[i]*x.a[i]+x.a[i+1]*x.a[i+1])
		}
	case x.same && !x.gate:
		rest := make([]float32, x.inner)
		for g := range x.groups {
			a := x.decay(c, g, now, before)
			copy(rest, now[g*x.inner:])
			kernel.Axpy(-float32(a), before[g*x.inner:][:x.inner], rest)
			wrote(g, kernel.SumSquares(rest), a*a)
		}
	default:
		for i, a := range x.decays(c, now, before) { // each number is a group
			w := float64(now[i]) - a*float64(before[i])
			wrote(i, w*w, a*a)
		}
	}
	x.written[t] = math.Sqrt(total)
}

// warm records the norms of the channels at the end of a cell.
func (x *followed) warm(f *follow, cell int, now []float32) {
	for r := range x.rows {
		from, to := r*x.channels/x.rows, (r+1)*x.channels/x.rows
		x.heat[r*f.cells+cell] = float32(math.Sqrt(x.squares(now, from, to)))
	}
}

// shot copies some channels and some numbers of each.
func (x *followed) shot(now []float32) []float32 {
	rows, cols := min(shotSide, x.channels), min(shotSide, x.inner)
	shot := make([]float32, 0, rows*cols)
	for r := range rows {
		for i := range cols {
			c, k := r*x.channels/rows, i*x.inner/cols
			shot = append(shot, now[c*x.cStep+k*x.iStep])
		}
	}
	return shot
}

// seeRows records the norms of the rows that a piece has added, if all of them are kept until its end.
func (x *followed) seeRows(from, to int, s mixer.State) {
	v := readPart(s, x.name, nil)
	if v == nil {
		return
	}
	_, shapes := shapesIn(s)
	shape := shapes[x.name]
	have := shape[x.rowAxis]
	inside := 1
	for _, n := range shape[x.rowAxis+1:] {
		inside *= n
	}
	for t := max(from, to-have); t < to; t++ {
		row, sum := have-(to-t), 0.0
		for at := row * inside; at < len(v); at += have * inside {
			sum += kernel.SumSquares(v[at:][:inside])
		}
		x.written[t] = math.Sqrt(sum)
	}
	x.norm[to-1] = math.Sqrt(kernel.SumSquares(v))
}
