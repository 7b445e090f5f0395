package ssm

import (
	"math"
	"math/cmplx"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat/distuv"
	"pgregory.net/rapid"
)

// TestConvolutionsAgree checks that the sum, the Toeplitz matrix, the sum with signal and kernel exchanged, and the FFT
// give the same convolution.
func TestConvolutionsAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := drawRNG(t)
		u := normals(rng, rapid.IntRange(1, 40).Draw(t, "l"))
		kernel := normals(rng, rapid.IntRange(1, 50).Draw(t, "kernel"))
		want := Convolve(kernel, u)
		near(t, "Toeplitz", mulVec(Toeplitz(kernel, len(u)), u), want, 1e-12)
		whole := ConvolveFull(kernel, u)
		near(t, "cut", whole[:len(u)], want, 1e-12)
		near(t, "exchanged", ConvolveFull(u, kernel), whole, 1e-12)
		near(t, "FFT", ConvolveFFT(kernel, u), whole, 1e-12)
		if l := len(u); len(kernel) == l {
			near(t, "exchanged and cut", Convolve(u, kernel), want, 1e-12)
		}
		// A convolution both ways is two causal ones, one of the reversed signal with a delay of one step.
		other := normals(rng, rapid.IntRange(0, 50).Draw(t, "other"))
		back := slices.Clone(u)
		slices.Reverse(back)
		late := append([]float64{0}, Convolve(other, back)[:len(u)-1]...)
		slices.Reverse(late)
		near(t, "both ways", ConvolveBothWays(kernel, other, u), floats.AddTo(late, late, want), 1e-12)
		// Full is causal with the signal followed by zeros.
		near(t, "padded", Convolve(kernel, append(slices.Clone(u), make([]float64, len(kernel)-1)...)), whole, 1e-12)
	})
	if y := ConvolveFull(nil, []float64{1}); y != nil {
		t.Errorf("convolution with nothing: %v", y)
	}
	if y := ConvolveFFT([]float64{1}, nil); y != nil {
		t.Errorf("convolution with nothing: %v", y)
	}
}

// TestSumsOfDiceAreConvolutions checks sums of dice: 7 comes in 6 of 36 throws of two dice; with loaded dice the
// density is the sum over all pairs; and the sum of many dice is normal.
func TestSumsOfDiceAreConvolutions(t *testing.T) {
	fair := slices.Repeat([]float64{1.0 / 6}, 6) // index i is i+1 pips; the index of a sum of d dice is the sum less d
	two := ConvolvePower(fair, 2)
	for i, p := range two {
		sum := i + 2
		if want := float64(6-abs(sum-7)) / 36; math.Abs(p-want) > 1e-15 {
			t.Errorf("P(%d) = %v, want %v", sum, p, want)
		}
	}
	loaded := []float64{0.1, 0.1, 0.1, 0.1, 0.1, 0.5}
	want := make([]float64, 11)
	for i, p := range fair {
		for j, q := range loaded {
			want[i+j] += p * q
		}
	}
	near(t, "fair and loaded", ConvolveFFT(fair, loaded), want, 1e-15)
	// For any face of the loaded die, one face of the other gives the sum.
	if got := ConvolveFull(fair, loaded)[5]; math.Abs(got-1.0/6) > 1e-15 {
		t.Errorf("P(7) with a loaded die = %v, want 1/6", got)
	}

	mean, variance := 0.0, 0.0 // of one loaded die, as an index
	for i, p := range loaded {
		mean += float64(i) * p
		variance += float64(i*i) * p
	}
	variance -= mean * mean
	distance := func(n int) float64 { // the largest difference of the distributions of n dice and of the normal one
		normal := distuv.Normal{Mu: float64(n) * mean, Sigma: math.Sqrt(float64(n) * variance)}
		var cdf, worst float64
		for i, p := range ConvolvePower(loaded, n) {
			cdf += p
			worst = max(worst, math.Abs(cdf-normal.CDF(float64(i)+0.5)))
		}
		return worst
	}
	for n := 4; n <= 256; n *= 4 {
		if far, near := distance(n), distance(4*n); near > 0.6*far || near > 1/math.Sqrt(float64(n)) {
			t.Errorf("%d dice are %v from normal, %d dice %v; want half, as 1/√n falls", n, far, 4*n, near)
		}
	}
	near(t, "no dice", ConvolveFull(ConvolvePower(fair, 0), two), two, 0)
}

func abs(i int) int { return max(i, -i) }

// TestDeltaIsIdentity checks that Delta is the identity and a shifted delta a delay, to the bit.
func TestDeltaIsIdentity(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := drawRNG(t)
		l := rapid.IntRange(1, 30).Draw(t, "l")
		k := rapid.IntRange(0, l-1).Draw(t, "k")
		u := normals(rng, l)
		near(t, "δ * u", Convolve(Delta(0, l), u), u, 0)
		near(t, "u * δ", Convolve(u, Delta(0, l)), u, 0)
		near(t, "delayed", Convolve(Delta(k, l), u), append(make([]float64, k), u[:l-k]...), 0)
	})
}

