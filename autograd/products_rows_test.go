package autograd_test

import (
	"math"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
)

// productsRows cover products with weights.
func productsRows() []row {
	in, big := [][]int{{2, 5, 7}, {6, 7}, {6}}, [][]int{{4, 128, 128}, {192, 128}, {192}}
	linear := func(name string, a engine.Activation) row {
		return row{name: "Linear/" + name, in: in, big: big,
			op: func(t *autograd.Tape, in ts) ts { return ts{t.Linear(in[0], in[1], in[2], a)} }}
	}
	lowRank := func(name string, a engine.Activation, change func(in ts) engine.LowRank) row {
		return row{name: "LinearLowRank/" + name, in: append(in, [][]int{{3, 7}, {6, 3}, {2, 5, 7}}...),
			big: append(big, [][]int{{16, 128}, {192, 16}, {4, 128, 128}}...),
			op:  func(t *autograd.Tape, in ts) ts { return ts{t.LinearLowRank(in[0], in[1], in[2], change(in), a)} }}
	}
	ids := []int32{3, 0, 3, 1, 2, 3}
	return []row{
		linear("none", engine.None), linear("gelu_tanh", engine.GeluTanh), linear("softplus", engine.Softplus),
		lowRank("none", engine.None, func(in ts) engine.LowRank {
			return engine.LowRank{X: in[0], Down: in[3], Up: in[4], Scale: 0.5}
		}),
		lowRank("softplus", engine.Softplus, func(in ts) engine.LowRank {
			return engine.LowRank{X: in[0], Down: in[3], Up: in[4], Scale: 1}
		}),
		lowRank("other", engine.GeluTanh, func(in ts) engine.LowRank {
			return engine.LowRank{X: in[5], Down: in[3], Up: in[4], Scale: 2}
		}),
		{
			name: "Linear/nobias", in: in[:2], big: big[:2],
			op: func(t *autograd.Tape, in ts) ts { return ts{t.Linear(in[0], in[1], nil, engine.None)} },
		},
		{
			name: "BlockLinear", in: [][]int{{2, 5, 6}, {3, 2, 4}, {3, 4}}, big: [][]int{{4, 256, 192}, {3, 64, 80}, {3,
				80}},
			op: func(t *autograd.Tape, in ts) ts { return ts{t.BlockLinear(in[0], in[1], in[2], engine.Sigmoid)} },
		},
		{
			name: "Embedding", in: [][]int{{5, 4}}, big: [][]int{{512, 256}},
			op: func(t *autograd.Tape, in ts) ts {
				if v := in[0].Dim(0); v > 5 {
					return ts{t.Embedding(in[0], ramp(1024, func(i int) int32 { return int32(i * i % v) }))}
				}
				return ts{t.Embedding(in[0], ids)}
			},
		},
	}
}

// normsRows cover norms with and without a residual sum. The inputs are x, r, w and, for layer norms, b.
func normsRows() []row {
	layer := func(name string, groups int, residual bool) row {
		r := row{name: "AddLayerNorm/" + name, in: [][]int{{5, 8}, {5, 8}, {8}, {8}},
			big: [][]int{{1024, 256}, {1024, 256}, {256}, {256}}}
		r.op = func(t *autograd.Tape, in ts) ts {
			if !residual {
				return ts{t.LayerNorm(in[0], in[2], in[3], groups, 1e-5)}
			}
			s, y := t.AddLayerNorm(in[0], in[1], in[2], in[3], 1e-5)
			return ts{s, y}
		}
		return r
	}
	rms := func(name string, groups int, residual bool) row {
		r := row{name: "AddRMSNorm/" + name, in: [][]int{{5, 6}, {5, 6}, {6}},
			big: [][]int{{512, 768}, {512, 768}, {768}}}
		r.op = func(t *autograd.Tape, in ts) ts {
			if !residual {
				return ts{t.RMSNorm(in[0], in[2], groups, 1e-5)}
			}
			s, y := t.AddRMSNorm(in[0], in[1], in[2], 1e-5)
			return ts{s, y}
		}
		return r
	}
	return []row{
		layer("residual", 1, true), layer("plain", 1, false), layer("groups", 2, false),
		rms("plain", 1, false), rms("residual", 1, true), rms("groups", 2, false),
	}
}

// lossesRows cover losses.
func lossesRows() []row {
	targets := []int32{1, engine.Ignore, 4, 0, 2, 2}
	head := func(name string, big ...[]int) row {
		return row{name: "LinearCrossEntropy/" + name, in: [][]int{{2, 3, 4}, {5, 4}}, big: big,
			op: func(t *autograd.Tape, in ts) ts {
				v := int32(in[1].Dim(0))
				return ts{t.LinearCrossEntropy(in[0], in[1], ramp(in[0].Rows(), func(i int) int32 {
					if id := targets[i%len(targets)]; id != engine.Ignore {
						return (id + int32(i/len(targets))*97) % v
					}
					return engine.Ignore
				}))}
			}}
	}
	return []row{
		head("plain", []int{4, 128, 128}, []int{256, 128}),
		// With this many logits, 256 rows at a time are computed, with their gradients.
		head("groups", []int{1, 2*256 + 61, 3}, []int{8199, 3}),
		{
			name: "CrossEntropy", in: [][]int{{3, 5, 4}}, big: [][]int{{64, 32, 32}},
			op: func(t *autograd.Tape, in ts) ts {
				return ts{t.CrossEntropy(in[0], repeated(in[0].Rows(), []int32{1, engine.Ignore, 3}))}
			},
		},
		{
			name: "SquaredError", in: [][]int{{3, 5, 4}}, big: [][]int{{4, 256, 256}},
			op: func(t *autograd.Tape, in ts) ts {
				return ts{t.SquaredError(in[0], ramp(in[0].Len(), func(i int) float32 { return float32(i%7) / 4 }))}
			},
		},
		{
			name: "SquaredError/missing", in: [][]int{{3, 5, 4}}, big: [][]int{{4, 256, 256}},
			op: func(t *autograd.Tape, in ts) ts { return ts{t.SquaredError(in[0], someMissing(in[0].Len()))} },
		},
		{
			name: "Pinball", in: [][]int{{3, 5, 6}}, big: [][]int{{4, 256, 255}},
			op: func(t *autograd.Tape, in ts) ts {
				return ts{t.Pinball(in[0], someMissing(in[0].Len()/3), []float32{.1, .5, .8})}
			},
		},
	}
}

func init() {
	register(productsRows)
	register(normsRows)
	register(lossesRows)
}

// someMissing returns n targets, some of them NaN.
func someMissing(n int) []float32 {
	return ramp(n, func(i int) float32 {
		if i%5 == 3 {
			return float32(math.NaN())
		}
		return float32(i%7)/4 - 0.6
	})
}
