package autograd_test

import (
	"math"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// deltaForm is a form of the rule: with one decay for all rows of a head's state or one for each row, and with β, with
// free a and b, or with neither.
type deltaForm struct {
	name              string
	byRow, beta, free bool
	wide              int // number of components of a key at the large shapes
}

// deltaSequences returns DeltaRule of h heads that share hk key heads.
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
	// Keys have a length of up to about 1, as after a norm, so that the state does not grow.
	unit := 1 / math.Sqrt(float64(max(dk, f.wide)))
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

var deltaForms = []deltaForm{
	{"gated", false, true, false, 24}, {"gated_by_row", true, true, false, 24}, {"free", false, false, true, 24},
	{"free_by_row", true, false, true, 24}, {"decay", false, false, false, 24},
	{"decay_by_row", true, false, false, 24},
}

// The CPU's engine works in blocks of 32 positions, in parts of 16. Without recording, rows of up to 8 positions that
// have a state are stepped. All forms run the same code except for decays and the equations to solve, so each form has
// only some of the rows.
func init() {
	registerSequences(func() []sequences {
		all := []bool{true, true}
		var rows []sequences
		for i, f := range deltaForms {
			h, hk := 4, 2
			if i%2 == 1 {
				hk = 4
			}
			rows = append(rows, withBig([]sequences{
				deltaSequences(f.name, []int{5, 5}, nil, f, 2, 2, 3, 4),
				deltaSequences(f.name+"/ages", []int{1, 35, 2, 1, 6}, []bool{true, true, true, false, false}, f, 2, 1,
					2, 2),
			}, deltaSequences(f.name+"/equal", []int{70, 70}, all, f, h, hk, 24, 20),
				deltaSequences(f.name+"/mixed", []int{1, 70, 3, 1, 33, 32, 10, 2},
					[]bool{true, true, true, false, false, true, true, true}, f, 4, 4, 20, 24))...)
		}
		gated, free := deltaForms[0], deltaForms[3]
		gated.wide, free.wide = 128, 64
		return append(rows, withBig([]sequences{
			deltaSequences("gated/one_position", []int{1, 1}, all, gated, 2, 2, 3, 2),
			deltaSequences("free_by_row/blocks", []int{67}, all[:1], free, 1, 1, 2, 2),
		}, deltaSequences("gated/wide", []int{40, 12}, all, gated, 2, 1, 128, 128),
			deltaSequences("free_by_row/wide", []int{40, 12}, all, free, 2, 1, 64, 64))...)
	})
}
