package fit

import (
	"math"

	"gonum.org/v1/gonum/mat"
)

// linear is the linear forecast of each row of the horizon from the rows before it, less the last of them, which is
// added again: NLinear ("Are transformers effective for time series forecasting?", Zeng et al., arXiv:2205.13504),
// fitted by least squares with a small ridge:
//
//	ŷ[h] = x[L-1] + Σ_j W[j, h] (x[L-order+j] - x[L-1])
type linear struct {
	Order   int         `json:"order"`   // rows that it sees
	Weights [][]float32 `json:"weights"` // of each target, (order, horizon)
}

// Bounds of the linear forecast: rows that it sees, weights in all, and windows that it is fitted to.
const (
	linearOrder   = 336
	linearWeights = 400_000
	linearWindows = 8000
	linearChecks  = 500 // windows of the validation part
)

// linearRidges are the strengths of the ridge, as parts of the mean of the diagonal of XᵀX. The last ones leave little
// but the last value repeated.
var linearRidges = []float64{1e-3, 1e-2, 1e-1, 1, 10, 100}

// fitLinear fits the linear forecast to the training part, with the ridge that is best on the validation part. It is
// nil if there are too few windows.
func (f *frame) fitLinear(train, valid *windows) *linear {
	p := f.plan
	targets, indices := p.targets(), some(train.Len(), linearWindows)
	l := &linear{Order: min(p.Lookback, linearOrder, linearWeights/(len(targets)*p.Horizon))}
	if l.Order < 2 || len(indices) <= l.Order {
		return nil
	}
	for k := range targets {
		x, y := f.differences(train, indices, k, l.Order)
		vx, vy := f.differences(valid, some(valid.Len(), linearChecks), k, l.Order)
		best, least := (*mat.Dense)(nil), math.Inf(1)
		for _, w := range ridges(x, y, linearRidges) {
			var off mat.Dense
			off.Mul(vx, w)
			off.Sub(&off, vy)
			if e := mat.Norm(&off, 2); e < least {
				best, least = w, e
			}
		}
		if best == nil {
			return nil
		}
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

// differences are, of windows, the last rows that a forecast of target k sees (n, order) and those that follow
// (n, horizon), each less the last that is seen, on the scale of the window. One that is missing is 0.
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

// ridges solve min |X W - Y|² + λ|W|² for several λ, parts of the mean of the diagonal of XᵀX; those that can be.
func ridges(x, y *mat.Dense, parts []float64) (all []*mat.Dense) {
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
			_ = chol.SolveTo(w, &right) // an error says that it is not exact
			all = append(all, w)
		}
	}
	return all
}

// ahead fills dst with how far the forecast of target k is above the last of the rows that it sees.
func (l *linear) ahead(k int, past, dst []float64) {
	clear(dst)
	last := past[len(past)-1]
	for j, x := range past[len(past)-l.Order:] {
		for h, w := range l.Weights[k][j*len(dst) : (j+1)*len(dst)] {
			dst[h] += float64(w) * (x - last)
		}
	}
}

// guessLinear is the linear forecast alone.
func (f *frame) guessLinear(l *linear) func(at window, dst []float64) {
	return func(at window, dst []float64) {
		ahead := make([]float64, f.plan.Horizon)
		past := f.seen(at)
		for k := range past {
			l.ahead(k, past[k], ahead)
			for h, x := range ahead {
				dst[h*len(past)+k] = past[k][len(past[k])-1] + x
			}
		}
	}
}
