package fit

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"
)

// linear is the linear forecast of each row of the horizon from the rows before it, relative to the last of them:
// NLinear ("Are transformers effective for time series forecasting?", Zeng et al., arXiv:2205.13504), fitted by least
// squares with a small ridge:
//
//	ŷ[h] = x[L-1] + Σ_j W[j, h] (x[L-order+j] - x[L-1])
type linear struct {
	Order   int         `json:"order"`            // number of rows that it sees
	Weights [][]float32 `json:"weights"`          // for each target, (order, horizon)
	Ridges  []float64   `json:"ridges,omitempty"` // for each target, the best of linearRidges
}

// Limits of the linear forecast: rows that it sees, total weights, and windows that it is fitted to.
const (
	linearOrder   = 336
	linearWeights = 400_000
	linearWindows = 8000
	linearChecks  = 500 // windows of the validation part
)

// linearRidges lists the strengths of the ridge, relative to the mean of the diagonal of XᵀX. With the last ones, the
// forecast is almost the last value.
var linearRidges = []float64{1e-3, 1e-2, 1e-1, 1, 10, 100}

// fitLinear fits the linear forecast to the training part, with the ridge that is best on the validation part, or with
// the ridges of an earlier forecast. It returns nil if there are too few windows.
func (f *frame) fitLinear(train, valid *windows, before *linear) *linear {
	p := f.plan
	targets, indices := p.targets(), some(train.Len(), linearWindows)
	l := &linear{Order: min(p.Lookback, linearOrder, linearWeights/(len(targets)*p.Horizon))}
	if l.Order < 2 || len(indices) <= l.Order {
		return nil
	}
	for k := range targets {
		x, y := f.differences(train, indices, k, l.Order)
		best, ridge := (*mat.Dense)(nil), 0.0
		if before != nil {
			ridge = before.Ridges[k]
			ridges(x, y, []float64{ridge}, func(_ float64, w *mat.Dense) { best = w })
		} else {
			least := math.Inf(1)
			vx, vy := f.differences(valid, some(valid.Len(), linearChecks), k, l.Order)
			ridges(x, y, linearRidges, func(part float64, w *mat.Dense) {
				var off mat.Dense
				off.Mul(vx, w)
				off.Sub(&off, vy)
				if e := mat.Norm(&off, 2); e < least {
					best, ridge, least = w, part, e
				}
			})
		}
		if best == nil {
			return nil
		}
		l.Ridges = append(l.Ridges, ridge)
		weights := make([]float32, 0, l.Order*p.Horizon)
		for j := range l.Order {
			for h := range p.Horizon {
				weights = append(weights, float32(best.At(j, h)))
			}
		}
		l.Weights = append(l.Weights, weights)
	}
	return l
}

// differences returns, for windows, the last rows that a forecast of target k sees (n, order) and the rows that follow
// (n, horizon), each minus the last row seen, on the scale of the window. Missing numbers are 0.
func (f *frame) differences(w *windows, indices []int, k, order int) (x, y *mat.Dense) {
	p := f.plan
	e := &encoder{p: &Plan{Columns: p.Columns, Local: p.Local, Time: p.Time}}
	i := p.targets()[k]
	x, y = mat.NewDense(len(indices), order, nil), mat.NewDense(len(indices), p.Horizon, nil)
	for n, index := range indices {
		at := w.at(index)
		past := f.seen(at)[k]
		e.from(f.rows.rows(at.lo, at.hi-p.Horizon))
		last := past[len(past)-1]
		for j := range order {
			x.Set(n, j, (past[len(past)-order+j]-last)/e.scale[i])
		}
		for h := range p.Horizon {
			if v := float64(f.rows.row(at.hi - p.Horizon + h)[i]); v == v {
				y.Set(n, h, (v-last)/e.scale[i])
			}
		}
	}
	return x, y
}

// ridges solves min |X W - Y|² + λ|W|² for several λ, relative to the mean of the diagonal of XᵀX. It calls visit with
// each solution that can be computed.
func ridges(x, y *mat.Dense, parts []float64, visit func(part float64, w *mat.Dense)) {
	_, n := x.Dims()
	var gram mat.SymDense
	gram.SymOuterK(1, x.T())
	trace := 0.0
	for j := range n {
		trace += gram.At(j, j)
	}
	var right mat.Dense
	right.Mul(x.T(), y)
	for _, part := range parts {
		with := mat.NewSymDense(n, nil)
		for j := range n {
			for i := range j {
				with.SetSym(i, j, gram.At(i, j))
			}
			with.SetSym(j, j, gram.At(j, j)+part*trace/float64(n)+math.SmallestNonzeroFloat32)
		}
		var chol mat.Cholesky
		if chol.Factorize(with) {
			w := new(mat.Dense)
			_ = chol.SolveTo(w, &right) // an error means that the solution is inexact
			visit(part, w)
		}
	}
}

// ahead sets dst to the forecast of target k minus the last of the rows that it sees.
func (l *linear) ahead(k int, past, dst []float64) {
	clear(dst)
	last := past[len(past)-1]
	for j, x := range past[len(past)-l.Order:] {
		for h, w := range l.Weights[k][j*len(dst) : (j+1)*len(dst)] {
			dst[h] += float64(w) * (x - last)
		}
	}
}

// nlinear is the linear forecast as a rival of the network.
type nlinear struct {
	Own *linear `json:"own,omitempty"` // nil for Plan.Linear, the forecast to which the network's output is added
}

func (*nlinear) title(*Plan) string { return "linear (NLinear, least squares)" }

func (l *nlinear) fit(_ context.Context, f *frame, train, valid *windows) (bool, error) {
	before := l.Own
	switch {
	case valid != nil && f.plan.Linear != nil:
		return true, nil
	case before == nil && valid == nil:
		before = f.plan.Linear
	}
	l.Own = f.fitLinear(train, valid, before)
	return l.Own != nil, nil
}

func (l *nlinear) check(p *Plan) error {
	if l.Own == nil && p.Linear == nil {
		return fmt.Errorf("found no linear forecast, want its weights")
	}
	return l.Own.check(p)
}

func (*nlinear) memory(p *Plan) int { return p.Lookback }

func (l *nlinear) guess(e *encoder, rows []float32, n int, dst []float64) {
	if l.Own == nil {
		return
	}
	targets, ahead := e.p.targets(), make([]float64, n)
	for k, i := range targets {
		past := e.p.seen(rows, n, i)
		l.Own.ahead(k, past, ahead)
		for h, x := range ahead {
			dst[h*len(targets)+k] = e.target(i, past[len(past)-1]+x, e.ahead[k][h])
		}
	}
}

// check returns an error if weights that were read from a file are invalid.
func (l *linear) check(p *Plan) error {
	if l == nil {
		return nil
	}
	if l.Order < 1 || l.Order > p.Lookback || len(l.Weights) != len(p.targets()) {
		return fmt.Errorf("found a linear forecast of %d targets from %d rows, want %d from 1 to %d",
			len(l.Weights), l.Order, len(p.targets()), p.Lookback)
	}
	for _, w := range l.Weights {
		if len(w) != l.Order*p.Horizon {
			return fmt.Errorf("found a linear forecast of %d weights, want %d", len(w), l.Order*p.Horizon)
		}
	}
	return nil
}
