// Package classic contains statistical models with which networks are compared: logistic and ridge regression, boosted
// trees, and the simple features of sequences that they use. All are deterministic.
package classic

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/dsp/fourier"
)

// spectralBands is the number of bands of equal width on a logarithmic scale whose energies are features.
const spectralBands = 4

// wholeNames lists the features of each channel of a whole sequence.
var wholeNames = []string{"mean", "deviation", "minimum", "maximum", "last", "slope", "quantile 0.25", "median",
	"quantile 0.75", "band 1", "band 2", "band 3", "band 4"}

// Whole returns the features of a sequence of rows of channels. For each channel these are its mean, deviation,
// minimum, maximum, last value, slope of the least-squares line from its first row (0) to its last (1), quartiles, and
// the logarithms of its energy in bands of the spectrum. The last feature is the logarithm of the number of rows.
func Whole(rows []float32, channels int) []float64 {
	n := len(rows) / channels
	out := make([]float64, 0, WholeWidth(channels))
	x := make([]float64, n)
	size := 2 // a power of 2: other lengths are slower, primes quadratic
	for size < n {
		size *= 2
	}
	fft := fourier.NewFFT(size)
	padded, bins := make([]float64, size), make([]complex128, size/2+1)
	for c := range channels {
		sum, square, line := 0.0, 0.0, 0.0
		for t := range x {
			x[t] = float64(rows[t*channels+c])
			sum += x[t]
		}
		mean := sum / float64(n)
		for t, v := range x {
			padded[t] = v - mean
			square += (v - mean) * (v - mean)
			line += (v - mean) * float64(t)
		}
		slope := 0.0
		if n > 1 { // Σ (v - v̄)(t - t̄) / Σ (t - t̄)², which is n(n²-1)/12, over n-1 steps
			slope = line * 12 / (float64(n) * float64(n*n-1)) * float64(n-1)
		}
		last := x[n-1]
		slices.Sort(x)
		out = append(out, mean, math.Sqrt(square/float64(n)), x[0], x[n-1], last, slope)
		for _, q := range []float64{0.25, 0.5, 0.75} {
			out = append(out, x[int(q*float64(n-1))])
		}
		fft.Coefficients(bins, padded)
		bands := [spectralBands]float64{}
		for k := 1; k < len(bins); k++ { // by frequency relative to half the rate: (1/2, 1], (1/4, 1/2] and so on
			band := min(spectralBands-1, int(-math.Log2(float64(k)/float64(len(bins)-1))))
			bands[band] += real(bins[k])*real(bins[k]) + imag(bins[k])*imag(bins[k])
		}
		for _, e := range bands {
			out = append(out, math.Log(1e-6+e/float64(n*size)))
		}
	}
	return append(out, math.Log(float64(n)))
}

// WholeWidth returns the number of features of a whole sequence.
func WholeWidth(channels int) int { return channels*len(wholeNames) + 1 }

// Recent is the number of rows, up to a row, from which its features are computed.
const Recent = 64

// spans lists the numbers of recent rows over which features are computed.
var spans = []int{4, 16, Recent}

// RecentWidth returns the number of features of a row.
func RecentWidth(channels int) int { return channels * (2 + 4*len(spans)) }

// OfRow appends the features of row t, from it and earlier rows: for each channel its value, its change, and its mean,
// deviation, minimum and maximum over recent rows.
func OfRow(dst []float64, rows []float32, channels, t int) []float64 {
	for c := range channels {
		now := float64(rows[t*channels+c])
		change := 0.0
		if t > 0 {
			change = now - float64(rows[(t-1)*channels+c])
		}
		dst = append(dst, now, change)
		sum, square, low, high, n := 0.0, 0.0, now, now, 0
		for _, span := range spans { // each continues the previous one
			for ; n < span && n <= t; n++ {
				x := float64(rows[(t-n)*channels+c])
				sum, square, low, high = sum+x, square+x*x, min(low, x), max(high, x)
			}
			mean := sum / float64(n)
			dst = append(dst, mean, math.Sqrt(max(0, square/float64(n)-mean*mean)), low, high)
		}
	}
	return dst
}

// Scale holds the mean and the deviation of each feature over the training examples.
type Scale struct {
	Mean      []float64 `json:"mean"`
	Deviation []float64 `json:"deviation"`
}

// ScaleOf returns the scale of examples of width features.
func ScaleOf(x []float64, width int) Scale {
	s := Scale{Mean: make([]float64, width), Deviation: make([]float64, width)}
	n := float64(len(x) / width)
	for i, v := range x {
		s.Mean[i%width] += v / n
	}
	for i, v := range x {
		d := v - s.Mean[i%width]
		s.Deviation[i%width] += d * d / n
	}
	for i, v := range s.Deviation {
		if s.Deviation[i] = math.Sqrt(v); !(s.Deviation[i] > 1e-9*(1+math.Abs(s.Mean[i]))) {
			s.Deviation[i] = 1
		}
	}
	return s
}

// mostScaled is the maximum magnitude of a scaled feature, so that one far from those of training does not decide
// alone.
const mostScaled = 8

// Apply scales examples in place.
func (s *Scale) Apply(x []float64) {
	for i, v := range x {
		k := i % len(s.Mean)
		x[i] = max(-mostScaled, min(mostScaled, (v-s.Mean[k])/s.Deviation[k]))
	}
}

// check returns an error unless the scale is for width features.
func (s *Scale) check(width int) error {
	if len(s.Mean) != width || len(s.Deviation) != width || slices.Contains(s.Deviation, 0) {
		return fmt.Errorf("found the scale of %d features, want %d with deviations other than 0", len(s.Mean), width)
	}
	return nil
}
