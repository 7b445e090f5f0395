package ssm

import (
	"math"
	"math/cmplx"
	"math/rand/v2"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// TestWhatIsRefused checks that values just outside a bound are errors that say so, and that values just inside are
// not.
func TestWhatIsRefused(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	one, b := mat.NewDense(1, 1, []float64{-1}), []float64{1}
	sampled := func(a, b, dt float64, m Method) error {
		_, _, err := Discretize(mat.NewDense(1, 1, []float64{a}), []float64{b}, dt, m)
		return err
	}
	weighed := func(alpha float64) error {
		_, _, err := GeneralizedBilinear(one, b, 0.1, alpha)
		return err
	}
	belief := Gaussian{Mean: []float64{0}, Cov: mat.NewSymDense(1, []float64{1})}
	moved := func(b *mat.Dense, u ...float64) error {
		_, _, err := LinearMap(mat.NewDense(2, 1, nil), b)(belief, u)
		return err
	}
	seen := func(rows, cols, n int) error {
		y := Gaussian{Mean: make([]float64, n), Cov: mat.NewSymDense(1, []float64{1})}
		_, _, _, err := Condition(belief, y, mat.NewDense(rows, cols, nil), []float64{0})
		return err
	}
	for name, c := range map[string]struct {
		err  error
		want string // part of the error, "" for none
	}{
		"method below":        {sampled(-1, 1, 1, -1), "unknown method Method(-1)"},
		"method above":        {sampled(-1, 1, 1, Method(len(methodNames))), "unknown method Method(4)"},
		"alpha below":         {weighed(-0.01), "alpha is -0.01"},
		"alpha 0":             {weighed(0), ""},
		"alpha 1":             {weighed(1), ""},
		"alpha above":         {weighed(1.01), "alpha is 1.01"},
		"large A, small dt":   {sampled(-1e300, 1, 1e-300, Bilinear), ""},
		"large dt A":          {sampled(-1e300, 1, 1e10, Bilinear), "dt A has norm +Inf"},
		"large B, small dt":   {sampled(-1, 1e300, 1e-10, Bilinear), ""},
		"large dt B":          {sampled(-1, 1e300, 1e10, Bilinear), "dt B[0] is +Inf"},
		"large negative dt B": {sampled(-1, -1e300, 1e10, Bilinear), "dt B[0] is -Inf"},
		"input map of rows":   {moved(mat.NewDense(1, 1, nil), 1), "B is (1, 1), want (2, 1)"},
		"input map of inputs": {moved(mat.NewDense(2, 2, nil), 1), "B is (2, 2), want (2, 1)"},
		"input map":           {moved(mat.NewDense(2, 1, nil), 1), ""},
		"cross of states":     {seen(2, 1, 1), "condition a state of 1 on 1 numbers"},
		"cross of numbers":    {seen(1, 2, 1), "condition a state of 1 on 1 numbers"},
		"numbers":             {seen(1, 1, 2), "condition a state of 1 on 1 numbers: 2 are expected"},
		"condition":           {seen(1, 1, 1), ""},
	} {
		if c.want == "" && c.err != nil || c.want != "" && (c.err == nil || !strings.Contains(c.err.Error(), c.want)) {
			t.Errorf("%s: found the error %v, want %q", name, c.err, c.want)
		}
	}
	for _, shape := range [][2]int{{2, 3}, {3, 2}} {
		if _, err := Poles(mat.NewDense(shape[0], shape[1], nil)); err == nil {
			t.Errorf("poles of a matrix %v: no error", shape)
		}
	}
	if _, err := Poles(&mat.Dense{}); err == nil {
		t.Error("poles of an empty matrix: no error")
	}
	if got := Method(len(methodNames)).String() + Method(-1).String(); got != "Method(4)Method(-1)" {
		t.Errorf("unknown methods are called %s", got)
	}
	if s, err := H3Diagonal(rng, 4, 0.1, 0.1); err != nil || math.Abs(s.Dt-0.1) > 1e-15 {
		t.Errorf("equal bounds of dt: %v", err)
	}
	if _, err := H3Diagonal(rng, 4, 0, 0.1); err == nil {
		t.Error("a dt of 0 is no error")
	}
	if s, err := H3Shift(rng, 1); err != nil || len(s.B) != 1 || s.B[0] != 1 || math.Abs(s.C[0]) > 1 {
		t.Errorf("a shift of one place: %v, %v", s, err)
	}
	if _, _, err := DiagonalInit("lin", 0, ConventionH3); err == nil {
		t.Error("no modes are no error")
	}
	q := mat.NewSymDense(2, []float64{1, 0, 0, 1})
	k := &Kalman{Move: LinearMap(one, nil), See: LinearMap(one, nil), Q: q, R: belief.Cov}
	if _, err := k.Filter(belief, nil, [][]float64{{1}}); err == nil || !strings.Contains(err.Error(), "and Q of 2") {
		t.Errorf("Q of another size: %v", err)
	}
}

// TestSmallSizes checks series and matrices of one, two and three terms, computed by hand.
func TestSmallSizes(t *testing.T) {
	cos, sin := math.Sqrt2*math.Cos(2*math.Pi*0.3), math.Sqrt2*math.Sin(2*math.Pi*0.3)
	for n, want := range map[int][]float64{1: {1}, 2: {1, 0}, 3: {1, 0, cos}, 4: {1, 0, cos, sin}} {
		near(t, "Fourier series of the state", FourierHiPPO(n, 0.3), want, 1e-15)
	}
	r := math.Sqrt2
	a, b := FouTDecay(3)
	near(t, "FouTDecay", a.RawMatrix().Data, []float64{-1, 0, -r, 0, 0, 0, -r, 0, -2}, 1e-15)
	near(t, "FouTDecay's B", b, []float64{1, 0, r}, 1e-15)
	a, _ = LegSD(64)
	for i := range 64 {
		if a.At(i, i) != -0.5 {
			t.Errorf("LegSD has %v at %d, want exactly -0.5", a.At(i, i), i)
		}
	}
}

// TestIntegralsOverLongIntervals checks that a projection uses as many panels as its interval is long, a transform as
// many as there are periods, and a sample as many as the basis has waves.
func TestIntegralsOverLongIntervals(t *testing.T) {
	c := Project(Laguerre, 3, 400, func(x float64) float64 { return Laguerre(3, x)[2] + 2*math.Exp(-x/2) })
	near(t, "projection", c, []float64{2, 0, 1}, 1e-12)
	near(t, "nothing", ProjectSamples(Legendre, 2, 1, nil), []float64{0, 0}, 0)
	c = ProjectSamples(Legendre, 60, 1, []float64{3})
	near(t, "constant", c, append([]float64{3}, make([]float64, 59)...), 1e-11)
	for _, at := range []struct{ from, to, freq float64 }{{0, 60, 5}, {0, 60, -50}, {-60, 0, 2}, {100, 160, 3}} {
		// exp(-(t-from)) from its start, or exp(t-to) to its end, has vanished at the other end.
		f, slope, jump := func(t float64) float64 { return math.Exp(at.from - t) }, -1.0, at.from
		if at.to == 0 {
			f, slope, jump = func(t float64) float64 { return math.Exp(t - at.to) }, 1, at.to
		}
		got := FourierTransform(f, at.from, at.to, at.freq)
		want := cmplx.Exp(complex(0, -2*math.Pi*at.freq*jump)) / complex(1, -slope*2*math.Pi*at.freq)
		if cmplx.Abs(got-want) > 1e-12 {
			t.Errorf("transform at %v from %v to %v: found %v, want %v", at.freq, at.from, at.to, got, want)
		}
	}
}

// TestGrowingModeInSoftmax checks that with Re Λ > 0 the softmax puts the most weight on the end. In a long kernel its
// last entry is (1 - exp(-Λ dt))/Λ, although exp(Λ dt l) overflows.
func TestGrowingModeInSoftmax(t *testing.T) {
	lambda, l := complex(0.7, 0.4), 3000
	s := &DSS{Lambda: []complex128{lambda}, W: []complex128{2}, DtRe: 1, DtIm: 1}
	k := s.SoftmaxKernel(l, 0)
	want := 2 * real((1-cmplx.Exp(-lambda))/lambda)
	if math.Abs(k[l-1]-want) > 1e-12 || k[0] != 0 {
		t.Errorf("the kernel goes from %v to %v, want 0 to %v", k[0], k[l-1], want)
	}
}

// TestLogUniform checks that the logarithms of the numbers have the mean and the deviation of a uniform distribution
// between the bounds.
func TestLogUniform(t *testing.T) {
	const n, lo, hi = 20000, 1e-3, 1e-1
	rng := rand.New(rand.NewPCG(3, 4))
	sum, squares := 0.0, 0.0
	for range n {
		x := LogUniform(rng, lo, hi)
		if x < lo || x > hi {
			t.Fatalf("drew %v", x)
		}
		at := math.Log(x/lo) / math.Log(hi/lo) // uniform in [0, 1]
		sum, squares = sum+at, squares+at*at
	}
	mean := sum / n
	if variance := squares/n - mean*mean; math.Abs(mean-0.5) > 4/math.Sqrt(12*n) || math.Abs(variance*12-1) > 0.03 {
		t.Errorf("found the mean %v and the variance %v, want 1/2 and 1/12", mean, variance)
	}
}

// TestPartsOfTheDefinitions checks what steps, trees and points hold in addition to their results.
func TestPartsOfTheDefinitions(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	s := &Selective{A: complexNormals(rng, 2), D: 0.7}
	for range 5 {
		s.Dt = append(s.Dt, 0.1+rng.Float64()/10)
		s.B, s.C = append(s.B, complexNormals(rng, 2)), append(s.C, complexNormals(rng, 2))
	}
	u := normals(rng, 5)
	near(t, "the matrix with a skip", mulVec(s.Matrix(), u), s.Scan(make([]complex128, 2), u), 1e-12)
	nodes, _ := s.ScanTree(u)
	for i, n := range nodes {
		round := 0
		if n.Left >= 0 {
			round = 1 + max(nodes[n.Left].Round, nodes[n.Right].Round)
		}
		if leaf := i < len(u); leaf != (n.Left < 0) || leaf != (n.Right < 0) || n.Round != round {
			t.Errorf("node %d of %+v is in round %d, want %d", i, n, n.Round, round)
		}
	}

	head := &H3{Shift: []*Shift{{B: []float64{1}, C: []float64{2}}}, ShiftD: []float64{0.5}, D: 0.3, Method: Bilinear,
		Diag: &Diagonal{A: []complex128{-1}, B: []complex128{1}, C: []complex128{1}, Dt: 0.1, Pairs: true}}
	k, v := [][]float64{{1}, {-2}}, [][]float64{{3}, {5}}
	for i, step := range head.Steps([][]float64{{1}, {1}}, k, v) {
		key := 2.5 * k[i][0] // C B of the shift, and its skip
		if math.Abs(step.Key[0]-key) > 1e-12 || math.Abs(step.Write[0][0]-key*v[i][0]) > 1e-12 {
			t.Errorf("step %d: the key is %v and writes %v, want %v and %v", i, step.Key, step.Write, key, key*v[i][0])
		}
	}

	five := Gaussian{Mean: make([]float64, 5), Cov: mat.NewSymDense(5, nil)}
	for i := range 5 {
		five.Cov.SetSym(i, i, 1)
	}
	points, weights, err := sigmaPoints(five)
	check(t, err)
	if weights[0] != 0 || math.Abs(weights[1]-0.1) > 1e-15 || math.Abs(points[1][0]-math.Sqrt(5)) > 1e-12 {
		t.Errorf("five dimensions have the weights %v and a point %v, want no weight in the middle", weights, points[1])
	}
}

// TestNothingAndOne checks empty signals, one entry, infinities, and a mode that does not decay.
func TestNothingAndOne(t *testing.T) {
	one := []float64{1}
	for _, empty := range [][]float64{ConvolveFull(nil, one), ConvolveFull(one, nil), ConvolveFFT(nil, one),
		ConvolveFFT(one, nil)} {
		if len(empty) != 0 {
			t.Errorf("a convolution with nothing has %d entries", len(empty))
		}
	}
	if finite([]float64{1, math.Inf(1)}) || finite([]float64{math.Inf(-1)}) || finite([]float64{math.NaN()}) ||
		!finite([]float64{1, -math.MaxFloat64}) {
		t.Error("finite does not tell infinities from numbers")
	}
	if z := holdOne(0); z != 1 {
		t.Errorf("a mode that does not decay holds %v, want 1", z)
	}
	if z, want := holdOne(1), 1/(1-math.Exp(-1)); cmplx.Abs(z-complex(want, 0)) > 1e-15 {
		t.Errorf("a mode of decay 1 holds %v, want %v", z, want)
	}
	near(t, "one bucket", SinkhornOperator([][]float64{{7}}, 3)[0], []float64{1}, 1e-15)
	s := &DPLR{Lambda: []complex128{-0.5 + 2i, -0.5 + 1i}, B: []complex128{1, 0.5 - 1i}, C: []complex128{1i, 2},
		P: [][]complex128{{0.3, -0.2i}}, Dt: 0.2}
	z, power, sum := 0.4+0.5i, complex(1, 0), complex(0, 0)
	for _, k := range s.Kernel(200) {
		sum, power = sum+complex(k, 0)*power, power*z
	}
	if got := s.GeneratingFunction(z); cmplx.Abs(got-sum) > 1e-12 {
		t.Errorf("the generating function is %v, want the sum %v of K_j z^j", got, sum)
	}
}
