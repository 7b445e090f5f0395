package action

import (
	"context"
	"math"
	"slices"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/tensor"
)

// Norms returns ‖C[t,s]‖ (l, l). In nearly every mixer, one operation along the sequence is followed by one or more
// matrices. Then the contributions of each channel are multiplied by the matrices, a block of pairs at a time: l²/2
// products of a vector and a matrix. For other mixers, the mixer is run once for each position.
func (a *Action) Norms(ctx context.Context) ([]float32, error) {
	w := &work{ctx: ctx, l: a.Length, m: make([]float32, a.Length*a.Length)}
	if up, top, ok := a.above(); ok {
		parts, ok := a.parts(top.in[0], false)
		if each, is := top.spread.(splitter); ok && is && each.fits(w.l) {
			w.p, w.parts = up.first, parts
			split, err := each.split(w)
			if err != nil {
				return nil, err
			}
			return w.m, a.normsThrough(w, up, split)
		}
	}
	b := a.Constant()
	for s := range w.l {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		c := a.From(s, b)
		for t := range w.l {
			w.m[t*w.l+s] = norm(c[t*a.Width:][:a.Width])
		}
	}
	return w.m, nil
}

// norm returns ‖x‖.
func norm(x []float32) float32 { return float32(math.Sqrt(kernel.SumSquares(x))) }

// splitter is a spread that can compute the contributions of each channel.
type splitter interface {
	// fits reports whether the memory needed for l positions is acceptable compared with that of the map.
	fits(l int) bool
	// split returns a function that adds p_c[t] α_c[t,r] x_c[r] to z[r-lag] (l, channels) for one target t, for each
	// part of the values.
	split(w *work) (func(t int, z []float32), error)
}

// above describes what happens at each position after the last operation along the sequence.
type above struct {
	first  []float32 // factors (l, n) of the operation's result
	stages []stage
}

// stage is y = k[t] ⊙ (W x), for some columns.
type stage struct {
	weight    *tensor.Tensor
	factors   []float32 // (l, width), nil for ones
	at, width int
}

// above returns the stages between the only operation along the sequence and y. ok is false unless y depends on the
// values only in this way.
func (a *Action) above() (up above, top *step, ok bool) {
	var steps []*step
	var results []*tensor.Tensor
	for y := a.y; ; {
		s := a.by[y]
		if s == nil {
			return up, nil, false
		}
		if s.along {
			top = s
			break
		}
		if len(s.in) != 1 || !s.pointwise && s.weight == nil && s.at == nil {
			return up, nil, false
		}
		steps, results, y = append(steps, s), append(results, y), s.in[0]
	}
	up.first = slices.Repeat([]float32{1}, top.out[0].Len())
	for i := len(steps) - 1; i >= 0; i-- {
		s, n := steps[i], len(up.stages)
		switch {
		case s.weight != nil:
			up.stages = append(up.stages, stage{weight: s.weight, width: s.weight.Dim(0)})
		case n == 0 && s.pointwise:
			up.first = product(up.first, a.factors(s))
		case n == 0:
			return up, nil, false
		case s.pointwise:
			last := &up.stages[n-1]
			k := a.factors(s)
			if last.factors != nil {
				k = product(k, last.factors)
			}
			last.factors = k
		default:
			last := &up.stages[n-1]
			if last.factors != nil {
				return up, nil, false
			}
			for j, y := range s.out {
				if y == results[i] {
					last.at, last.width = last.at+s.at[j], y.Dim(-1)
				}
			}
		}
	}
	return up, top, true
}

// pairsAtOnce is the number of pairs of positions that are multiplied at a time.
const pairsAtOnce = 4096

// normsThrough computes the norms of the results of split after the stages of up.
func (a *Action) normsThrough(w *work, up above, split func(t int, z []float32)) error {
	d := len(up.first) / w.l
	n := max(1, pairsAtOnce/w.l)
	for from := 0; from < w.l; from += n {
		count := min(n, w.l-from)
		z := make([]float32, count*w.l*d)
		if err := w.rows(func(t int) {
			if t < count {
				split(from+t, z[t*w.l*d:][:w.l*d])
			}
		}); err != nil {
			return err
		}
		seen := 0 // number of rows that some target uses
		for t := range count {
			seen = max(seen, lastRow(z[t*w.l*d:][:w.l*d], d))
		}
		for t := range count {
			copy(z[t*seen*d:], z[t*w.l*d:][:seen*d])
		}
		y, width := a.raise(z[:count*seen*d], d, from, seen, up.stages)
		for i := range count * seen {
			w.m[(from+i/seen)*w.l+i%seen] = norm(y[i*width:][:width])
		}
	}
	return nil
}

