package kernel

// A signal that is a sum of modes e^(λt) with |Im 2λ| ≤ 1.35 and |Re 2λ| ≤ 0.05 is determined by its values at the even
// positions. An odd position is a sum of 8 values on each side with fixed weights,
//
//	x[2i+1] = Σ_{p<8} halfband[p]·(x[2(i-p)] + x[2(i+p+1)]) up to 8e-8 of Σ |e^(λt)|.
//
// The weights were found by least squares over the modes. A halved signal starts early enough to contain all values
// that the filters need: position 0 of a signal halved h times lies before(h)·2^h positions before the first position.
var halfband = [halfbandTaps / 2]float32{
	0.6217591166496277, -0.17134001851081848, 0.0697440430521965, -0.027280863374471664,
	0.00910338293761015, -0.0023728490341454744, 0.00042718020267784595, -4.000289845862426e-05,
}

const halfbandTaps = 16

// before returns the number of positions of a signal halved h times that lie before the first one: half of before(h-1),
// rounded down, and half of the taps.
func before(h int) int { return halfbandTaps - halfbandTaps>>h }

// positions returns the number of positions of a signal of length l halved h times.
func positions(l, h int) int {
	for range h {
		l = ceil(l, 2) + halfbandTaps
	}
	return l
}

// upsample sets y to the signal whose halved form is x, of length positions(len(y), 1):
//
//	y[2i] = x[i+8],  y[2i+1] = Σ_p halfband[p]·(x[i+8-p] + x[i+9+p]).
func upsample(y, x []float32) {
	n := len(y) / 2
	x = x[:positions(len(y), 1)]
	if cpu.has(upsampleRowCode) && n >= ModeLanes {
		vecUpsampleRow(n, &y[0], &x[0])
	} else {
		for i := range n {
			y[2*i], y[2*i+1] = x[i+halfbandTaps/2], halfbandSum(x[i+1:])
		}
	}
	if len(y)%2 == 1 {
		y[2*n] = x[n+halfbandTaps/2]
	}
}

// downsample is the transpose of upsample: it sets x, of length positions(len(y), 1), to
//
//	x[i] = y[2(i-8)] + Σ_p halfband[p]·(y[2(i-8+p)+1] + y[2(i-9-p)+1]),
//
// where y is 0 outside its range. odd is scratch with room for half of y and 32 more.
func downsample(x, y, odd []float32) {
	const half = halfbandTaps / 2
	n := len(y) / 2
	clear(odd[:halfbandTaps])
	clear(odd[halfbandTaps+n:])
	clear(x[:half])
	clear(x[half+n:])
	split(x[half:][:n], odd[halfbandTaps:][:n], y)
	if len(y)%2 == 1 {
		x[half+n] = y[2*n]
	}
	odd = odd[:len(x)+halfbandTaps-1]
	if cpu.has(halfbandAddCode) {
		vecHalfbandAdd(len(x), &x[0], &odd[0])
		return
	}
	for i := range x {
		x[i] += halfbandSum(odd[i:])
	}
}

// halfbandSum returns Σ_p halfband[p]·(x[7-p] + x[8+p]).
func halfbandSum(x []float32) (s float32) {
	x = x[:halfbandTaps]
	for p, f := range halfband {
		s += float32(f * (x[7-p] + x[8+p]))
	}
	return s
}

// split sets even to x[0], x[2] and so on, and odd, which has the same length, to x[1], x[3] and so on.
func split(even, odd, x []float32) {
	n := len(even)
	if x = x[:2*n]; cpu.has(deinterleaveCode) && n >= ModeLanes {
		vecDeinterleave(n, &even[0], &odd[0], &x[0])
		return
	}
	for i := range even {
		even[i], odd[i] = x[2*i], x[2*i+1]
	}
}
