package data

import (
	"math"
	"math/rand/v2"
	"testing"
)

func seeded(seed, epoch uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, epoch)) }

func TestPermutationIsBijection(t *testing.T) {
	sizes := []uint64{999, 1000, 1023, 1024, 1025, 4095, 4097, 65535, 65537, 100_003}
	for n := uint64(1); n <= 130; n++ {
		sizes = append(sizes, n)
	}
	for _, n := range sizes {
		for seed := range uint64(3) {
			p := newPermutation(n, seeded(seed, 0))
			seen := make([]bool, n)
			for i := range n {
				j := p.at(i)
				if j >= n || seen[j] {
					t.Fatalf("n %d, seed %d: %d goes to %d, outside or a second time", n, seed, i, j)
				}
				seen[j] = true
			}
		}
	}
}

func TestPermutationOfHugeRange(t *testing.T) {
	for _, n := range []uint64{1<<62 + 1, math.MaxInt64, math.MaxUint64} {
		p := newPermutation(n, seeded(1, 0))
		seen := map[uint64]bool{}
		for i := range uint64(1000) {
			j := p.at(n - 1 - i)
			if j >= n || seen[j] {
				t.Fatalf("n %d: %d outside or a second time", n, j)
			}
			seen[j] = true
		}
	}
}

// TestPermutationIsFair checks that over many epochs every element comes to every position about equally often, even
// with few elements, for which a Feistel network is weakest. χ² has (n−1)² degrees of freedom; the bound is 6 standard
// deviations.
func TestPermutationIsFair(t *testing.T) {
	const epochs = 20_000
	for _, n := range []int{2, 3, 5, 16, 17} {
		hits := make([]int, n*n)
		for e := range uint64(epochs) {
			p := newPermutation(uint64(n), seeded(7, e))
			for i := range n {
				hits[i*n+int(p.at(uint64(i)))]++
			}
		}
		expected := float64(epochs) / float64(n)
		chi2 := 0.0
		for _, h := range hits {
			chi2 += (float64(h) - expected) * (float64(h) - expected) / expected
		}
		df := float64((n - 1) * (n - 1))
		if bound := df + 6*math.Sqrt(2*df); chi2 > bound {
			t.Errorf("n %d: χ² %.1f, want less than %.1f", n, chi2, bound)
		}
	}
}

// TestPermutationShuffles checks that neighbors do not stay neighbors.
func TestPermutationShuffles(t *testing.T) {
	const n = 100_000
	p := newPermutation(n, seeded(3, 0))
	near := 0
	for i := range uint64(n - 1) {
		if d := int64(p.at(i+1)) - int64(p.at(i)); d > -100 && d < 100 {
			near++
		}
	}
	if near > 300 { // 200 are expected
		t.Errorf("%d of %d neighbors stay within 100", near, n)
	}
}