// lastRow returns the number of rows of z (n, d) up to the last that is not 0, at least 1.
func lastRow(z []float32, d int) int {
	for i := len(z) - 1; i >= d; i-- {
		if z[i] != 0 {
			return i/d + 1
		}
	}
	return 1
}

// raise passes z (targets·l, d) through stages, for targets that start at from.
func (a *Action) raise(z []float32, d, from, l int, stages []stage) (y []float32, width int) {
	for _, s := range stages {
		mark := a.e.Engine.Mark()
		x := tensor.FromSlice(z, len(z)/d, d)
		y = a.e.Engine.Linear(x, s.weight, nil, engine.None).Floats()
		a.e.Engine.ReleaseSince(mark)
		n := s.weight.Dim(0)
		z = make([]float32, len(y)/n*s.width)
		for i := range len(y) / n {
			row := z[i*s.width:][:s.width]
			copy(row, y[i*n+s.at:])
			if s.factors == nil {
				continue
			}
			kernel.Mul(row, s.factors[(from+i/l)*s.width:][:s.width])
		}
		d = s.width
	}
	return z, d
}

// through adds own ⊙ taps ⊙ x to z.
func through(z, own, taps, x []float32) {
	taps, x, z = taps[:len(own)], x[:len(own)], z[:len(own)]
	for c, v := range own {
		z[c] += v * taps[c] * x[c]
	}
}

func (f *filter) fits(int) bool { return true }

func (f *filter) split(w *work) (func(t int, z []float32), error) {
	d := f.heads()
	return func(t int, z []float32) {
		for i := range min(f.width, t+1) {
			tap := f.tap(i)
			for _, p := range w.parts {
				if x, ok := p.row(t - i); ok {
					through(z[(t-i-p.lag)*d:], w.p[t*d:][:d], tap, x)
				}
			}
		}
	}, nil
}

func (k *longConv) fits(int) bool { return k.gates.HeadDim == 1 }

func (k *longConv) split(w *work) (func(t int, z []float32), error) {
	p, parts := k.folded(w)
	return func(t int, z []float32) {
		for r := range k.last(t, w.l) + 1 {
			for i := range parts {
				if x, ok := parts[i].row(r); ok {
					through(z[(r-parts[i].lag)*k.n:], p[t*k.n:][:k.n], k.between(t, r, w.l), x)
				}
			}
		}
	}, nil
}

func (f *fading) fits(int) bool { return true }

func (f *fading) split(w *work) (func(t int, z []float32), error) {
	d := f.heads()
	return func(t int, z []float32) {
		left := append([]float32(nil), w.p[t*d:][:d]...)
		for r := t; r >= 0; r-- {
			for i := range w.parts {
				if x, ok := w.parts[i].row(r); ok {
					through(z[(r-w.parts[i].lag)*d:], left, f.b[r*d:], x)
				}
			}
			kernel.Mul(left, f.a[r*d:][:d])
		}
	}, nil
}

// mostWeights is the maximum number of elements, in the matrices of all heads, that are kept at a time.
const mostWeights = 64 << 20

func (p *pattern) fits(l int) bool { return l*l*p.n <= mostWeights }

func (p *pattern) split(w *work) (func(t int, z []float32), error) {
	var all [][]float32 // for each block of sources: (l, heads·width)
	if err := p.weights(w, func(_, _ int, y []float32) error {
		all = append(all, y)
		return nil
	}); err != nil {
		return nil, err
	}
	d := p.n * p.width
	return func(t int, z []float32) {
		for r := range w.l {
			y := all[r/p.width][t*d:][:d]
			for h := range p.n {
				weight := y[h*p.width+r%p.width]
				if weight == 0 {
					continue
				}
				at := p.at + h/(p.n/p.keyHeads)*p.width
				for i := range w.parts {
					x, ok := w.parts[i].row(r)
					if !ok {
						continue
					}
					own, to := w.p[t*d+h*p.width:][:p.width], z[(r-w.parts[i].lag)*d+h*p.width:]
					for c, v := range x[at:][:p.width] {
						to[c] += weight * own[c] * v
					}
				}
			}
		}
	}, nil
}
