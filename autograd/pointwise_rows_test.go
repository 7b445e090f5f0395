package autograd_test

import (
	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// pointwiseRows cover the elementwise operations.
func pointwiseRows() []row {
	one, two := [][]int{{3, 7}}, [][]int{{3, 7}, {3, 7}}
	bigOne, bigTwo := [][]int{{1024, 256}}, [][]int{{1024, 256}, {1024, 256}}
	act := func(name string, a engine.Activation) row {
		return row{name: "Activate/" + name, in: one, big: bigOne,
			op: func(t *autograd.Tape, in ts) ts { return ts{t.Activate(in[0], a)} }}
	}
	gate := func(name string, a engine.Activation) row {
		return row{name: "Gate/" + name, in: two, big: bigTwo,
			op: func(t *autograd.Tape, in ts) ts { return ts{t.Gate(in[0], in[1], a)} }}
	}
	bias := func(name string, a engine.Activation) row {
		return row{name: "AddBias/" + name, in: [][]int{{2, 3, 4}, {4}}, big: [][]int{{4, 256, 512}, {512}},
			op: func(t *autograd.Tape, in ts) ts { return ts{t.AddBias(in[0], in[1], a)} }}
	}
	return []row{
		act("none", engine.None), act("gelu_tanh", engine.GeluTanh), act("gelu_erf", engine.GeluErf),
		act("silu", engine.SiLU), act("sigmoid", engine.Sigmoid), act("tanh", engine.Tanh), act("softplus",
			engine.Softplus),
		act("squared_relu", engine.SquaredReLU), act("heavy_tail", engine.HeavyTail),
		gate("none", engine.None), gate("silu", engine.SiLU), gate("sigmoid", engine.Sigmoid),
		gate("squared_relu", engine.SquaredReLU),
		bias("none", engine.None), bias("softplus", engine.Softplus),
		{ // some parts have no gradient
			name: "Gate/columns", in: [][]int{{3, 21}}, big: [][]int{{1024, 519}},
			op: func(t *autograd.Tape, in ts) ts {
				d := (in[0].Dim(-1) - 7) / 2
				p := t.Columns(in[0], 2, d, d, 5)
				return ts{t.Gate(p[1], p[2], engine.SiLU)}
			},
		},
		{ // parts have several gradients, and so does the whole
			name: "Mul/columns", in: [][]int{{3, 14}, {3, 7}}, big: [][]int{{1024, 256}, {1024, 128}},
			op: func(t *autograd.Tape, in ts) ts {
				x := t.Activate(in[0], engine.Tanh)
				before := t.Activate(x, engine.SiLU)
				p := t.Columns(x, in[1].Dim(-1), in[1].Dim(-1))
				return ts{before, t.Mul(p[0], p[0]), t.Mul(p[0], in[1]), t.Activate(x, engine.Sigmoid)}
			},
		},
		{
			name: "AddBias/columns", in: [][]int{{3, 9}, {4}}, big: [][]int{{1024, 517}, {512}},
			op: func(t *autograd.Tape, in ts) ts {
				x := t.Columns(in[0], 5, in[1].Len())[1]
				return ts{t.AddBias(x, in[1], engine.Softplus), t.AddBias(x, in[1], engine.None)}
			},
		},
		{
			name: "Add", in: two, big: bigTwo,
			op: func(t *autograd.Tape, in ts) ts { return ts{t.Add(in[0], in[1])} },
		},
		{
			name: "Mul", in: two, big: bigTwo,
			op: func(t *autograd.Tape, in ts) ts { return ts{t.Mul(in[0], in[1])} },
		},
		{
			name: "Mul/square", in: one, big: bigOne,
			op: func(t *autograd.Tape, in ts) ts { return ts{t.Mul(in[0], in[0])} },
		},
		{
			name: "GLU", in: [][]int{{3, 10}}, big: [][]int{{1024, 512}},
			op: func(t *autograd.Tape, in ts) ts { return ts{t.GLU(in[0])} },
		},
		{
			name: "NegExp", in: one, big: [][]int{{4096, 16}},
			op: func(t *autograd.Tape, in ts) ts { return ts{t.NegExp(in[0])} },
		},
		{
			name: "Sine", in: [][]int{{2, 3, 5}, {1, 5}}, big: [][]int{{4, 256, 64}, {1, 64}},
			op: func(t *autograd.Tape, in ts) ts { return ts{t.Sine(in[0], in[1])} },
		},
		{
			name: "Scale", in: one, big: bigOne,
			op: func(t *autograd.Tape, in ts) ts { return ts{t.Scale(in[0], -0.3)} },
		},
		{
			name: "Clamp", in: one, big: bigOne,
			op: func(t *autograd.Tape, in ts) ts { return ts{t.Clamp(in[0], -0.3, 0.7)} },
		},
		{
			name: "ScaleShift", in: [][]int{{2, 3, 4}, {4}, {4}}, big: [][]int{{4, 256, 128}, {128}, {128}},
			op: func(t *autograd.Tape, in ts) ts { return ts{t.ScaleShift(in[0], in[1], in[2])} },
		},
		{
			name: "DecayWindow", in: [][]int{{4, 5}}, big: [][]int{{1024, 256}},
			op: func(t *autograd.Tape, in ts) ts {
				l, d := in[0].Dim(0), in[0].Dim(1)
				at, rate := tensor.New(1, l+2, 1), tensor.New(1, 1, d)
				at.CopyFrom(ramp(l+2, func(i int) float32 { return float32(i) / 4 }))
				rate.CopyFrom(ramp(d, func(i int) float32 { return float32(i) - 2 }))
				return ts{t.DecayWindow(in[0], at, rate, 0.125)}
			},
		},
		{
			name: "RealPairs", in: [][]int{{3, 2}}, big: [][]int{{256, 64}},
			op: func(t *autograd.Tape, in ts) ts { return ts{t.RealPairs(in[0])} },
		},
	}
}

// dropoutSequences returns Dropout of d elements per position.
func dropoutSequences(name string, lens []int, d int) sequences {
	return sequences{name: "Dropout/" + name, lens: lens, along: []int{d}, trains: true,
		op: func(t *autograd.Tape, u, _ ts, r *engine.Rows, states []ts) (y ts, next []ts) {
			return ts{t.Dropout(u[0], 0.25, r)}, make([]ts, len(states))
		}}
}

func init() {
	register(pointwiseRows)
	registerSequences(func() []sequences {
		return withBig([]sequences{dropoutSequences("plain", []int{4, 4}, 9),
			dropoutSequences("mixed", []int{2, 1, 5}, 3)},
			dropoutSequences("equal", []int{512, 512}, 256), dropoutSequences("mixed", []int{1, 700, 1, 3, 90}, 257))
	})
}
