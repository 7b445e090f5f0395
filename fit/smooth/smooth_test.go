package smooth

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// passengers is the monthly number of airline passengers, in thousands, 1949 to 1960 (Box and Jenkins, "Time Series
// Analysis", 1976, series G).
var passengers = []float64{
	112, 118, 132, 129, 121, 135, 148, 148, 136, 119, 104, 118, 115, 126, 141, 135, 125, 149, 170, 170, 158, 133, 114,
	140, 145, 150, 178, 163, 172, 178, 199, 199, 184, 162, 146, 166, 171, 180, 193, 181, 183, 218, 230, 242, 209, 191,
	172, 194, 196, 196, 236, 235, 229, 243, 264, 272, 237, 211, 180, 201, 204, 188, 235, 227, 234, 264, 302, 293, 259,
	229, 203, 229, 242, 233, 267, 269, 270, 315, 364, 347, 312, 274, 237, 278, 284, 277, 317, 313, 318, 374, 413, 405,
	355, 306, 271, 306, 315, 301, 356, 348, 355, 422, 465, 467, 404, 347, 305, 336, 340, 318, 362, 348, 363, 435, 491,
	505, 404, 359, 310, 337, 360, 342, 406, 396, 420, 472, 548, 559, 463, 407, 362, 405, 417, 391, 419, 461, 472, 535,
	622, 606, 508, 461, 390, 432,
}

// TestPublishedModel: the likelihood of the parameters and initial states that ets() of R's package forecast reports
// for the airline passengers, ETS(M,Ad,M), gives its AIC, 1395.166 with 18 parameters.
func TestPublishedModel(t *testing.T) {
	m := &ETS{Error: Multiplicative, Trend: Damped, Season: Multiplicative, Period: 12, Alpha: 0.7096, Beta: 0.0204,
		Gamma: 1e-4, Phi: 0.98}
	begin := &state{l: 120.9939, b: 1.7705, s: []float64{
		0.9059, 0.8869, 1.011, 0.9804, 0.9786, 1.1105, 1.2318, 1.2203, 1.0592, 0.9217, 0.7993, 0.8944}}
	squares, logs, n := m.run(passengers, begin)
	if aic := 144*math.Log(squares) + 2*logs + 2*18; n != 144 || math.Abs(aic-1395.166) > 0.05 {
		t.Errorf("found the AIC %.3f of %d values, want 1395.166", aic, n)
	}
}

// TestComponentForm: forecasts are those of the textbook's component form of Holt and Winters' methods, with β = α β*
// (Hyndman and Athanasopoulos, "Forecasting: Principles and Practice", ch. 8):
//
//	l = α (y - s) + (1-α)(l + φ b)    b = β* (l - l') + (1-β*) φ b    s = γ* (y - l' - φ b') + (1-γ*) s
//
// and with y/s and y/(l' + φ b') for a multiplicative season.
func TestComponentForm(t *testing.T) {
	const alpha, star, gamma, period = 0.3, 0.2, 0.25, 4
	y := passengers[:40]
	for _, season := range []string{None, Additive, Multiplicative} {
		for _, phi := range []float64{1, 0.9} {
			m := &ETS{Error: Additive, Trend: Damped, Season: season, Period: period, Alpha: alpha,
				Beta: alpha * star, Gamma: gamma, Phi: phi}
			begin := &state{l: 100, b: 2, s: []float64{1.1, 0.9, 0.8, 1.2}}
			l, b, s := begin.l, begin.b, slices.Clone(begin.s)
			m.run(y, begin)
			for i, x := range y {
				q, k := l+phi*b, i%period
				was := l
				switch season {
				case None:
					l = alpha*x + (1-alpha)*q
				case Additive:
					l = alpha*(x-s[k]) + (1-alpha)*q
					s[k] = gamma*(x-q) + (1-gamma)*s[k]
				case Multiplicative:
					l = alpha*x/s[k] + (1-alpha)*q
					s[k] = gamma*x/q + (1-gamma)*s[k]
				}
				b = star*(l-was) + (1-star)*phi*b
			}
			got := make([]float64, 6)
			m.ahead(begin, got)
			slope := 0.0
			for h, x := range got {
				slope += math.Pow(phi, float64(h+1)) * b
				want := l + slope
				switch k := (len(y) + h) % period; season {
				case Additive:
					want += s[k]
				case Multiplicative:
					want *= s[k]
				}
				if math.Abs(x-want) > 1e-9*want {
					t.Errorf("season %s, φ %g, step %d: found %g, want %g", season, phi, h+1, x, want)
				}
			}
		}
	}
}

