package fit

import (
	"context"
	"fmt"
	"math"

	"github.com/hippo-ssm/hippo/fit/smooth"
)

// smoother forecasts one target from its past.
type smoother interface {
	Check() error
	Forecast(y, dst []float64) bool
}

// smoothing is embedded in rivals that forecast each target of a series from its own past, in the units of the data.
type smoothing[M smoother] struct {
	Models []M `json:"models"` // for each target
}

// Limits of the rows to which a smoother is fitted, and of those that a forecast sees.
const (
	smoothRows   = 2000 // last rows of a series
	smoothInAll  = 6000
	leastSmooth  = 200
	mostSmooth   = 1000
	smoothCycles = 20 // seasons
)

func (s *smoothing[M]) memory(p *Plan) int {
	return max(p.Lookback, min(mostSmooth, max(leastSmooth, smoothCycles*p.Season)))
}

func (s *smoothing[M]) check(p *Plan) error {
	if len(s.Models) != len(p.targets()) {
		return fmt.Errorf("found forecasts of %d targets, want %d", len(s.Models), len(p.targets()))
	}
	for _, m := range s.Models {
		if any(m) == any(*new(M)) {
			return fmt.Errorf("found no parameters, want some")
		}
		if err := m.Check(); err != nil {
			return err
		}
	}
	return nil
}

// pasts returns the last rows of several series of target column i, up to the ends of a part.
func (f *frame) pasts(w *windows, i int) (all [][]float64) {
	most := max(1, smoothInAll/min(smoothRows, f.longest()))
	for _, k := range some(len(w.parts), most) {
		s := w.parts[k]
		from := max(f.seqs[s.seq].lo, s.hi-smoothRows)
		all = append(all, f.plan.numbers(f.rows.rows(from, s.hi), 0, i))
	}
	return all
}

// numbers returns the values of column i in the rows before the last n, in the units of the data.
func (p *Plan) numbers(rows []float32, n, i int) []float64 {
	width := p.width()
	y := make([]float64, len(rows)/width-n)
	for r := range y {
		y[r] = p.Columns[i].number(float64(rows[r*width+i]))
	}
	return y
}

func (s *smoothing[M]) fitEach(ctx context.Context, f *frame, w *windows, fit func(series [][]float64) (M, bool)) (bool,
	error) {
	s.Models = nil
	for _, i := range f.plan.targets() {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		m, ok := fit(f.pasts(w, i))
		if !ok {
			return false, nil
		}
		s.Models = append(s.Models, m)
	}
	return true, nil
}

func (s *smoothing[M]) guess(e *encoder, rows []float32, n int, dst []float64) {
	ahead, targets := make([]float64, n), e.p.targets()
	for k, i := range targets {
		if !s.Models[k].Forecast(e.p.numbers(rows, n, i), ahead) {
			continue
		}
		for h, x := range ahead {
			y := e.target(i, e.p.Columns[i].stored(x), e.ahead[k][h])
			if math.Abs(y) < math.MaxFloat32/2 { // otherwise a multiplicative model has diverged
				dst[h*len(targets)+k] = y
			}
		}
	}
}

// ets is exponential smoothing.
type ets struct{ smoothing[*smooth.ETS] }

func (s *ets) title(*Plan) string {
	if len(s.Models) > 1 {
		return "exponential smoothing (ETS)"
	}
	return "exponential smoothing, " + s.Models[0].String()
}

func (s *ets) fit(ctx context.Context, f *frame, train, _ *windows) (bool, error) {
	return s.fitEach(ctx, f, train, func(series [][]float64) (*smooth.ETS, bool) {
		m := smooth.FitETS(series, f.plan.Season)
		return m, m != nil
	})
}

// theta is the Theta method.
type theta struct{ smoothing[*smooth.Theta] }

func (*theta) title(*Plan) string { return "Theta method" }

func (s *theta) fit(ctx context.Context, f *frame, train, _ *windows) (bool, error) {
	return s.fitEach(ctx, f, train, func(series [][]float64) (*smooth.Theta, bool) {
		m := smooth.FitTheta(series, f.plan.Season)
		return m, m != nil
	})
}
