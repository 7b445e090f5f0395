package table

import (
	"fmt"
	"math"
	"slices"
)

// mostRatio is the maximum ratio of two rates between which recordings are resampled.
const mostRatio = 256

// mostTaps limits the memory of a filter.
const mostTaps = 1 << 20

// filter resamples by up/down, a fraction in lowest terms. Let c = min(1, up/down) be the part of the frequencies that
// both rates can represent. The impulse response is
//
//	h(t) = sinc(0.92 c t) w(t c/32)    t in samples of the input
//
// with a Blackman window w on -1 to 1, scaled so that a constant signal is unchanged. Above c times the highest
// frequency of the input, less than a thousandth passes.
type filter struct {
	up, down int
	half     int         // number of samples on each side
	taps     [][]float64 // taps by phase: the fraction of a sample by which an output follows an input
}

// newFilter returns the filter that resamples from one rate to another.
func newFilter(from, to int) (*filter, error) {
	if max(from, to) > mostRatio*min(from, to) {
		return nil, fmt.Errorf("found a recording at %d Hz beside others at %d Hz, want rates that are more "+
			"alike", from, to)
	}
	a, b := from, to
	for b > 0 {
		a, b = b, a%b
	}
	f := &filter{up: to / a, down: from / a}
	c := min(1, float64(f.up)/float64(f.down))
	f.half = int(math.Ceil(32 / c))
	f.taps = make([][]float64, max(1, min(f.up, mostTaps/(2*f.half))))
	for p := range f.taps {
		sum, taps := 0.0, make([]float64, 2*f.half)
		for i := range taps {
			t := float64(i-f.half+1) - float64(p)/float64(len(f.taps))
			if u := t * c / 32; math.Abs(u) < 1 {
				taps[i] = 0.42 + 0.5*math.Cos(math.Pi*u) + 0.08*math.Cos(2*math.Pi*u)
			}
			if x := math.Pi * 0.92 * c * t; x != 0 {
				taps[i] *= math.Sin(x) / x
			}
			sum += taps[i]
		}
		for i := range taps {
			taps[i] /= sum
		}
		f.taps[p] = taps
	}
	return f, nil
}

// resampler applies a filter to a stream of samples. It adds no delay. Samples beyond both ends count as 0.
type resampler struct {
	*filter
	x    []float64 // most recent samples
	in   int       // number of samples so far
	outs int
}

// next returns the next sample at the new rate, if there are enough input samples for it. ended reports that all input
// has been pushed.
func (r *resampler) next(ended bool) (y float64, ok bool) {
	place := r.outs * r.down
	at, part := place/r.up, place%r.up
	phase := (part*len(r.taps) + r.up/2) / r.up
	if ended && at >= r.in || !ended && at+1+r.half >= r.in {
		return 0, false
	}
	if phase == len(r.taps) {
		at, phase = at+1, 0
	}
	first := r.in - len(r.x)
	for i, tap := range r.taps[phase] {
		if k := at + i - r.half + 1 - first; k >= 0 && k < len(r.x) {
			y += tap * r.x[k]
		}
	}
	r.outs++
	return y, true
}

// push adds a sample.
func (r *resampler) push(x float64) {
	if len(r.x) > 8*r.half+2*r.down/r.up { // far more than needed
		r.x = slices.Delete(r.x, 0, max(0, r.outs*r.down/r.up-r.half-(r.in-len(r.x))))
	}
	r.x, r.in = append(r.x, x), r.in+1
}
