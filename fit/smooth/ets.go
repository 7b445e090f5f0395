// Package smooth forecasts single series by the classical methods that are hard to beat on short series: exponential
// smoothing as state-space models (Hyndman, Koehler, Ord and Snyder, "Forecasting with Exponential Smoothing", 2008)
// and the Theta method. It imports no other package of hippo. A missing value is NaN.
package smooth

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/optimize"
)

// Kinds of components: none, additive, multiplicative, and damped additive trend.
const (
	None           = "N"
	Additive       = "A"
	Multiplicative = "M"
	Damped         = "Ad"
)

// ETS is an exponential smoothing model: the kinds of error, trend and season, their parameters, and the length of the
// season.
type ETS struct {
	Error  string  `json:"error"`
	Trend  string  `json:"trend"`
	Season string  `json:"season"`
	Period int     `json:"period,omitempty"` // rows of a season
	Alpha  float64 `json:"alpha"`
	Beta   float64 `json:"beta,omitempty"`
	Gamma  float64 `json:"gamma,omitempty"`
	Phi    float64 `json:"phi,omitempty"` // 1 for a trend that is not damped
	AICc   float64 `json:"aicc"`
}

// String returns the model's name, such as ETS(M,Ad,M).
func (m *ETS) String() string { return fmt.Sprintf("ETS(%s,%s,%s)", m.Error, m.Trend, m.Season) }

// Check returns an error if Fit cannot have returned the model, for example if it was read from a broken file.
func (m *ETS) Check() error {
	kinds := []string{None, Additive, Multiplicative}
	switch {
	case m.Season != None && m.Period < 2 || m.Period > mostPeriod:
		return fmt.Errorf("found a season of %d rows, want 2 to %d", m.Period, mostPeriod)
	case !slices.Contains(kinds[1:], m.Error) || !slices.Contains(kinds, m.Season) ||
		!slices.Contains([]string{None, Additive, Damped}, m.Trend):
		return fmt.Errorf("found %s, want kinds of error, trend and season", m)
	}
	for _, x := range []float64{m.Alpha, m.Beta, m.Gamma, m.Phi} {
		if !(x >= 0 && x <= 1) {
			return fmt.Errorf("found the parameter %g, want 0 to 1", x)
		}
	}
	return nil
}

// mostPeriod is the maximum length of a season.
const mostPeriod = 1000

// state is the state of a model before a row: level, trend, and the season by row of the season.
type state struct {
	l, b float64
	s    []float64
	at   int // number of rows so far
}

// start holds the data for estimating the state before the first row: the season, and the values of a series without
// it.
type start struct{ s, x []float64 }

// begin estimates the season before the first row of y by classical decomposition of all of y. The season is not
// optimized later.
func (m *ETS) begin(y []float64) start {
	if m.Season == None {
		return start{nil, y}
	}
	s := seasonOf(y, m.Period, m.Season == Multiplicative)
	return start{s, deseason(y, s, m.Season == Multiplicative)}
}

// state returns the state before the first row. Level and trend are those of a line through the first rows without
// their season, as in Hyndman et al. (2008), §2.6.1. The slower a model forgets them, the more rows it uses.
func (m *ETS) state(from start) *state {
	rows := max(10, 2*m.Period, int(min(mostPeriod, 2/m.Alpha)))
	if m.Trend != None {
		rows = max(rows, int(min(mostPeriod, 3/math.Sqrt(m.Beta))))
	}
	x := from.x[:min(len(from.x), rows)]
	st := &state{s: slices.Clone(from.s)}
	st.l, st.b = line(x, m.Trend != None)
	return st
}

// run filters y from a state. It returns the sum of the squared errors, the sum of the logarithms of the forecasts to
// which the errors are relative, and their number. With q = l + φ b and the one-step forecast μ = q, q + s or q s,
//
//	e = y - μ    l = q + α r    b = φ b + β r    s = s + γ e/d
//
// where r = e/s and d = q for a multiplicative season, else r = e and d = 1 (Hyndman et al. 2008, Tables 2.2 and 2.3,
// which are these for both kinds of errors). A multiplicative error is e/μ.
func (m *ETS) run(y []float64, st *state) (squares, logs float64, n int) {
	relative := m.Error == Multiplicative
	for _, x := range y {
		q, s := st.l, 1.0
		if m.Trend != None {
			q += m.Phi * st.b
		}
		mu, i := q, 0
		if m.Season != None {
			i = st.at % m.Period
			s = st.s[i]
		}
		switch m.Season {
		case Additive:
			mu = q + s
		case Multiplicative:
			mu = q * s
		}
		st.at++
		e := x - mu
		if e != e { // missing
			e = 0
		} else {
			n++
			if relative {
				squares += e / mu * (e / mu)
				logs += math.Log(math.Abs(mu))
			} else {
				squares += e * e
			}
		}
		r, d := e, 1.0
		if m.Season == Multiplicative {
			r, d = e/s, q
		}
		st.l = q + m.Alpha*r
		st.b = m.Phi*st.b + m.Beta*r
		if m.Season != None {
			st.s[i] += m.Gamma * e / d
		}
	}
	return squares, logs, n
}

