package kernel

import (
	"math"
	"math/rand/v2"
	"testing"
)

// sameRecord reports whether two records are equal, with all NaN being equal.
func sameRecord(a, b record) bool {
	same := func(x, y float32) bool { return x == y || isNaN(x) && isNaN(y) }
	return a.q == b.q && a.start == b.start && same(a.factor, b.factor) && same(a.sum, b.sum)
}

// TestQuantizeGroupsIsItsDefinition checks that every level gives the bits of the definition, for rows of all lengths
// and sizes, with numbers halfway between two integers.
func TestQuantizeGroupsIsItsDefinition(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(8, 8))
		for n := range 130 {
			x := make([]float32, n)
			size := float32(math.Exp2(float64(rng.IntN(200) - 100)))
			for i := range x {
				x[i] = size * float32(rng.NormFloat64())
				if n%2 == 0 {
					x[i] = float32(rng.IntN(254)-127) / 2
				}
			}
			got := make([]record, ceil(n, groupTerms)+1)
			for i := range got { // previous contents
				got[i] = record{factor: nan, start: 5, sum: 7}
			}
			quantizeGroups(got, x, -8)
			for g, r := range got[:len(got)-1] {
				part := x[g*groupTerms : min((g+1)*groupTerms, n)]
				var want record
				top, sum := float32(0), int32(0)
				for _, v := range part {
					top = max(top, float32(math.Abs(float64(v))))
				}
				for i, v := range part {
					if top > 0 {
						want.q[i] = int8(math.RoundToEven(float64(float32(v * (127 / top)))))
					}
					sum += int32(want.q[i])
				}
				want.factor, want.start = top/127, -8*sum
				want.sum = float32(want.factor * float32(sum))
				if !sameRecord(r, want) {
					t.Fatalf("%v: found %v, want %v", part, r, want)
				}
			}
			if got[len(got)-1] != (record{}) {
				t.Fatalf("%d numbers: the record after them is %v, want zeros", n, got[len(got)-1])
			}
		}
	})
}

// TestQuantizeGroupsSpecials checks zeros, numbers too small to have an inverse, infinities and NaN, in the assembly
// and in the remainder of a row.
func TestQuantizeGroupsSpecials(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		for _, c := range []struct {
			x    []float32
			want record
		}{
			{[]float32{0, 0}, record{}},
			{[]float32{1e-44, -1e-38}, record{}},
			{[]float32{127, -126.5, 0.5, -1.5},
				record{q: [groupTerms]int8{127, -126, 0, -2}, factor: 1, start: 128, sum: -1}},
			{[]float32{3, inf}, record{factor: nan, sum: nan}},
			{[]float32{-inf}, record{factor: nan, sum: nan}},
			{[]float32{nan, 3e38}, record{factor: nan, sum: nan}},
			{[]float32{-math.MaxFloat32, math.MaxFloat32},
				record{q: [groupTerms]int8{-127, 127}, factor: math.MaxFloat32 / 127}},
		} {
			for _, n := range []int{len(c.x), groupTerms} {
				x, got := make([]float32, n), make([]record, 1)
				copy(x, c.x)
				if quantizeGroups(got, x, -128); !sameRecord(got[0], c.want) {
					t.Errorf("%v: found %v, want %v", x, got[0], c.want)
				}
			}
		}
	})
}
