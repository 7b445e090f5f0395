//go:build todo

package autograd_test

import "github.com/hippo-ssm/hippo/autograd"

// recurrenceRows cover Recurrence: inputs u, R, and s0 where there is one.
func recurrenceRows() []row {
	build := func(name string, b, l, n, linear int, state bool) row {
		shapes := func(b, l, n int) [][]int {
			s := [][]int{{b, l, n}, {n, n}}
			if state {
				s = append(s, []int{b, n})
			}
			return s
		}
		// R of 64 times 64 numbers of this size makes states neither grow nor fade.
		return row{name: "Recurrence/" + name, in: shapes(b, l, n), big: shapes(64, 12, 128),
			scale: []float64{1, 0.12, 1},
			op: func(t *autograd.Tape, in ts) ts {
				tanhs := in[0].Dim(2) - linear
				if !state {
					y, _ := t.Recurrence(in[0], in[1], nil, tanhs)
					return ts{y}
				}
				y, next := t.Recurrence(in[0], in[1], in[2], tanhs)
				return ts{y, next}
			}}
	}
	return []row{
		build("tanh", 2, 5, 3, 0, false), build("state", 2, 4, 3, 0, true), build("part_linear", 1, 4, 5, 3, true),
		build("linear", 1, 4, 3, 3, true), build("one", 2, 1, 3, 0, true),
	}
}

func init() {
	register(recurrenceRows)
}
