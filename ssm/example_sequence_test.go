package ssm_test

import (
	"fmt"
	"math"

	"github.com/hippo-ssm/hippo/ssm"
)

// LegS needs no window and no step size: eight numbers hold the whole past, however long, with equal weight.
func ExampleMemorizeLegS() {
	for _, l := range []int{100, 1000, 10000} {
		f := make([]float64, l)
		for k := range f {
			f[k] = math.Sin(6 * float64(k) / float64(l))
		}
		c, err := ssm.MemorizeLegS(8, f, ssm.Bilinear)
		if err != nil {
			fmt.Println(err)
			return
		}
		half := ssm.Reconstruct(ssm.Legendre, c[l-1], []float64{0.5})[0]
		fmt.Printf("after %d steps: half way it was %.2f, remembered %.2f\n", l, math.Sin(3), half)
	}
	// Output:
	// after 100 steps: half way it was 0.14, remembered 0.19
	// after 1000 steps: half way it was 0.14, remembered 0.15
	// after 10000 steps: half way it was 0.14, remembered 0.14
}

// The state of linear attention is a sum that grows by one term for each key and value: a memory of fixed size.
func ExampleLinearAttention() {
	a := &ssm.LinearAttention{Phi: func(x float64) float64 { return x }} // keys that are 0 or 1 need no other features
	keys := [][]float64{{1, 0}, {0, 1}}
	values := [][]float64{{3}, {5}}
	state, norm := [][]float64{{0}, {0}}, []float64{0, 0}
	a.Scan(state, norm, keys, keys, values)
	recalled := a.Scan(state, norm, [][]float64{{1, 0}, {0, 1}}, [][]float64{{0, 0}, {0, 0}}, [][]float64{{0}, {0}})
	fmt.Println(recalled)
	// Output: [[3] [5]]
}

// State-space duality: the recurrence and a masked attention compute the same results.
func ExampleSSD() {
	half := -math.Ln2 // the state halves at every step
	s := &ssm.SSD{
		LogDecay: []float64{half, half, half},
		B:        [][]float64{{1}, {1}, {1}},
		C:        [][]float64{{1}, {1}, {1}},
	}
	x := [][]float64{{8}, {0}, {4}}
	fmt.Printf("%.1f\n", s.Scan([][]float64{{0}}, x))
	fmt.Printf("%.1f\n", s.Attend(x))
	// Output:
	// [[8.0] [4.0] [6.0]]
	// [[8.0] [4.0] [6.0]]
}
