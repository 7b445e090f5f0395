//go:build todo

package autograd_test

import (
	"math"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/tensor"
)

type scan func(u, delta, a, bc, dw *tensor.Tensor, groups int, state *tensor.Tensor) (y, next *tensor.Tensor)

// scanOp runs a scan on the inputs u, Δ, A, B and C, D, and the state where there is one.
func scanOp(of func(t *autograd.Tape) scan, groups int) func(t *autograd.Tape, in ts) ts {
	return func(t *autograd.Tape, in ts) ts {
		if len(in) == 5 {
			y, _ := of(t)(in[0], in[1], in[2], in[3], in[4], groups, nil)
			return ts{y}
		}
		y, next := of(t)(in[0], in[1], in[2], in[3], in[4], groups, in[5])
		return ts{y, next}
	}
}

// scanRow is SelectiveScan of d channels in g groups with n states over b sequences of l positions, with or without a
// state. Δ is the softplus of random numbers and A minus their exponential, as Mamba begins.
func scanRow(name string, b, l, d, g, n int, state bool) row {
	shapes := func(b, l, d, n int) [][]int {
		s := [][]int{{b, l, d}, {b, l, d}, {d, n}, {b, l, 2 * g * n}, {d}}
		if state {
			s = append(s, []int{b, d, n})
		}
		return s
	}
	return row{name: "SelectiveScan/" + name, in: shapes(b, l, d, n), big: shapes(2, 90, 300, 16),
		of: func(input, _ int, x float64) float64 {
			switch input {
			case 1:
				return math.Log1p(math.Exp(x))
			case 2:
				return -math.Exp(x)
			}
			return x
		},
		op: scanOp(func(t *autograd.Tape) scan { return t.SelectiveScan }, g)}
}

// complexScanRow is SelectiveScanComplex. A is near zero, so that states last.
func complexScanRow(name string, b, l, d, g, n int, state bool) row {
	shapes := func(b, l, d, n int) [][]int {
		s := [][]int{{b, l, d}, {b, l, d}, {d, n, 2}, {b, l, 4 * g * n}, {d}}
		if state {
			s = append(s, []int{b, d, n, 2})
		}
		return s
	}
	return row{name: "SelectiveScanComplex/" + name, in: shapes(b, l, d, n), big: shapes(2, 70, 300, 8),
		scale: []float64{1, 1, 0.2, 1, 1, 1},
		of: func(input, i int, x float64) float64 {
			switch {
			case input == 1:
				return math.Log1p(math.Exp(x))
			case input == 2 && i%2 == 0: // the real part
				return -math.Abs(x)
			}
			return x
		},
		op: scanOp(func(t *autograd.Tape) scan { return t.SelectiveScanComplex }, g)}
}

// scanRows: the CPU's engine goes along the sequence in chunks of 32 positions, and gives each task 128 channels of a
// group.
func scanRows() []row {
	return []row{
		scanRow("plain", 2, 5, 3, 1, 2, false), scanRow("state", 2, 5, 3, 1, 2, true),
		scanRow("chunks", 1, 67, 2, 1, 3, true), scanRow("slabs", 1, 2, 131, 1, 2, true),
		scanRow("groups", 2, 4, 6, 3, 2, true), scanRow("one_position", 1, 1, 3, 1, 2, true),
		complexScanRow("plain", 2, 5, 3, 1, 2, false), complexScanRow("state", 2, 5, 3, 1, 2, true),
		complexScanRow("chunks_groups", 1, 35, 4, 2, 1, true),
	}
}

func init() {
	register(scanRows)
}
