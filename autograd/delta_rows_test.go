package autograd_test

import (
	"math"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// deltaForm is a form of the rule: one decay for all rows of a head's state or one for each, with β, with free a and b,
// or with neither.
type deltaForm struct {
	name              string
	byRow, beta, free bool
}

// deltaSequences is DeltaRule of h heads that share hk key heads.
func deltaSequences(name string, lens []int, keeps []bool, f deltaForm, h, hk, dk, dv int) sequences {
	g := h
	if f.byRow {
		g = h * dk
	}
	along := []int{hk * dk, hk * dk, h * dv, g}
	if f.beta {
		along = append(along, h)
	}
	if f.free {
		along = append(along, h*dk, h*dk)
	}
	// Keys about as long as 1, as a norm makes them, so that the state neither dies nor grows.
	unit := 1 / math.Sqrt(float64(dk))
	return sequences{name: "DeltaRule/" + name, lens: lens, keeps: keeps, along: along, states: [][]int{{h, dk, dv}},
		of: func(input, _ int, x float64) float64 {
			switch {
			case input < 2:
				return unit * x
			case input == 3:
				return -0.3 * math.Exp(x)
			case f.beta && input == 4:
				return 1 / (1 + math.Exp(-x))
			case f.free && (input == 4 || input == 5):
				return 0.7 * unit * x
			}
			return x
		},
		op: func(t *autograd.Tape, u, _ ts, r *engine.Rows, states []ts) (y ts, next []ts) {
			x := engine.Delta{Q: u[0], K: u[1], V: u[2], G: u[3], Heads: h, KeyHeads: hk}
			switch {
			case f.beta:
				x.Beta = u[4]
			case f.free:
				x.A, x.B = u[4], u[5]
			}
			return withSlots(states, 1, func(slots []engine.Slots) *tensor.Tensor {
				return t.DeltaRule(x, r, slots[0])
			})
		}}
}

// The CPU's engine works by blocks of 64 positions, in which decays by row are multiplied by sub-blocks of 16. Short
// rows that have a state are stepped where nothing is recorded.
func init() {
	registerSequences(func() []sequences {
		all := []bool{true, true}
		var rows []sequences
		for _, f := range []deltaForm{
			{name: "gated", beta: true}, {name: "gated_by_row", beta: true, byRow: true}, {name: "free", free: true},
			{name: "free_by_row", free: true, byRow: true}, {name: "decay"}, {name: "decay_by_row", byRow: true},
		} {
			rows = append(rows, withBig([]sequences{
				deltaSequences(f.name, []int{5, 5}, nil, f, 2, 2, 3, 4),
				deltaSequences(f.name+"/state", []int{5, 5}, all, f, 2, 1, 3, 2),
				deltaSequences(f.name+"/blocks", []int{131}, all[:1], f, 2, 1, 2, 2),
				deltaSequences(f.name+"/blocks_from_zero", []int{66}, nil, f, 1, 1, 3, 1),
				deltaSequences(f.name+"/one_position", []int{1, 1}, all, f, 2, 2, 3, 2),
				deltaSequences(f.name+"/ages", []int{1, 70, 2, 1, 6}, []bool{true, true, true, false, false}, f, 2, 1, 2, 2),
			}, deltaSequences(f.name+"/equal", []int{150, 150}, all, f, 6, 3, 24, 20),
				deltaSequences(f.name+"/mixed", []int{1, 150, 3, 1, 33, 64, 1, 2},
					[]bool{true, true, true, false, false, true, true, true}, f, 6, 6, 20, 24))...)
		}
		return rows
	})
}
