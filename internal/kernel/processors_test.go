package kernel

import (
	"encoding/binary"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"testing"
)

// TestProcessorsAgree checks that float32 products and functions of single elements have the same bits with the
// assembly for all processors, of amd64 and of arm64.
func TestProcessorsAgree(t *testing.T) {
	const m, n, k = 7, 70, 800
	sum := func(x []float32) uint32 {
		var bytes []byte
		for _, v := range x {
			bytes = binary.LittleEndian.AppendUint32(bytes, math.Float32bits(v))
		}
		return crc32.ChecksumIEEE(bytes)
	}
	numbers := func(count int) []float32 { return normals(rand.New(rand.NewPCG(1, 2)), count) }
	product := func(op Op) func() []float32 {
		return func() []float32 {
			p := Product{Op: op, M: m, N: n, K: k, A: numbers(m * k), LDA: k, B: numbers(n * k), LDB: n,
				C: make([]float32, m*n), LDC: n, Bias: numbers(n)}
			switch op {
			case NT:
				p.LDB = k
			case TN:
				p.LDA = m
			}
			Gemm(p)
			return p.C
		}
	}
	function := func(f Function) func() []float32 {
		return func() []float32 {
			x := numbers(1003)
			for i := range x {
				x[i] *= float32(i%30) - 15
			}
			f.Into(x, x)
			return x
		}
	}
	for name, c := range map[string]struct {
		compute func() []float32
		want    uint32
	}{
		"A·B":       {product(NN), 0x504d4df9},
		"A·Bᵀ":      {product(NT), 0x179fd33f},
		"Aᵀ·B":      {product(TN), 0x4f72cd0c},
		"gelu":      {function(FuncGelu), 0x99a5e063},
		"gelu, erf": {function(FuncGeluErf), 0xdc48500a},
		"silu":      {function(FuncSiLU), 0x9a3444b5},
		"sigmoid":   {function(FuncSigmoid), 0x5a4c0e77},
		"tanh":      {function(FuncTanh), 0xfd6bb586},
		"softplus":  {function(FuncSoftplus), 0x3c0a5810},
		"elu + 1":   {function(FuncELU1), 0xb3d38f1f},
		"relu²":     {function(FuncReLU2), 0xc188dd6f},
		"exp": {func() []float32 {
			x := numbers(1003)
			ExpShift(x, 0.3, 1.7)
			return x
		}, 0xf38df5b5},
	} {
		t.Run(name, func(t *testing.T) {
			atLevels(t, func(t *testing.T) {
				if got := sum(c.compute()); cpu != generic && got != c.want {
					t.Errorf("the bits have the sum %#08x, want %#08x", got, c.want)
				}
			})
		})
	}
}
