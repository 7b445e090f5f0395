package classic

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"gonum.org/v1/gonum/mat"
)

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance) {
		t.Errorf("%s: found %g, want %g", what, got, want)
	}
}

// TestWholeFeatures: features are their formulas, on a line and on a wave.
func TestWholeFeatures(t *testing.T) {
	const n = 64
	var rows []float32
	for i := range n {
		rows = append(rows, float32(3+2*float64(i)/(n-1)), float32(math.Sin(2*math.Pi*float64(i)*12/n)))
	}
	x := Whole(rows, 2)
	if len(x) != WholeWidth(2) {
		t.Fatalf("found %d features, want %d", len(x), WholeWidth(2))
	}
	spread := 2 / float64(n-1) * math.Sqrt((n*n-1)/12.0)
	for k, want := range []float64{4, spread, 3, 5, 5, 2, 3 + 2*15./63, 3 + 2*31./63, 3 + 2*47./63} {
		near(t, "line, "+wholeNames[k], x[k], want, 1e-6)
	}
	wave := x[len(wholeNames):]
	near(t, "wave, deviation", wave[1], math.Sqrt(0.5), 1e-6)
	near(t, "wave, slope", wave[5], slopeOf(rows, 2, 1), 1e-5)
	for band := range spectralBands { // 12 cycles of at most 32: in (1/4, 1/2] of half the rate
		want := math.Log(1e-6)
		if band == 1 {
			want = math.Log(1e-6 + 0.25)
		}
		near(t, "wave, "+wholeNames[9+band], wave[9+band], want, 1e-3)
	}
	near(t, "length", x[len(x)-1], math.Log(n), 1e-12)
	long := make([]float32, 100_003) // a prime
	for i := range long {
		long[i] = float32(math.Sin(float64(i) * 3))
	}
	started := time.Now()
	if x := Whole(long, 1); math.Abs(x[9]-math.Log(0.25)) > 0.1 || time.Since(started) > 5*time.Second {
		t.Errorf("found the energy %g of a quick wave of %d rows after %v", x[9], len(long), time.Since(started))
	}
	if one := Whole([]float32{7}, 1); one[0] != 7 || one[5] != 0 {
		t.Errorf("of one row: found %v", one)
	}
}

// slopeOf is the slope by the sums of its definition.
func slopeOf(rows []float32, channels, c int) float64 {
	n := len(rows) / channels
	var st, sx, stt, stx float64
	for i := range n {
		at, x := float64(i)/float64(n-1), float64(rows[i*channels+c])
		st, sx, stt, stx = st+at, sx+x, stt+at*at, stx+at*x
	}
	return (float64(n)*stx - st*sx) / (float64(n)*stt - st*st)
}

// TestRowFeatures: the features of a row are those of the rows up to it.
func TestRowFeatures(t *testing.T) {
	rows := []float32{5, 1, 4, 2, 8, 0}
	x := OfRow(nil, rows, 1, 4)
	want := []float64{8, 6, 3.75, math.Sqrt(85./4 - 3.75*3.75), 1, 8, 4, math.Sqrt(110./5 - 16), 1, 8}
	for k, w := range want {
		near(t, "feature", x[k], w, 1e-9)
	}
	if len(x) != RecentWidth(1) {
		t.Errorf("found %d features, want %d", len(x), RecentWidth(1))
	}
}

// cloud is examples of random features whose class is that of the largest of some linear functions.
func cloud(seed uint64, n, width, classes int) *Examples {
	rng := rand.New(rand.NewPCG(seed, 1))
	e := &Examples{Width: width}
	for range n {
		best := 0
		var x []float64
		for range width {
			x = append(x, rng.NormFloat64())
		}
		for k := range classes {
			if x[k] > x[best] {
				best = k
			}
		}
		e.X, e.Class = append(e.X, x...), append(e.Class, best)
	}
	return e
}

// TestLogisticGradient: the gradient is the central difference of the loss.
func TestLogisticGradient(t *testing.T) {
	const classes, width = 3, 4
	e := cloud(1, 20, width, classes)
	x := mat.NewDense(e.Len(), width, e.X)
	rng := rand.New(rand.NewPCG(2, 2))
	w := make([]float64, (width+1)*classes)
	for i := range w {
		w[i] = rng.NormFloat64()
	}
	grad := make([]float64, len(w))
	logisticLoss(grad, x, e.Class, w, classes, 0.3)
	for i := range w {
		const h = 1e-5
		at := w[i]
		w[i] = at + h
		up := logisticLoss(nil, x, e.Class, w, classes, 0.3)
		w[i] = at - h
		down := logisticLoss(nil, x, e.Class, w, classes, 0.3)
		w[i] = at
		near(t, "gradient", grad[i], (up-down)/(2*h), 1e-7)
	}
}

