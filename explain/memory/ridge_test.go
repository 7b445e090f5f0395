package memory

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// normals are n normal draws.
func normals(seed uint64, n int) []float32 {
	rng := rand.New(rand.NewPCG(seed, 1))
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	return x
}

// TestRidgesAreTheFormula: for every λ the guesses are L (K + λ k̄ I)⁻¹ Y, solved directly, whether there are more
// states than numbers or less.
func TestRidgesAreTheFormula(t *testing.T) {
	for _, numbers := range []int{5, 200} {
		const n, later, m = 40, 17, 6
		x, y := normals(1, (n+later)*numbers), normals(2, n*m)
		fits := newRidges(x, numbers, n, y)
		all := mat.NewDense(n+later, numbers, nil)
		for i, v := range x {
			all.Set(i/numbers, i%numbers, float64(v))
		}
		wanted := mat.NewDense(n, m, nil)
		for i, v := range y {
			wanted.Set(i/m, i%m, float64(v))
		}
		first := all.Slice(0, n, 0, numbers)
		var products, left mat.Dense
		products.Mul(first, first.T())
		left.Mul(all.Slice(n, n+later, 0, numbers), first.T())
		for _, lambda := range []float64{1e-4, 1e-2, 1, 100} {
			var k, solved, want mat.Dense
			k.CloneFrom(&products)
			for i := range n {
				k.Set(i, i, k.At(i, i)+lambda*products.Trace()/n)
			}
			if err := solved.Solve(&k, wanted); err != nil {
				t.Fatal(err)
			}
			want.Mul(&left, &solved)
			got := fits.guess(lambda)
			worst, size := 0.0, 0.0
			for i, v := range got {
				worst = max(worst, math.Abs(float64(v)-want.At(i/m, i%m)))
				size = max(size, math.Abs(want.At(i/m, i%m)))
			}
			// Products in float32 are off by some 1e-7 k̄, which a division by λ k̄ enlarges.
			if len(got) != later*m || worst > (1e-4+2e-6/lambda)*max(1, size) {
				t.Errorf("%d numbers, λ = %g: off by %.2g, of up to %.2g", numbers, lambda, worst, size)
			}
		}
	}
	if got := newRidges(make([]float32, 60), 3, 15, make([]float32, 30)).guess(1); got != nil {
		t.Errorf("states that are all zero give %v, want no guess", got)
	}
}

// TestSketchMovesEachNumberToOnePlace: with its sign, and as many numbers to each place as to another.
func TestSketchMovesEachNumberToOnePlace(t *testing.T) {
	r := &readings{l: 20000, ages: []int{0}, step: 5000} // so that there is room for 5 numbers
	s := r.sketch([]*statePart{{rule: ruleDecay, channels: 3, inner: 4}, {rule: ruleDecay, channels: 1, inner: 2}})
	if s.size != 4 || s.parts[0].room != 2 || s.parts[1].sign != nil {
		t.Fatalf("found %d places, %d of them of the first part, want 4 and 2", s.size, s.parts[0].room)
	}
	places := make([]int, 2)
	for i := range 12 {
		x, row := make([]float32, 12), make([]float32, s.size)
		x[i] = 3
		s.parts[0].add(row, x)
		at := 0
		if row[0] == 0 {
			at = 1
		}
		if v := row[at]; v != 3 && v != -3 || row[1-at] != 0 || row[2] != 0 || row[3] != 0 {
			t.Errorf("number %d becomes %v", i, row)
		}
		places[at]++
	}
	if places[0] != 6 {
		t.Errorf("found %v numbers at the two places, want 6 at each", places)
	}
}
