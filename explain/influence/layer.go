package influence

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/explain"
	"github.com/hippo-ssm/hippo/explain/action"
	"github.com/hippo-ssm/hippo/explain/figure"
	"github.com/hippo-ssm/hippo/internal/parallel"
)

// mostCells is the maximum number of cells on one side of a map. allCells is the maximum total for a page.
const (
	mostCells = 512
	allCells  = 2 << 20
)

// cellsOf returns the number of tokens in a cell of a map, for the given number of layers.
func cellsOf(layers, tokens int) (step int) {
	side := min(mostCells, int(math.Sqrt(allCells/float64(layers))))
	return (tokens + side - 1) / side
}

// negligible is the size of a layer's output, relative to the stream, below which it consists only of rounding errors.
const negligible = 1e-12

// layerSums measures one layer, or the shared block before its mixer.
type layerSums struct {
	r      *Report
	in     *layerInput
	cells  int        // tokens in a cell
	block  bool       // measures the block
	before *layerSums // the block of a layer that has one
	out    Layer

	heads  int       // number of heads
	lacks  bool      // the layer does not have the requested head
	m      []float32 // the measure (l, l)
	writes []float64 // for each position: the layer's part of the stream after it
	sizes  []float64 // sums of the magnitudes in the rows of m, for the rollout
}

func (l *layerSums) run(ctx context.Context, t *autograd.Tape) error {
	b := l.in.block
	l.out = Layer{Layer: l.in.number, Mixer: b.Kind, Block: l.block, Step: l.cells}
	if l.block {
		l.out.Mixer, _, _ = strings.Cut(b.Kind, ">")
	} else if b.Shared != nil {
		l.before = &layerSums{r: l.r, in: l.in, cells: l.cells, block: true}
		if err := l.before.run(ctx, t.Another()); err != nil {
			return fmt.Errorf("%s: %w", l.before.out.Mixer, err)
		}
		l.out.Shared = &l.before.out
	}
	defer t.Reset()
	a, err := l.action(t)
	if err != nil {
		l.out.Why = "it has no linear form: " + err.Error()
		return nil
	}
	l.out.Held = a.Held()
	y, rest := a.Output(), a.Constant()
	if !explain.Finite(y) || !explain.Finite(rest) {
		return errNotFinite
	}
	if head := l.r.Options.Head; head != AllHeads {
		switch l.heads = a.Heads(); {
		case l.heads == 0:
			l.out.Why = "it has no heads"
			return nil
		case head >= l.heads:
			l.out.Why, l.lacks = fmt.Sprintf("it has heads 0 to %d", l.heads-1), true
			return nil
		}
	}
	for i, v := range rest {
		y[i] -= v
	}
	l.weigh(y, a.Width)
	if l.m, err = l.measure(ctx, a, y); err != nil {
		return err
	}
	l.sum()
	return nil
}

// action returns the action to measure.
func (l *layerSums) action(t *autograd.Tape) (*action.Action, error) {
	if l.block {
		return action.OfShared(t, l.in.block.Shared, l.in.stream, l.in.first)
	}
	return action.Of(t, l.in.block.Mixer, l.in.u)
}

// weigh computes the size of what the layer writes, y - b, relative to the stream.
func (l *layerSums) weigh(written []float32, d int) {
	for t, size := range rowSizes(written, d) {
		part := 0.0
		if size > 0 {
			part = size / (size + l.in.sizes[t])
		}
		l.writes = append(l.writes, part)
		l.out.Writes += part / float64(l.r.Tokens)
	}
}

// measure returns the measure of all pairs (l, l).
func (l *layerSums) measure(ctx context.Context, a *action.Action, written []float32) ([]float32, error) {
	of := action.Select{Head: l.r.Options.Head}
	switch l.r.Options.Measure {
	case Mean:
		return a.Mean(ctx, of)
	case Norm:
		return a.Norms(ctx)
	}
	for t, size := range rowSizes(written, a.Width) {
		row := written[t*a.Width:][:a.Width]
		for i, v := range row {
			row[i] = 0
			if size > negligible*l.in.sizes[t] {
				row[i] = float32(float64(v) / size / size)
			}
		}
	}
	return a.Along(ctx, written, of)
}