// TestLogistic: classes that a linear map tells are told, the same at each call; without features the bias is the
// logarithm of the shares.
func TestLogistic(t *testing.T) {
	train, valid, test := cloud(1, 400, 4, 3), cloud(2, 200, 4, 3), cloud(3, 200, 4, 3)
	scale := ScaleOf(train.X, 4)
	for _, e := range []*Examples{train, valid} {
		scale.Apply(e.X)
	}
	l, strength := FitLogistic(train, valid, scale, 3, 0)
	again, _ := FitLogistic(train, valid, scale, 3, 0)
	right := 0
	y := make([]float64, 3)
	for i := range test.Len() {
		l.Predict(test.X[i*4:(i+1)*4], y)
		if y[test.Class[i]] == max(y[0], y[1], y[2]) {
			right++
		}
	}
	if right < 185 || strength > 0.01 {
		t.Errorf("found %d of 200 right, with the penalty %g", right, strength)
	}
	for i := range l.Weights {
		if l.Weights[i] != again.Weights[i] {
			t.Fatalf("weight %d: found %g, then %g", i, l.Weights[i], again.Weights[i])
		}
	}
	flat := &Examples{X: make([]float64, 8), Width: 1, Class: []int{0, 0, 0, 0, 0, 0, 1, 1}}
	l, _ = FitLogistic(flat, flat, Scale{Mean: []float64{0}, Deviation: []float64{1}}, 2, 1)
	near(t, "log odds", float64(l.Weights[2]-l.Weights[3]), math.Log(3), 1e-4)
}

// TestRidge: a linear map is found, and its normal equations hold with the penalty.
func TestRidge(t *testing.T) {
	e := cloud(4, 50, 3, 2)
	e.Class = nil
	for i := range e.Len() {
		e.Y = append(e.Y, 2*e.X[3*i]-e.X[3*i+1]+5)
	}
	scale := Scale{Mean: make([]float64, 3), Deviation: []float64{1, 1, 1}}
	l, _ := FitRidge(e, e, scale, 1, 0)
	for k, want := range []float64{2, -1, 0, 5} {
		near(t, "weight", float64(l.Weights[k]), want, 1e-2)
	}
	l, _ = FitRidge(e, e, scale, 1, 0.5)
	for j := range 3 { // Σ x (W x + b - y) + λ n W = 0
		sum := 0.5 * 50 * float64(l.Weights[j])
		for i := range e.Len() {
			y := []float64{0}
			l.predict(e.X[3*i:3*i+3], y)
			sum += e.X[3*i+j] * (y[0] - e.Y[i])
		}
		near(t, "normal equation", sum, 0, 1e-4)
	}
}

// TestBoostedResiduals: with the rate 1 and no penalty a stump fits two steps exactly, and a tree of two cuts four.
func TestBoostedResiduals(t *testing.T) {
	for _, c := range []struct {
		depth int
		y     []float64
	}{{1, []float64{3, 3, 3, 8, 8, 8, 8, 8}}, {2, []float64{1, 1, 2, 2, 8, 8, 9, 9}}} {
		e := &Examples{Width: 2, Y: c.y}
		for i := range c.y {
			e.X = append(e.X, float64(i%2), float64(i)) // the first says nothing
		}
		b := &booster{train: e, outputs: 1, depth: c.depth, rate: 1, least: 1}
		m, _ := b.fit(e, Scale{Mean: []float64{0, 0}, Deviation: []float64{1, 1}}, 1)
		for i, want := range c.y {
			y := []float64{0}
			m.Predict([]float64{float64(i % 2), float64(i)}, y)
			near(t, "value", y[0], want, 1e-6)
		}
	}
}

// TestBoosted: classes by a product of features are told, which a linear map cannot; leaves are Newton's step.
func TestBoosted(t *testing.T) {
	var all [3]*Examples
	rng := rand.New(rand.NewPCG(5, 5))
	for k := range all {
		e := &Examples{Width: 2}
		for range 400 {
			a, b := rng.NormFloat64(), rng.NormFloat64()
			e.X, e.Class = append(e.X, a, b), append(e.Class, 0)
			if a*b > 0 {
				e.Class[len(e.Class)-1] = 1
			}
		}
		all[k] = e
	}
	unit := Scale{Mean: []float64{0, 0}, Deviation: []float64{1, 1}}
	m, rounds := FitBoosted(all[0], all[1], unit, 2, 0)
	right := 0
	for i := range all[2].Len() {
		y := []float64{0, 0}
		m.Predict(all[2].X[2*i:2*i+2], y)
		if (y[1] > y[0]) == (all[2].Class[i] == 1) {
			right++
		}
	}
	if right < 370 || rounds < 5 {
		t.Errorf("found %d of 400 right after %d rounds", right, rounds)
	}
	trees := 0
	for range 20 { // classes that features do not tell
		for _, e := range all[:2] {
			for i := range e.Class {
				e.Class[i] = rng.IntN(2)
			}
		}
		if _, rounds := FitBoosted(all[0], all[1], unit, 2, 0); rounds != 0 {
			trees++
		}
	}
	if trees > 5 {
		t.Errorf("found trees for noise in %d of 20 cases", trees)
	}
	if err := m.Check(2, 2); err != nil {
		t.Error(err)
	}
	m.Trees[0].Feature[0] = 7
	if m.Check(2, 2) == nil {
		t.Error("found no error for a tree of a feature that is not there")
	}
	// one leaf: -G/(H + λ) with g = p - y, h = p(1-p)
	e := &Examples{Width: 1, X: make([]float64, 4), Class: []int{0, 0, 0, 1}}
	b := &booster{train: e, outputs: 2, depth: 1, rate: 1, penalty: 2, least: 1}
	m, _ = b.fit(e, Scale{Mean: []float64{0}, Deviation: []float64{1}}, 1)
	p := math.Exp(m.Start[0]) / (math.Exp(m.Start[0]) + math.Exp(m.Start[1]))
	near(t, "leaf", float64(m.Trees[0].Leaf[0]), -(4*p-3)/(4*p*(1-p)+2), 1e-6)
}
