//go:build gpu

package vulkan

import (
	"slices"
	"testing"
)

// TestMatricesOf checks that only products are listed whose operand types shaders support, which a subgroup computes,
// and whose sums are float32.
func TestMatricesOf(t *testing.T) {
	product := func(numbers, sums, scope uint32) matrixProperties {
		return matrixProperties{m: 16, n: 8, k: 32, a: numbers, b: numbers, c: sums, sum: sums, scope: scope}
	}
	const integers, workgroup = 3, 2
	mixed := product(float16Numbers, float32Numbers, subgroupScope)
	mixed.b = bfloat16Numbers
	all := []matrixProperties{product(integers, float32Numbers, subgroupScope), mixed,
		product(float16Numbers, float16Numbers, subgroupScope), product(bfloat16Numbers, float32Numbers, workgroup),
		product(float16Numbers, float32Numbers, subgroupScope), product(bfloat16Numbers, float32Numbers, subgroupScope)}
	halves, brains := Matrix{"float16", 16, 8, 32}, Matrix{"bfloat16", 16, 8, 32}
	for _, test := range []struct {
		float16, bfloat16 bool
		want              []Matrix
	}{{true, true, []Matrix{halves, brains}}, {true, false, []Matrix{halves}}, {false, true, []Matrix{brains}}, {}} {
		if got := matricesOf(all, test.float16, test.bfloat16); !slices.Equal(got, test.want) {
			t.Errorf("float16 %v, bfloat16 %v: %v, want %v", test.float16, test.bfloat16, got, test.want)
		}
	}
	if d := (Info{Matrices: []Matrix{halves}}); d.Has() != "cooperative matrices of float16" {
		t.Errorf("a device with matrices of float16 has %q", d.Has())
	}
}