// ahead sets dst to the forecasts from a state: l + (φ + … + φ^h) b, with the season.
func (m *ETS) ahead(st *state, dst []float64) {
	sum, power := 0.0, 1.0
	for h := range dst {
		dst[h] = st.l
		if m.Trend != None {
			power *= m.Phi
			sum += power
			dst[h] += sum * st.b
		}
		switch m.Season {
		case Additive:
			dst[h] += st.s[(st.at+h)%m.Period]
		case Multiplicative:
			dst[h] *= st.s[(st.at+h)%m.Period]
		}
	}
}

// Forecast sets dst to the forecast of the values after y. It returns false if y has no value.
func (m *ETS) Forecast(y, dst []float64) bool {
	if y = trim(y); len(y) == 0 {
		return false
	}
	st := m.state(m.begin(y))
	m.run(y, st)
	m.ahead(st, dst)
	return true
}

// candidates returns the models for data with a period: all with additive parts and, for positive data, those with
// multiplicative parts. Multiplicative seasons have multiplicative errors; other combinations are numerically unstable.
func candidates(period int, positive bool) (all []*ETS) {
	for _, trend := range []string{None, Additive, Damped} {
		add := func(err, season string) {
			all = append(all, &ETS{Error: err, Trend: trend, Season: season, Period: period, Phi: 1})
		}
		add(Additive, None)
		if positive {
			add(Multiplicative, None)
		}
		if period > 1 {
			add(Additive, Additive)
			if positive {
				add(Multiplicative, Additive)
				add(Multiplicative, Multiplicative)
			}
		}
	}
	return all
}

// FitETS returns the model with the smallest AICc for series that share its parameters, but not their states and
// variances: AICc = -2 log L + 2k + 2k(k+1)/(n-k-1) with n values and k parameters, including initial states. The
// parameters maximize the likelihood. period is the length of the season, or 1. FitETS returns nil if there are too few
// values.
func FitETS(series [][]float64, period int) *ETS {
	series, positive := prepared(series), true
	for _, y := range series {
		for _, x := range y {
			positive = positive && !(x <= 0)
		}
	}
	if period > mostPeriod || slices.ContainsFunc(series, func(y []float64) bool { return len(y) < 2*period }) {
		period = 1
	}
	var best *ETS
	for _, m := range candidates(period, positive) {
		if m.fit(series); !math.IsNaN(m.AICc) && (best == nil || m.AICc < best.AICc) {
			best = m
		}
	}
	if best != nil && math.IsInf(best.AICc, 0) {
		return nil
	}
	return best
}

// mostTries is the maximum number of evaluations of the likelihood for one model.
const mostTries = 400

// fit finds the parameters that maximize the likelihood, by Nelder and Mead's method.
func (m *ETS) fit(series [][]float64) {
	var from []start
	for _, y := range series {
		from = append(from, m.begin(y))
	}
	at := []float64{0}
	if m.Trend != None {
		at = append(at, -2)
	}
	if m.Season != None {
		at = append(at, -2)
	}
	if m.Trend == Damped {
		at = append(at, 2)
	}
	m.AICc = math.Inf(1)
	res, err := optimize.Minimize(optimize.Problem{Func: func(x []float64) float64 {
		m.set(x)
		l, _ := m.likelihood(series, from)
		return l
	}}, at, &optimize.Settings{FuncEvaluations: mostTries, Converger: &optimize.FunctionConverge{
		Absolute: 1e-6, Iterations: 40}}, &optimize.NelderMead{SimplexSize: 1})
	if err != nil && res == nil {
		return
	}
	m.set(res.X)
	l, n := m.likelihood(series, from)
	each := 2 // level and variance
	if m.Trend != None {
		each++
	}
	if m.Season != None {
		each += m.Period - 1
	}
	k := float64(len(at) + each*len(series))
	if left := float64(n) - k - 1; left > 0 {
		m.AICc = l + 2*k + 2*k*(k+1)/left
	}
}

// set sets the parameters from unbounded numbers: 0 < α < 1, 0 < β < α, 0 < γ < 1-α, 0.8 < φ < 0.98, the usual
// region.
func (m *ETS) set(x []float64) {
	next := func(low, high float64) float64 {
		y := low + (high-low)/(1+math.Exp(-x[0]))
		x = x[1:]
		return y
	}
	m.Alpha = next(1e-4, 0.9999)
	if m.Trend != None {
		m.Beta = next(0, m.Alpha)
	}
	if m.Season != None {
		m.Gamma = next(0, 1-m.Alpha)
	}
	if m.Trend == Damped {
		m.Phi = next(0.8, 0.98)
	}
}

// likelihood returns -2 log L without constants, Σ n log Σ e² + 2 Σ log |μ| over the series, and the number of values.
func (m *ETS) likelihood(series [][]float64, from []start) (sum float64, values int) {
	for i, y := range series {
		squares, logs, n := m.run(y, m.state(from[i]))
		sum += float64(n)*math.Log(max(squares, math.SmallestNonzeroFloat64)) + 2*logs
		values += n
	}
	if sum != sum {
		return math.Inf(1), values
	}
	return sum, values
}