// TestFitETS: the kind that made a series is found, its parameters are close, and the passengers of a later year
// are forecast within a few percent. A missing row changes little.
func TestFitETS(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	truth := &ETS{Error: Additive, Trend: Additive, Season: Additive, Period: 6, Alpha: 0.4, Beta: 0.02, Gamma: 0.1,
		Phi: 1}
	st := &state{l: 100, b: 0.5, s: []float64{-9, 5, 8, 2, -6, 0}}
	var y []float64
	for range 400 {
		var next [1]float64
		truth.ahead(st, next[:])
		y = append(y, next[0]+rng.NormFloat64())
		truth.run(y[len(y)-1:], st)
	}
	m := FitETS([][]float64{y}, 6)
	if m.Trend == None || m.Season != Additive || math.Abs(m.Alpha-0.4) > 0.1 || m.Gamma > 0.25 {
		t.Errorf("found %s, %+v", m, m)
	}
	flat := make([]float64, 100)
	for i := range flat {
		flat[i] = 20 + rng.NormFloat64()
	}
	if m := FitETS([][]float64{flat, flat[:50]}, 1); m.Trend != None || m.Season != None || m.Alpha > 0.2 {
		t.Errorf("of noise: found %s, %+v", m, m)
	}
	m = FitETS([][]float64{passengers[:120]}, 12)
	holes := slices.Clone(passengers[:120])
	holes[70], holes[100] = math.NaN(), math.NaN()
	for _, past := range [][]float64{passengers[:120], holes} {
		got, off := make([]float64, 12), 0.0
		m.Forecast(past, got)
		for h, x := range got {
			off += math.Abs(x/passengers[120+h]-1) / 12
		}
		if m.Season != Multiplicative || off > 0.1 {
			t.Errorf("%s is off by %.1f %% in the mean", m, 100*off)
		}
	}
	if m := FitETS([][]float64{{1, 2}}, 12); m != nil {
		t.Errorf("of two values: found %s", m)
	}
}

// TestThetaIsDrift: without a season the Theta method is simple exponential smoothing with half the slope of the
// line through the data as drift (Hyndman and Billah, "Unmasking the Theta method", Int. J. Forecasting 19, 2003):
//
//	ŷ[n+h] = l[n] + b/2 (h - 1 + 1/α - (1-α)^n/α)
func TestThetaIsDrift(t *testing.T) {
	y, n := passengers[:50], 50.0
	m := &Theta{Alpha: 0.3, Period: 1}
	got := make([]float64, 5)
	m.Forecast(y, got)
	mean, top, below := 0.0, 0.0, 0.0
	for _, x := range y {
		mean += x / n
	}
	l := y[0]
	for i, x := range y {
		d := float64(i) - (n-1)/2
		top, below = top+d*(x-mean), below+d*d
		l += m.Alpha * (x - l)
	}
	for h, x := range got {
		want := l + top/below/2*(float64(h)+1/m.Alpha-math.Pow(1-m.Alpha, n)/m.Alpha)
		if math.Abs(x-want) > 1e-9*want {
			t.Errorf("step %d: found %g, want %g", h+1, x, want)
		}
	}
}

// TestFitTheta: a season is found where there is one, relative to positive data, and forecasts follow it.
func TestFitTheta(t *testing.T) {
	m := FitTheta([][]float64{passengers[:120]}, 12)
	got, off := make([]float64, 12), 0.0
	m.Forecast(passengers[:120], got)
	for h, x := range got {
		off += math.Abs(x/passengers[120+h]-1) / 12
	}
	if m.Period != 12 || !m.Relative || off > 0.11 {
		t.Errorf("found %+v, off by %.1f %%", m, 100*off)
	}
	rng := rand.New(rand.NewPCG(3, 5))
	noise := make([]float64, 200)
	for i := range noise {
		noise[i] = rng.NormFloat64()
	}
	if m := FitTheta([][]float64{noise}, 12); m.Period != 1 || m.Relative || m.Alpha > 0.2 {
		t.Errorf("of noise: found %+v", m)
	}
	if ok := m.Forecast([]float64{math.NaN()}, got); ok {
		t.Error("forecast from nothing")
	}
}

// TestSlowModelsStartFromMoreRows: a trend that a model hardly updates is that of the whole series, not of its first
// rows.
func TestSlowModelsStartFromMoreRows(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	y := make([]float64, 200)
	for i := range y {
		y[i] = 50 + 0.3*float64(i) + 5*rng.NormFloat64()
	}
	m := &ETS{Error: Additive, Trend: Additive, Season: None, Alpha: 1e-3, Beta: 1e-6, Phi: 1}
	var got [1]float64
	m.Forecast(y, got[:])
	if want := 50 + 0.3*200; math.Abs(got[0]-want) > 3 {
		t.Errorf("found %g, want about %g", got[0], want)
	}
}
