package smooth

import (
	"fmt"
	"math"
)

// Theta is the Theta method (Assimakopoulos and Nikolopoulos, "The theta model: a decomposition approach to
// forecasting", Int. J. Forecasting 16, 2000) with the two lines of the paper, on data without its season.
type Theta struct {
	Alpha    float64 `json:"alpha"`
	Period   int     `json:"period"` // 1 for no season
	Relative bool    `json:"relative,omitempty"`
}

// Check returns an error if FitTheta cannot have returned the model.
func (m *Theta) Check() error {
	if !(m.Alpha > 0 && m.Alpha <= 1) || m.Period < 1 || m.Period > mostPeriod {
		return fmt.Errorf("found the parameter %g and a season of %d rows, want 0 to 1 and 1 to %d", m.Alpha, m.Period,
			mostPeriod)
	}
	return nil
}

// Forecast sets dst to the forecast of the values after y: the mean of the line a + b t through y, and of simple
// exponential smoothing of the second theta line, z = 2 y - (a + b t),
//
//	ŷ[n+h] = ½ (a + b (n + h)) + ½ l[n]    l[t] = l[t-1] + α (z[t] - l[t-1])
//
// with the season added again. It returns false if y has no value.
func (m *Theta) Forecast(y, dst []float64) bool {
	if y = trim(y); len(y) == 0 {
		return false
	}
	y = filled(y)
	s := []float64{0}
	if m.Relative {
		s[0] = 1
	}
	if m.Period > 1 {
		s = seasonOf(y, m.Period, m.Relative)
	}
	x := deseason(y, s, m.Relative)
	a, b := line(x, true)
	l, _ := smoothed(x, a, b, m.Alpha)
	for h := range dst {
		n := len(x) + h
		v := (a + b*float64(n+1) + l) / 2
		if m.Relative {
			dst[h] = v * s[n%len(s)]
		} else {
			dst[h] = v + s[n%len(s)]
		}
	}
	return true
}

// smoothed returns the last level of the second theta line, and the sum of the squared one-step errors.
func smoothed(x []float64, a, b, alpha float64) (l, squares float64) {
	for i, v := range x {
		z := 2*v - a - b*float64(i+1)
		if i == 0 {
			l = z
		}
		squares += (z - l) * (z - l)
		l += alpha * (z - l)
	}
	return l, squares
}

// FitTheta returns the model of series. It has a season if the autocorrelation of the series is significant at the
// period. Its smoothing parameter is the one that predicts the next value of the second theta line best.
func FitTheta(series [][]float64, period int) *Theta {
	series = prepared(series)
	m := &Theta{Period: 1}
	seasonal, positive := 0, true
	for i, y := range series {
		series[i] = filled(y)
		for _, x := range series[i] {
			positive = positive && x > 0
		}
		if period > 1 && period <= mostPeriod && hasSeason(series[i], period) {
			seasonal++
		}
	}
	if m.Relative = positive; 2*seasonal > len(series) {
		m.Period = period
	}
	best := math.Inf(1)
	for k := 1; k < 100; k++ {
		alpha, sum := float64(k)/100, 0.0
		for _, y := range series {
			x := y
			if m.Period > 1 {
				x = deseason(y, seasonOf(y, m.Period, m.Relative), m.Relative)
			}
			a, b := line(x, true)
			_, squares := smoothed(x, a, b, alpha)
			sum += float64(len(x)) * math.Log(squares+math.SmallestNonzeroFloat64)
		}
		if sum < best {
			best, m.Alpha = sum, alpha
		}
	}
	if m.Alpha == 0 {
		return nil
	}
	return m
}

// hasSeason reports whether the autocorrelation r at the period is significant at 90 %: as in the M3 and M4
// competitions, |r[m]| > 1.645 √((1 + 2 Σ_{k<m} r[k]²)/n).
func hasSeason(y []float64, period int) bool {
	n := len(y)
	if n < 2*period+1 {
		return false
	}
	mean := 0.0
	for _, x := range y {
		mean += x / float64(n)
	}
	r := make([]float64, period+1)
	for k := range r {
		for t := k; t < n; t++ {
			r[k] += (y[t] - mean) * (y[t-k] - mean)
		}
	}
	if r[0] == 0 {
		return false
	}
	sum := 1.0
	for k := 1; k < period; k++ {
		sum += 2 * (r[k] / r[0]) * (r[k] / r[0])
	}
	return math.Abs(r[period]/r[0]) > 1.645*math.Sqrt(sum/float64(n))
}
