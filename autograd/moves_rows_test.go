//go:build todo

package autograd_test

import (
	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
)

// movesRows cover the operations that only copy elements, or add up some.
func movesRows() []row {
	big := [][]int{{4, 256, 256}}
	reverse := func(name string, lag int) row {
		return row{name: "Reverse/" + name, in: [][]int{{2, 5, 3}}, big: big,
			op: func(t *autograd.Tape, in ts) ts { return ts{t.Reverse(in[0], lag)} }}
	}
	lengths, at := []int{2, 5, 1}, []int{4, 0, 3}
	pooled, bigPooled := [][]int{{3, 5, 4}}, [][]int{{16, 128, 256}}
	return []row{
		reverse("plain", 0), reverse("lag", 1), reverse("past_the_end", 7),
		{
			name: "Append", in: [][]int{{2, 3, 4}, {2, 2, 4}}, big: [][]int{{4, 256, 128}, {4, 100, 128}},
			op: func(t *autograd.Tape, in ts) ts { return ts{t.Append(in[0], in[1])} },
		},
		{
			name: "AppendRows", in: [][]int{{2, 3, 4}, {2, 2, 4}}, big: [][]int{{4, 256, 128}, {4, 100, 128}},
			op: func(t *autograd.Tape, in ts) ts {
				var c engine.RowCache
				t.AppendRows(&c, in[0])
				t.AppendRows(&c, in[1])
				return ts{t.Positions(c.X, 0, c.Len)}
			},
		},
		{
			name: "Join", in: [][]int{{2, 3}, {2, 3}, {2, 3}}, big: [][]int{{1024, 256}, {1024, 256}, {1024, 256}},
			op: func(t *autograd.Tape, in ts) ts { return ts{t.Join(in...)} },
		},
		{
			name: "Split", in: [][]int{{2, 3, 7}}, big: [][]int{{4, 64, 1024}},
			op: func(t *autograd.Tape, in ts) ts {
				d := in[0].Dim(-1)
				return t.Split(in[0], d/7, d-d/7-d/3, d/3)
			},
		},
		{
			name: "Positions", in: [][]int{{2, 5, 3}}, big: big,
			op: func(t *autograd.Tape, in ts) ts { return ts{t.Positions(in[0], 1, in[0].Dim(1)-2)} },
		},
		{
			name: "Positions/last", in: [][]int{{2, 3, 4}}, big: big,
			op: func(t *autograd.Tape, in ts) ts { return ts{t.LastPosition(in[0])} },
		},
		{
			name: "Rows", in: [][]int{{2, 5, 3}}, big: big,
			op: func(t *autograd.Tape, in ts) ts { return ts{t.Rows(in[0], 3, in[0].Rows()/2)} },
		},
		{
			name: "MeanPositions", in: [][]int{{2, 5, 3}}, big: big,
			op: func(t *autograd.Tape, in ts) ts { return ts{t.MeanPositions(in[0], nil)} },
		},
		{
			name: "MeanPositions/lengths", in: pooled, big: bigPooled,
			op: func(t *autograd.Tape, in ts) ts {
				return ts{t.MeanPositions(in[0], scaled(lengths, in[0].Dim(0), in[0].Dim(1)/5))}
			},
		},
		{
			name: "PickPositions", in: pooled, big: bigPooled,
			op: func(t *autograd.Tape, in ts) ts {
				return ts{t.PickPositions(in[0], scaled(at, in[0].Dim(0), in[0].Dim(1)/5))}
			},
		},
		{
			name: "FirstPositions", in: pooled, big: bigPooled,
			op: func(t *autograd.Tape, in ts) ts {
				return ts{t.FirstPositions(in[0], scaled(lengths, in[0].Dim(0), in[0].Dim(1)/5))}
			},
		},
	}
}

// scaled are n of the values times by, over and over.
func scaled(values []int, n, by int) []int {
	return ramp(n, func(i int) int { return values[i%len(values)] * by })
}

func init() {
	register(movesRows)
}