// sum computes the map's cells, the token's row and the statistics of the layer.
func (l *layerSums) sum() {
	n, step := l.r.Tokens, l.cells
	side := (n + step - 1) / step
	l.out.Cells, l.out.Map = side, make([]float64, side*side)
	for t := range n {
		row := l.m[t*n:][:n]
		targets := float64(min(step, n-t/step*step))
		size, far := 0.0, 0.0
		for s, v := range row {
			l.out.Map[t/step*side+s/step] += float64(v) / targets
			x := math.Abs(float64(v))
			size, far = size+x, far+x*math.Abs(float64(t-s))
		}
		if size > 0 {
			l.out.Reach += far / size / float64(n)
			l.out.Own += math.Abs(float64(row[t])) / size / float64(n)
		}
	}
	for _, v := range l.m[l.r.Token*n:][:n] {
		l.out.Row = append(l.out.Row, float64(v))
	}
}

// rollout follows the share of tokens in one token, from the last layer to the first: "attention rollout" (Quantifying
// Attention Flow in Transformers, arXiv:2005.00928, §3). It uses the operator of any mixer instead of the attention.
// The weight of the residual is not one half but depends on the sizes of what is added (as in arXiv:2109.07152):
//
//	A[t,s] = (1-λ[t]) δ_ts + λ[t] |m[t,s]| / Σ_s' |m[t,s']|,   λ[t] = ‖y[t]-b[t]‖ / (‖x[t]‖ + ‖y[t]-b[t]‖)
//	v ← v A
//
// with x the stream before the layer. It starts with 1 at the token. If the mixer's input includes the output of a
// shared block, m is the product of the A of the mixer and that of the block. The λ of the block weighs its output
// relative to x. What the block reads from the initial stream counts as read from the stream at the same position.
// Feed-forward parts act on each position separately and do not move anything.
type rollout struct {
	r   *Report
	v   [][]float64 // for each token that is followed; nil if not requested, or abandoned
	row int         // index in v of the token whose sources are shown
}

func newRollout(r *Report, on bool) *rollout {
	o := &rollout{r: r}
	if !on {
		return o
	}
	tokens := []int{r.Token}
	if r.Tokens <= figure.MostLinks {
		tokens, o.row = numbersTo(r.Tokens), r.Token
	}
	for _, t := range tokens {
		v := make([]float64, r.Tokens)
		v[t] = 1
		o.v = append(o.v, v)
	}
	r.Rollout = [][]float64{o.v[o.row]}
	return o
}

// back passes all of v through a layer.
func (o *rollout) back(l *layerSums) {
	if o.v == nil {
		return
	}
	if l.m == nil || l.before != nil && l.before.m == nil {
		o.v, o.r.Rollout = nil, nil
		return
	}
	for _, part := range []*layerSums{l, l.before} {
		if part != nil {
			part.sizes = sumsOfSizes(part.m, o.r.Tokens)
		}
	}
	parallel.Each(len(o.v), func(i int) { o.v[i] = l.through(o.v[i]) })
	o.r.Rollout = append(o.r.Rollout, o.v[o.row])
}

// sumsOfSizes returns the sums of magnitudes in the rows of m, with n numbers each.
func sumsOfSizes(m []float32, n int) []float64 {
	out := make([]float64, len(m)/n)
	for t := range out {
		for _, x := range m[t*n:][:n] {
			out[t] += math.Abs(float64(x))
		}
	}
	return out
}

// through returns v A.
func (l *layerSums) through(v []float64) []float64 {
	n := len(v)
	next := make([]float64, n)
	moved := next
	if l.before != nil {
		moved = make([]float64, n)
	}
	for t, share := range v {
		if share == 0 {
			continue
		}
		part, size := l.writes[t], l.sizes[t]
		if size == 0 {
			part = 0
		}
		next[t] += share * (1 - part)
		for s, x := range l.m[t*n:][:n] {
			if x != 0 {
				moved[s] += share * part * math.Abs(float64(x)) / size
			}
		}
	}
	if l.before != nil {
		for s, share := range l.before.through(moved) {
			next[s] += share
		}
	}
	return next
}

// end reverses the rows into the order of the layers.
func (o *rollout) end() {
	slices.Reverse(o.r.Rollout)
	if o.v == nil || o.r.Tokens > figure.MostLinks {
		return
	}
	for _, v := range o.v {
		o.r.Sources = append(o.r.Sources, v...)
	}
}