// TestFFTIsDFT compares FFT with DFT for lengths from 1 to 4096, at three frequencies each, and checks that the inverse
// undoes it.
func TestFFTIsDFT(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	for n := 1; n <= 4096; n++ {
		if n > 200 && n%37 != 0 && n&(n-1) != 0 { // of the long ones, every 37th and the powers of two
			continue
		}
		x := complexNormals(rng, n)
		y := FFT(x)
		tol := 1e-14 * float64(n) // √n for the size of y, √n for its rounding errors
		for _, k := range []int{0, 1 % n, rng.IntN(n)} {
			var want complex128
			for j, v := range x {
				want += v * rootOfUnity(j*k%n, n)
			}
			if !(cmplx.Abs(y[k]-want) < tol) {
				t.Fatalf("n = %d: X[%d] = %v, want %v", n, k, y[k], want)
			}
		}
		near(t, "inverse", ReIm(InverseFFT(y)), ReIm(x), 1e-12)
	}
	for n := range 40 {
		x := complexNormals(rng, n)
		near(t, "FFT", ReIm(FFT(x)), ReIm(DFT(x)), 1e-13)
		near(t, "Bluestein", ReIm(Bluestein(x)), ReIm(DFT(x)), 1e-13)
		near(t, "InverseDFT", ReIm(InverseDFT(DFT(x))), ReIm(x), 1e-13)
	}
}

// TestConvolutionTheorem checks that the product of padded transforms is the linear convolution, and that of unpadded
// ones the circular convolution.
func TestConvolutionTheorem(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := drawRNG(t)
		n := rapid.IntRange(1, 40).Draw(t, "n")
		a, b := normals(rng, n), normals(rng, n)
		x, y := DFT(padded(a, n)), DFT(padded(b, n))
		for k := range x {
			x[k] *= y[k]
		}
		circular := ConvolveCircular(a, b)
		near(t, "unpadded", realParts(InverseDFT(x)), circular, 1e-12)
		whole := ConvolveFull(a, b)
		near(t, "padded", ConvolveFFT(a, b), whole, 1e-12)
		wrapped := make([]float64, n) // without padding the end wraps around to the beginning
		for k, v := range whole {
			wrapped[k%n] += v
		}
		near(t, "wrapped", wrapped, circular, 1e-12)
	})
}

func TestRealTransform(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 60).Draw(t, "n")
		x := normals(drawRNG(t), n)
		whole := DFT(padded(x, n))
		got := RealFFT(x)
		near(t, "half", ReIm(got), ReIm(whole[:min(n, n/2+1)]), 1e-12)
		for k := 1; k < n; k++ {
			near(t, "conjugates", ReIm(whole[k:k+1]), ReIm(conjugates(whole[n-k:n-k+1])), 1e-11)
		}
	})
}

// TestTransformTimeIsNearlyLinear checks that sixteen times the length takes about 21 times as long, not 256, and that
// the real transform takes about half as long as the complex one. A busy machine can only make times too long: the
// least of several is compared, and a few attempts are allowed.
func TestTransformTimeIsNearlyLinear(t *testing.T) {
	x := make([]float64, 1<<14)
	for i := range x {
		x[i] = math.Sin(float64(i * i))
	}
	short, long := padded(x[:1<<10], 1<<10), padded(x, 1<<14)
	var tShort, tLong, tReal = time.Hour, time.Hour, time.Hour
	for range 40 {
		tShort = min(tShort, timeOf(func() { FFT(short) }))
		tLong = min(tLong, timeOf(func() { FFT(long) }))
		tReal = min(tReal, timeOf(func() { RealFFT(x) }))
		if tLong < 60*tShort && tReal < tLong*9/10 {
			return
		}
	}
	t.Errorf("FFT of 2^10 takes %v, of 2^14 %v, of 2^14 real numbers %v", tShort, tLong, tReal)
}

func timeOf(f func()) time.Duration {
	start := time.Now()
	f()
	return time.Since(start)
}

// TestTransformsOfSineAndBox checks that a sine of whole periods has two lines. If it is cut to an interval, each line
// becomes the transform of a box around it. The transform of a box is sin(πfw)/(πf).
func TestTransformsOfSineAndBox(t *testing.T) {
	const n, periods = 48, 5
	u := make([]float64, n)
	for k := range u {
		u[k] = math.Sin(2 * math.Pi * periods * float64(k) / n)
	}
	want := make([]complex128, n)
	want[periods], want[n-periods] = -n/2*1i, n/2*1i
	near(t, "sine", ReIm(DFT(padded(u, n))), ReIm(want), 1e-13)

	one := func(float64) float64 { return 1 }
	for _, width := range []float64{0.5, 1, 4} {
		tone := func(t float64) float64 { return math.Sin(2 * math.Pi * 1.5 * t) }
		for f := -6.0; f <= 6; f += 0.125 {
			box := FourierTransform(one, -width/2, width/2, f)
			near(t, "box", ReIm([]complex128{box}), []float64{BoxTransform(width, f), 0}, 1e-12)
			sine := FourierTransform(tone, -width/2, width/2, f)
			near(t, "truncated sine", ReIm([]complex128{sine}), ReIm([]complex128{SineTransform(1.5, width, f)}), 1e-12)
		}
		for k := 1; k < 5; k++ {
			if z := BoxTransform(width, float64(k)/width); math.Abs(z) > 1e-15 {
				t.Errorf("box of width %v at %d/width: %v, want a zero", width, k, z)
			}
		}
		// With longer intervals the transform tends to lines: the peak grows with the width, and other values stay
		// bounded.
		if width == 4 {
			peak, beside := cmplx.Abs(SineTransform(1.5, width, 1.5)), cmplx.Abs(SineTransform(1.5, width, 1.5+1/width))
			if math.Abs(peak-width/2) > 0.1 || beside > 1e-12 {
				t.Errorf("truncated sine: %v at its tone and %v one over the width beside it, want %v and 0",
					peak, beside, width/2)
			}
		}
	}

	// Parseval: the squares of a signal and of its transform have the same sum, up to the factor n.
	rng := rand.New(rand.NewPCG(6, 6))
	x := complexNormals(rng, 37)
	energy := func(z []complex128) float64 { return floats.Dot(ReIm(z), ReIm(z)) }
	near(t, "Parseval", []float64{energy(DFT(x)) / 37}, []float64{energy(x)}, 1e-12)
}
