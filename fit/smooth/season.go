package smooth

import "math"

// trim returns y without missing values at the start.
func trim(y []float64) []float64 {
	for len(y) > 0 && y[0] != y[0] {
		y = y[1:]
	}
	return y
}

// prepared returns the series that have values, each from its first value on.
func prepared(series [][]float64) (all [][]float64) {
	for _, y := range series {
		if y = trim(y); len(y) > 0 {
			all = append(all, y)
		}
	}
	return all
}

// filled returns y with missing values interpolated linearly. y must start with a value.
func filled(y []float64) []float64 {
	x := append([]float64(nil), y...)
	last := 0
	for t := range x {
		if x[t] != x[t] {
			continue
		}
		for k := last + 1; k < t; k++ {
			x[k] = x[last] + (x[t]-x[last])*float64(k-last)/float64(t-last)
		}
		last = t
	}
	for k := last + 1; k < len(x); k++ {
		x[k] = x[last]
	}
	return x
}

// seasonOf returns the season of y by classical decomposition: the mean difference of values from a centered moving
// average over one period, or their mean ratio to it, by row of the season. If there are less than two whole periods,
// there is no season.
func seasonOf(y []float64, period int, relative bool) []float64 {
	s, n := make([]float64, period), make([]float64, period)
	neutral := float64(0)
	if relative {
		neutral = 1
	}
	if x := filled(y); len(x) >= 2*period {
		half := period / 2
		for t := half; t+half < len(x); t++ {
			sum := 0.0
			for k := -half; k <= half; k++ {
				w := 1.0
				if period%2 == 0 && (k == -half || k == half) {
					w = 0.5
				}
				sum += w * x[t+k]
			}
			switch trend := sum / float64(period); {
			case y[t] != y[t] || relative && trend <= 0:
			case relative:
				s[t%period] += x[t] / trend
				n[t%period]++
			default:
				s[t%period] += x[t] - trend
				n[t%period]++
			}
		}
	}
	mean := 0.0
	for i := range s {
		if n[i] > 0 {
			s[i] /= n[i]
		} else {
			s[i] = neutral
		}
		mean += s[i] / float64(period)
	}
	for i := range s {
		if relative && mean > 0 {
			s[i] = max(s[i]/mean, 1e-3)
		} else {
			s[i] -= mean
		}
	}
	return s
}

// deseason returns y without its season.
func deseason(y, s []float64, relative bool) []float64 {
	x := make([]float64, len(y))
	for t := range y {
		if relative {
			x[t] = y[t] / s[t%len(s)]
		} else {
			x[t] = y[t] - s[t%len(s)]
		}
	}
	return x
}

// line returns the least-squares line a + b t through x[t-1]. Without a slope it is the mean.
func line(x []float64, slope bool) (a, b float64) {
	var n, t1, x1, tt, tx float64
	for i, v := range x {
		if v == v {
			t := float64(i + 1)
			n++
			t1 += t
			x1 += v
			tt += t * t
			tx += t * v
		}
	}
	if d := n*tt - t1*t1; slope && d > 0 {
		b = (n*tx - t1*x1) / d
	}
	return (x1 - b*t1) / math.Max(1, n), b
}
