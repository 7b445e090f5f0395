package explain

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/explain/action"
)

// mostCells is the longest side of a map, and allCells how many numbers all maps of a page have.
const (
	mostCells = 512
	allCells  = 2 << 20
)

// influenceCells is how many tokens a cell of a map has, for so many layers.
func influenceCells(layers, tokens int) (step int) {
	side := min(mostCells, int(math.Sqrt(allCells/float64(layers))))
	return (tokens + side - 1) / side
}

// negligible is what a layer writes, in parts of the stream, when it writes nothing but rounding errors.
const negligible = 1e-12

// layerSums measures one layer.
type layerSums struct {
	r     *Influence
	in    *layerInput
	cells int // tokens of a cell
	out   InfluenceLayer

	m      []float32 // the measure (l, l)
	writes []float64 // of each position: the layer's part of the stream behind it
}

func (l *layerSums) run(ctx context.Context) error {
	b := l.in.block
	l.out = InfluenceLayer{Layer: l.in.number, Mixer: b.Kind, Shared: b.Shared != nil, Step: l.cells}
	t := autograd.NewTape()
	defer t.Reset()
	a, err := action.Of(t, b.Mixer, l.in.u)
	if err != nil {
		l.out.Why = "it has no linear form: " + err.Error()
		return nil
	}
	l.out.Held = a.Held()
	y, rest := a.Output(), a.Constant()
	if !finite(y) || !finite(rest) {
		return errNotFinite
	}
	switch n := a.Heads(); {
	case l.r.Options.Head == AllHeads:
	case n == 0:
		l.out.Why = "it has no heads"
		return nil
	case l.r.Options.Head >= n:
		return fmt.Errorf("head: found %d, want 0 to %d", l.r.Options.Head, n-1)
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

// weigh finds how much the layer writes, y - b, beside the stream.
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

// measure is the measure of all pairs (l, l).
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

// sum makes the map's cells, the token's row and what describes the layer.
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

// finite reports whether x has neither NaN nor infinity.
func finite(x []float32) bool {
	for _, v := range x {
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			return false
		}
	}
	return true
}

// rollout follows the share of tokens in what one comes to, from the last layer to the first: "attention rollout"
// (Quantifying Attention Flow in Transformers, arXiv:2005.00928, §3) with the operator of any mixer in the place of the
// attention, and the sizes of what is added in the place of one half for the residual (as arXiv:2109.07152 weighs it):
//
//	A[t,s] = (1-λ[t]) δ_ts + λ[t] |m[t,s]| / Σ_s' |m[t,s']|,   λ[t] = ‖y[t]-b[t]‖ / (‖x[t]‖ + ‖y[t]-b[t]‖)
//	v ← v A
//
// with x the stream before the layer. It starts with 1 at the token. Feed-forward parts, which take positions alone, do
// not move anything.
type rollout struct {
	r *Influence
	v []float64 // nil where it is not asked for, or broke off
}

func newRollout(r *Influence, on bool) *rollout {
	if !on {
		return &rollout{r: r}
	}
	v := make([]float64, r.Tokens)
	v[r.Token] = 1
	r.Rollout = [][]float64{v}
	return &rollout{r: r, v: v}
}

// back takes v through a layer.
func (o *rollout) back(l *layerSums) {
	if o.v == nil {
		return
	}
	if l.m == nil {
		o.v, o.r.Rollout = nil, nil
		return
	}
	n := o.r.Tokens
	next := make([]float64, n)
	for t, share := range o.v {
		if share == 0 {
			continue
		}
		row, size := l.m[t*n:][:n], 0.0
		for _, x := range row {
			size += math.Abs(float64(x))
		}
		part := l.writes[t]
		if size == 0 {
			part = 0
		}
		next[t] += share * (1 - part)
		for s, x := range row {
			if x != 0 {
				next[s] += share * part * math.Abs(float64(x)) / size
			}
		}
	}
	o.v = next
	o.r.Rollout = append(o.r.Rollout, next)
}

// end puts the rows in the order of the layers.
func (o *rollout) end() {
	slices.Reverse(o.r.Rollout)
}
