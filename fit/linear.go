package fit

import (
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
	linearRidge   = 1e-3
)

// fitLinear fits the linear forecast to the training part, nil where there are too few windows.
func (f *frame) fitLinear(train *windows) *linear {
	p := f.plan
	targets, indices := p.targets(), some(train.Len(), linearWindows)
	l := &linear{Order: min(p.Lookback, linearOrder, linearWeights/(len(targets)*p.Horizon))}
	if l.Order < 2 || len(indices) <= l.Order {
		return nil
	}
	e := &encoder{p: &Plan{Columns: p.Columns, Local: p.Local, Time: p.Time}}
	for k, i := range targets {
		x, y := mat.NewDense(len(indices), l.Order, nil), mat.NewDense(len(indices), p.Horizon, nil)
		for n, index := range indices {
			at := train.at(index)
			past := f.seen(at)[k]
			e.from(f.rows.rows(at.lo, at.hi-p.Horizon))
			last := past[len(past)-1]
			for j := range l.Order {
				x.Set(n, j, (past[len(past)-l.Order+j]-last)/e.scale[i])
			}
			for h := range p.Horizon {
				if v := float64(f.rows.row(at.hi - p.Horizon + h)[i]); v == v {
					y.Set(n, h, (v-last)/e.scale[i])
				}
			}
		}
		solved := ridge(x, y)
		if solved == nil {
			return nil
		}
		w := make([]float32, 0, l.Order*p.Horizon)
		for j := range l.Order {
			for h := range p.Horizon {
				w = append(w, float32(solved.At(j, h)))
			}
		}
		l.Weights = append(l.Weights, w)
	}
	return l
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
