package fit

import (
	"math"

	"gonum.org/v1/gonum/dsp/fourier"

	"github.com/hippo-ssm/hippo/table"
)

// Limits of the data over which the correlation is computed.
const (
	correlationRows   = 1 << 17 // in total
	correlationSeries = 16      // numbers in a row: columns, or classes of categories
	mostLag           = 1 << 13
)

// correlation returns the autocorrelation of columns within the sequences of a part, by lag. It is computed over pairs
// of rows that both have a value:
//
//	r[k] = (1/n[k]) Σ_t x[t] x[t+k] / ((1/n[0]) Σ_t x[t]²)
//
// x is a column minus its mean over the sequence, in units of its deviation there. A category becomes one column of
// zeros and ones for each class. If changes is true, x consists of the differences between successive rows. The lags go
// up to half of the longest sequence. r is nil if no column changes. n is the number of numbers used.
func (f *frame) correlation(parts []segment, columns []int, changes bool) (r []float64, n float64) {
	longest, rows := 0, 0
	for i, s := range parts {
		if rows += s.hi - s.lo; rows > correlationRows && i > 0 {
			parts = parts[:i]
			break
		}
		longest = max(longest, min(s.hi-s.lo, correlationRows))
	}
	lags := min(longest/2, mostLag) + 1
	sums, pairs := make([]float64, lags), make([]float64, lags)
	x := make([]float64, longest)
	for _, s := range parts {
		x := x[:min(s.hi-s.lo, correlationRows)]
		count := 0
		for _, i := range columns {
			classes := 1
			if f.plan.Columns[i].Kind == table.Category {
				classes = len(f.plan.Columns[i].Classes)
			}
			for class := range classes {
				if count++; count > correlationSeries {
					break
				}
				for t := range x {
					x[t] = float64(f.rows.row(s.lo + t)[i])
					if f.plan.Columns[i].Kind == table.Category && x[t] == x[t] {
						x[t] = float64(bit(int(x[t]) == class))
					}
				}
				if changes {
					differences(x)
				}
				addProducts(x, sums, pairs)
			}
		}
		f.rows.release(s.lo, s.lo+len(x))
	}
	if pairs[0] == 0 {
		return nil, 0
	}
	n = pairs[0]
	scale := pairs[0] / sums[0]
	for k := range sums {
		sums[k] *= scale / max(1, pairs[k])
	}
	return sums, n
}

// differences replaces each number by its difference from the previous one.
func differences(x []float64) {
	for t := len(x) - 1; t > 0; t-- {
		x[t] -= x[t-1]
	}
	if len(x) > 0 {
		x[0] = math.NaN()
	}
}

// addProducts adds Σ_t x[t] x[t+k] for each lag k to sums, and the number of pairs of numbers to pairs. It first
// standardizes x. If x is constant, it adds nothing. NaN means a missing number.
func addProducts(x, sums, pairs []float64) {
	n, mean, square := 0.0, 0.0, 0.0
	for _, v := range x {
		if v == v {
			n++
			delta := v - mean
			mean += delta / n
			square += delta * (v - mean)
		}
	}
	deviation := math.Sqrt(square / n) // NaN if there are no numbers
	if !(deviation > 1e-9*max(1e-9, math.Abs(mean))) {
		return
	}
	size := 1
	for size < len(x)+len(sums) {
		size *= 2
	}
	values, there := make([]float64, size), make([]float64, size)
	for t, v := range x {
		if v == v {
			values[t], there[t] = (v-mean)/deviation, 1
		}
	}
	fft := fourier.NewFFT(size)
	for _, one := range []struct{ of, to []float64 }{{values, sums}, {there, pairs}} {
		y := fft.Coefficients(nil, one.of)
		for i, z := range y {
			y[i] = complex(real(z)*real(z)+imag(z)*imag(z), 0)
		}
		for k, v := range fft.Sequence(one.of, y)[:len(one.to)] {
			one.to[k] += v / float64(size)
		}
	}
}

// A peak of the correlation of n numbers must exceed the numbers on both sides of it by leastProminence +
// noiseProminence/√n. Correlations of noise have the deviation 1/√n, and the highest and the lowest are several
// deviations apart.
const (
	leastProminence = 0.03
	noiseProminence = 5
)

// periods returns the lags at which data repeats, in ascending order. It takes the first peak of the correlation that
// also occurs at twice its lag. Then it does the same with the correlation at the peaks: for hourly data this finds a
// day, and then a week of days.
func periods(r []float64, n float64) (found []int) {
	least := leastProminence + noiseProminence/math.Sqrt(max(1, n))
	at := make([]int, len(r))
	for k := range at {
		at[k] = k
	}
	for len(at) > 2 {
		tops := peaks(r, at, least)
		first := -1
		for i, k := range tops {
			for _, later := range tops[i+1:] {
				if math.Abs(float64(later-2*k)) <= max(1, 0.03*float64(k)) {
					first = k
				}
			}
			if first > 0 {
				break
			}
		}
		if first < 0 {
			break
		}
		found = append(found, first)
		at = append([]int{0}, tops...)
	}
	return found
}

// peaks returns the lags among at whose correlation is higher than at their neighbors. It must exceed by least the
// higher of the two valleys between the peak and a higher peak or the end.
func peaks(r []float64, at []int, least float64) (tops []int) {
	for i := 1; i+1 < len(at); i++ {
		top := r[at[i]]
		if !(top > r[at[i-1]] && top >= r[at[i+1]]) {
			continue
		}
		before, behind := top, top
		for j := i - 1; j >= 0 && r[at[j]] <= top; j-- {
			before = min(before, r[at[j]])
		}
		for j := i + 1; j < len(at) && r[at[j]] <= top; j++ {
			behind = min(behind, r[at[j]])
		}
		if top-max(before, behind) >= least {
			tops = append(tops, at[i])
		}
	}
	return tops
}

// fades returns the first lag at which the correlation is below 1/e, 0 if there is none.
func fades(r []float64) int {
	for k, x := range r {
		if x < 1/math.E {
			return k
		}
	}
	return 0
}
