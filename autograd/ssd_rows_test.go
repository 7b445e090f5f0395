//go:build todo

package autograd_test

import (
	"math"

	"github.com/hippo-ssm/hippo/autograd"
)

// ssdRow is SSD of h heads of p channels in g groups with n states over b sequences of l positions, with or without a
// state: inputs x with B and C, dt, A, D, and the state where there is one.
func ssdRow(name string, b, l, h, p, g, n int, state bool) row {
	shapes := func(b, l, h, p, n int) [][]int {
		s := [][]int{{b, l, h*p + 2*g*n}, {b, l, h}, {h}, {h}}
		if state {
			s = append(s, []int{b, h, p, n})
		}
		return s
	}
	const bigHeads, bigP = 6, 20
	return row{name: "SSD/" + name, in: shapes(b, l, h, p, n), big: shapes(2, 150, bigHeads, bigP, 24),
		of: func(input, _ int, x float64) float64 {
			switch input {
			case 1:
				return math.Log1p(math.Exp(x))
			case 2:
				return -math.Exp(x)
			}
			return x
		},
		op: func(t *autograd.Tape, in ts) ts {
			p := p
			if in[2].Len() == bigHeads {
				p = bigP
			}
			if !state {
				y, _ := t.SSD(in[0], in[1], in[2], in[3], p, g, nil)
				return ts{y}
			}
			y, next := t.SSD(in[0], in[1], in[2], in[3], p, g, in[4])
			return ts{y, next}
		}}
}

// ssdRows: the CPU's engine works by blocks of 64 positions.
func ssdRows() []row {
	return []row{
		ssdRow("plain", 2, 5, 2, 3, 1, 4, false), ssdRow("state", 2, 5, 2, 3, 1, 4, true),
		ssdRow("groups", 1, 4, 4, 2, 2, 3, true), ssdRow("blocks", 1, 131, 2, 1, 1, 2, true),
		ssdRow("blocks_from_zero", 1, 66, 1, 2, 1, 1, false), ssdRow("one_position", 2, 1, 2, 2, 1, 3, true),
	}
}

func init() {
	register(ssdRows)
}
